//! What a request may say about how it is meant, and what is wrong with it.

use crate::failure::{Cause, Failure};
use crate::names::{forbidden, invalid, not_supported, required, too_long};
use crate::request::Query;

const MANAGER_BYTES_MAX: usize = 128;

/// The options of a kind of write, by the name that the server has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    Create,
    Update,
    Patch,
    Apply,
}

impl Options {
    pub(crate) fn check(self, query: &Query) -> Result<(), Failure> {
        let mut causes = Vec::new();
        if self == Self::Apply && query.field_manager.is_empty() {
            causes.push(required("fieldManager", "is required for apply patch"));
        }
        if self == Self::Patch && query.force.is_some() {
            causes.push(forbidden("force", "may not be specified for non-apply patch"));
        }
        causes.extend(manager_problems(&query.field_manager));
        causes.extend(dry_run_problem(&query.dry_run));
        if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_options(self.name(), causes)) }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

fn manager_problems(manager: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if manager.len() > MANAGER_BYTES_MAX {
        causes.push(too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    for (at, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
        causes.push(invalid("fieldManager", manager, &why));
    }
    causes
}

/// The only way to try something is to try all of it.
pub(crate) fn dry_run_problem(dry_run: &[String]) -> Option<Cause> {
    let is_wrong = dry_run.iter().any(|stage| stage != "All");
    is_wrong.then(|| not_supported("dryRun", &format!("{dry_run:?}"), &["All"]))
}
