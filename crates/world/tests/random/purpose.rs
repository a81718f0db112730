//! Where the world differs on purpose, and why.

use crate::asking::Said;
use crate::request::Request;

/// Why these two answers may differ, if they may.
pub(crate) fn why(request: &Request, kubernetes: &Said, world: &Said) -> Option<&'static str> {
    let both =
        |text: &str| [kubernetes, world].iter().all(|said| said.iter().any(|line| line.contains(text)));
    if both("pod updates may not change fields other than") {
        return Some("the world does not tell how structures of the server's own differ");
    }
    if both("`selector` does not match template `labels`") {
        return Some("labels that are empty are to the world as if they were not there");
    }
    if request.watched.is_some() && without_repetition(kubernetes) == without_repetition(world) {
        return Some("who writes what is there already becomes its manager, which the server writes down");
    }
    None
}

/// Without changes of nothing but managers, which no comparison shows.
fn without_repetition(events: &Said) -> Vec<String> {
    let mut different: Vec<String> = Vec::new();
    for event in events {
        let object = event.replace("\"type\":\"ADDED\"", "\"type\":\"MODIFIED\"");
        if different.last().is_none_or(|last| *last != object) {
            different.push(object);
        }
    }
    different
}
