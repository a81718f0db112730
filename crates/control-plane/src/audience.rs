//! Those who wait for long work.

use std::fmt;

/// They hear how far it is, and may leave before it is done.
#[derive(Clone, Copy)]
pub struct Audience<'a> {
    pub say: &'a dyn Fn(&str),
    pub has_left: &'a dyn Fn() -> bool,
}

impl Audience<'_> {
    /// Waits in silence to the end.
    pub fn silent() -> Audience<'static> {
        Audience { say: &|_| (), has_left: &|| false }
    }
}

impl fmt::Debug for Audience<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Audience")
    }
}
