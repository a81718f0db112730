//! What is asked: cases of a file, each a name and its requests.

use std::collections::BTreeMap;

use crate::request::{Form, Request, Watched};

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

/// `GET path`, `PATCH path merge`, `WATCH path 3`; quiet with a `~` before it, with managers by `managed` at the end.
fn begin(line: &str) -> Option<Request> {
    let mut words = line.trim_start_matches('~').split_whitespace();
    let (method, path, how) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let known = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "WATCH"];
    let method = known.into_iter().find(|known| *known == method)?;
    let form = Form::WORDS.iter().find(|(word, _)| *word == how).map_or(Form::Object, |(_, form)| *form);
    let (method, watched) = match (method, how.strip_prefix("until:")) {
        ("WATCH", Some(name)) => ("GET", Some(Watched::Until(name.to_owned()))),
        ("WATCH", None) => ("GET", Some(Watched::Events(how.parse().unwrap()))),
        (method, _) => (method, None),
    };
    Some(Request {
        is_quiet: line.starts_with('~'),
        shows_managers: how == "managed" || words.next() == Some("managed"),
        watched,
        ..Request::new(method.parse().unwrap(), path, form, String::new())
    })
}
