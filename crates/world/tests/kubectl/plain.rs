//! What is printed, without what differs from run to run.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What is replaced by what, in this order.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
    (r#"resourceVersion: "\d+""#, r#"resourceVersion: "<rv>""#),
    (r#""resourceVersion": ?"\d+""#, r#""resourceVersion": "<rv>""#),
    (r"127\.0\.0\.1:\d+", "<address>"),
    (r"\b10\.0\.\d+\.\d+\b", "<ip>"),
    (r"\+berth\b", ""),
    // Temporary files.
    (r"/tmp/[\w./-]+", "<file>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+0000", "<time>"),
    (r"Resource Version:  \d+", "Resource Version:  <rv>"),
    // Ages are alone in their column; what has a name before it, such as `cpu:  500m`, is none.
    (r"(?m)(^|[^:]  |\()(\d+[dhms]){1,2}( ago)?(\)|  |$)", "$1<age>$3$4"),
];

static REPLACED: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| PATTERNS.iter().map(|(pattern, by)| (Regex::new(pattern).unwrap(), *by)).collect());

static GAPS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)(\S)( {2,}|\t)").unwrap());

pub(crate) fn plain(text: &str, namespace: &str) -> String {
    // The width of a column depends on what is in it.
    let text = GAPS.replace_all(text, |found: &Captures<'_>| format!("{}  ", &found[1]));
    let text = text.replace(namespace, "{ns}");
    let mut text: String = text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
    for (pattern, by) in REPLACED.iter() {
        text = pattern.replace_all(&text, *by).into_owned();
    }
    text
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
        for line in was.1.iter().filter(|line| !is.1.contains(line)) {
            wrong.extend(["  - ", line, "\n"]);
        }
        for line in is.1.iter().filter(|line| !was.1.contains(line)) {
            wrong.extend(["  + ", line, "\n"]);
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
