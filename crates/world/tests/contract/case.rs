//! What is asked: cases of a file, each a name and its requests.

use std::collections::BTreeMap;

use http::Method;

use crate::request::{Deed, Form, Request, Until, Watched};

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) requests: Vec<Request>,
    /// Why the world answers otherwise, where it does so on purpose, by the request's index.
    pub(crate) differences: BTreeMap<usize, String>,
}

impl Case {
    /// A case begins with `# name`, a request with its method, or with `! why` if the world differs on purpose.
    /// What follows a request are its headers, `@name: value`, and its body.
    pub(crate) fn all(text: &str) -> Vec<Self> {
        let mut cases: Vec<Self> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(name) = line.strip_prefix("# ") {
                let (name, requests, differences) = (name.to_owned(), Vec::new(), BTreeMap::new());
                cases.push(Self { name, requests, differences });
                continue;
            }
            let case = cases.last_mut().unwrap_or_else(|| panic!("no case before: {line}"));
            if let Some(why) = line.strip_prefix("! ") {
                case.differences.insert(case.requests.len(), why.to_owned());
                continue;
            }
            if let Some(request) = begin(line) {
                case.requests.push(request);
                continue;
            }
            let request = case.requests.last_mut().unwrap_or_else(|| panic!("no request before: {line}"));
            match line.strip_prefix('@').and_then(|header| header.split_once(": ")) {
                Some((name, value)) => request.headers.push((name.to_owned(), value.to_owned())),
                None => request.body.extend([line, "\n"]),
            }
        }
        cases
    }
}

/// `GET path`, `PATCH path merge`; `WATCH path 3`, and `HEAR 2 1` for one more event of the second request's watch;
/// `COMPACT`. With `~` or `?` before it, it is asked again until it succeeds or is refused; with `managed` at the end, it
/// is compared who manages what; with `at:/a,/items/name=b`, only that much of the answer.
fn begin(line: &str) -> Option<Request> {
    let until = Until::LETTERS.iter().find(|(letter, _)| line.starts_with(*letter));
    let mut words = line.trim_start_matches(['~', '?']).split_whitespace();
    let method = words.next()?;
    if method == "COMPACT" {
        let nowhere = Request::new(Method::GET, "", Form::Object, String::new());
        return Some(Request { deed: Deed::Compact, ..nowhere });
    }
    let (path, how) = (words.next()?, words.next().unwrap_or_default());
    let known = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "WATCH", "HEAR"];
    let method = known.into_iter().find(|known| *known == method)?;
    let form = Form::WORDS.iter().find(|(word, _)| *word == how).map_or(Form::Object, |(_, form)| *form);
    let (method, deed) = match method {
        "WATCH" => ("GET", Deed::Watch(Watched::parse(how))),
        "HEAR" => ("GET", Deed::Hear(path.parse().unwrap(), Watched::parse(how))),
        method => (method, Deed::Ask),
    };
    let last = words.next().unwrap_or(how);
    let at = last.strip_prefix("at:").into_iter().flat_map(|paths| paths.split(','));
    Some(Request {
        at: at.map(str::to_owned).collect(),
        until: until.map_or(Until::Answered, |(_, until)| *until),
        shows_managers: last == "managed",
        deed,
        ..Request::new(method.parse().unwrap(), path, form, String::new())
    })
}
