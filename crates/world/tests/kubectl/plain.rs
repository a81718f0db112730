//! What is printed, without what differs from run to run.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Ages are alone in their column; what has a name before it, such as `cpu:  500m`, is none, and `500m` is none anywhere.
const AGE: &str = r"(?m)(^|[^:]  |\(|Duration:  )(\d+d|\d+h|\dm|\d+s){1,2}( ago)?(\)|  |$)";

/// What is replaced by what, in this order. `#` is a letter of names that are drawn or hashed: no vowels, and none of
/// the digits that look like one.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
    (r#"resourceVersion: "\d+""#, r#"resourceVersion: "<rv>""#),
    (r#""resourceVersion": ?"\d+""#, r#""resourceVersion": "<rv>""#),
    (r"127\.0\.0\.1:\d+", "<address>"),
    // Of services and pods. Nodes say theirs themselves.
    (r"\b10\.\d+\.\d+\.\d+\b", "<ip>"),
    (r"\+berth\b", ""),
    // Temporary files.
    (r"/tmp/[\w./-]+", "<file>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+0000", "<time>"),
    (r"Resource Version:  \d+", "Resource Version:  <rv>"),
    // What a template is hashed to, and what is drawn to make a name of a prefix.
    (r"-#{6,10}-#{5}\b", "-<hash>-<drawn>"),
    (r"(-|hash(=|: ))#{6,10}\b", "${1}<hash>"),
    (r"-#{5}\b", "-<drawn>"),
    // Of containers and images.
    (r"(containerd://|sha256:)[0-9a-f]{64}", "${1}<digest>"),
    (AGE, "$1<age>$3$4"),
    // One age after another ends where that one begins.
    (AGE, "$1<age>$3$4"),
];

static REPLACED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let read = |pattern: &str| Regex::new(&pattern.replace('#', "[bcdfghjklmnpqrstvwxz2456789]")).unwrap();
    PATTERNS.iter().map(|(pattern, by)| (read(pattern), *by)).collect()
});

static GAPS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)(\S)( {2,}|\t)").unwrap());

/// What kubectl lists from a map of Go's, in whatever order that gives: what stands before it, and between two of it.
const UNORDERED: [(&str, &str); 2] = [("due to error: [cannot ", ", cannot "), ("Warning: ", "; ")];

/// The same, a line each.
const UNORDERED_LINES: &str = "cannot delete ";

fn in_order(line: &str) -> String {
    for (before, between) in UNORDERED {
        let Some((head, rest)) = line.split_once(before) else { continue };
        let (list, tail) = rest.split_once(']').map_or((rest, ""), |(list, _)| rest.split_at(list.len()));
        let mut listed: Vec<&str> = list.split(between).collect();
        listed.sort_unstable();
        return [head, before, &listed.join(between), tail].concat();
    }
    line.to_owned()
}

pub(crate) fn plain(text: &str, namespace: &str) -> String {
    // The width of a column depends on what is in it.
    let text = GAPS.replace_all(text, |found: &Captures<'_>| format!("{}  ", &found[1]));
    let text = text.replace(namespace, "{ns}");
    let mut text: String = text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
    for (pattern, by) in REPLACED.iter() {
        text = pattern.replace_all(&text, *by).into_owned();
    }
    let mut lines: Vec<String> = text.lines().map(in_order).collect();
    let is_listed = |line: &String| line.starts_with(UNORDERED_LINES);
    for run in lines.chunk_by_mut(|one, next| is_listed(one) && is_listed(next)) {
        run.sort_unstable();
    }
    lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// The command lines after which two transcripts differ, and in what.
pub(crate) fn differences(expected: &str, said: &str) -> String {
    let (expected, said) = (steps(expected), steps(said));
    let mut wrong = String::new();
    for index in 0..expected.len().max(said.len()) {
        let nothing = (String::new(), Vec::new());
        let was = expected.get(index).unwrap_or(&nothing);
        let is = said.get(index).unwrap_or(&nothing);
        if was == is {
            continue;
        }
        wrong.extend([if is.0.is_empty() { &*was.0 } else { &*is.0 }, "\n"]);
        let length = wrong.len();
        for line in was.1.iter().filter(|line| !is.1.contains(line)) {
            wrong.extend(["  - ", line, "\n"]);
        }
        for line in is.1.iter().filter(|line| !was.1.contains(line)) {
            wrong.extend(["  + ", line, "\n"]);
        }
        if wrong.len() == length {
            wrong.extend(["  the same lines in another order: ", &is.1.join(" | "), "\n"]);
        }
    }
    wrong
}

/// Each `$ line` under the name of its case, with what was printed.
fn steps(transcript: &str) -> Vec<(String, Vec<&str>)> {
    let mut steps: Vec<(String, Vec<&str>)> = Vec::new();
    let mut case = "";
    for line in transcript.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            case = name;
        } else if let Some(typed) = line.strip_prefix("$ ") {
            steps.push((format!("{case}: {typed}"), Vec::new()));
        } else if let Some((_, printed)) = steps.last_mut() {
            printed.push(line);
        }
    }
    steps
}
