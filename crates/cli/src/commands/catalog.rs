//! `berth catalog`

use super::{Answer, Failure};
use crate::args::{CatalogImport, CatalogList};

pub(crate) fn list(_list: &CatalogList) -> Result<Answer, Failure> {
    Ok(Answer::Done)
}

pub(crate) fn import(_import: &CatalogImport) -> Result<Answer, Failure> {
    Ok(Answer::Done)
}
