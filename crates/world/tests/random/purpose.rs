//! Where the world differs on purpose, and why.

use crate::asking::Said;
use crate::request::Request;

/// Why these two answers may differ, if they may.
pub(crate) fn why(_request: &Request, kubernetes: &Said, world: &Said) -> Option<&'static str> {
    let both = |text: &str| [kubernetes, world].iter().all(|said| said.iter().any(|line| line.contains(text)));
    if both("pod updates may not change fields other than") {
        return Some("the world does not tell how structures of the server's own differ");
    }
    if kubernetes.iter().any(|line| line.contains("kube-api-access-")) {
        return Some("the world has no keys for pods, so it does not mount them");
    }
    None
}
