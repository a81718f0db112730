//! A cloud that only says what it offers: for whoever plans and does not buy.

use std::sync::Arc;

use berth_core::catalog::Catalog;

use crate::machine::{Machine, MachineId, Note, Notice, Order};
use crate::provider::{Answer, Cloud, Launched, Page, PageMark, Refusal};

#[derive(Clone, Debug)]
pub struct QuotingCloud {
    catalog: Arc<Catalog>,
}

impl QuotingCloud {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog }
    }
}

fn denied<T>() -> Result<T, Refusal> {
    Err(Refusal::Denied("it only says what it offers".to_owned()))
}

impl Cloud for QuotingCloud {
    fn prepare<'a>(&'a self, _: &'a Order) -> Answer<'a, Option<Note>> {
        Box::pin(async { denied() })
    }

    fn launch<'a>(&'a self, _: &'a Order) -> Answer<'a, Launched> {
        Box::pin(async { denied() })
    }

    fn get<'a>(&'a self, _: &'a MachineId) -> Answer<'a, Machine> {
        Box::pin(async { denied() })
    }

    fn list<'a>(&'a self, _: Option<&'a PageMark>) -> Answer<'a, Page> {
        Box::pin(async { Ok(Page::default()) })
    }

    fn terminate<'a>(&'a self, _: &'a MachineId) -> Answer<'a, ()> {
        Box::pin(async { denied() })
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(async { Ok(self.catalog.clone()) })
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
