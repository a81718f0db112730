//! `berth crds`

use super::{Answer, Failure};
use crate::out;

pub(crate) fn run() -> Result<Answer, Failure> {
    out::text(&berth_api::crds::yaml()?)?;
    Ok(Answer::Done)
}
