//! Promises with numbers.

use std::fmt;

/// A promise, and whether it holds.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) text: String,
    pub(super) holds: bool,
}

impl Bar {
    pub(super) fn not_measured(what: &str) -> Self {
        Self { text: format!("{what}: not measured"), holds: false }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.holds { "holds" } else { "MISSED" }, self.text)
    }
}
