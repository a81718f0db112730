//! `berth crds`

use super::{Answer, Failure};

pub(crate) fn run() -> Result<Answer, Failure> {
    Ok(Answer::Done)
}
