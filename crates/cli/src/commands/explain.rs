//! `berth explain`

use super::{Answer, Failure};
use crate::args::ExplainPod;

pub(crate) fn run(_explain: &ExplainPod) -> Result<Answer, Failure> {
    Ok(Answer::Done)
}
