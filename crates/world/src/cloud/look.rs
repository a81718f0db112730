//! What the cloud shows of itself.

use std::sync::Arc;

use berth_cloud::machine::{Machine, MachineId, Notice};
use berth_cloud::provider::{Page, PageMark, Refusal};
use berth_core::catalog::Catalog;
use jiff::Timestamp;

use super::account::{Account, Reply};
use super::history::{Call, Record};

impl Account {
    pub fn get(&mut self, id: &MachineId, now: Timestamp) -> Reply<Machine> {
        self.call(Call::Get, Some(id.as_str()), now, |account, _| {
            let shown = account.record(id).and_then(|record| record.shown_at(account.now));
            shown.ok_or_else(|| Refusal::NotFound(id.clone()))
        })
    }

    pub fn list(&mut self, from: Option<&PageMark>, now: Timestamp) -> Reply<Page> {
        let about = from.map(|mark| &*mark.0);
        self.call(Call::List, about, now, |account, number| account.page(from, number))
    }

    pub fn catalog(&mut self, now: Timestamp) -> Reply<Arc<Catalog>> {
        self.call(Call::Catalog, None, now, |account, _| {
            Ok(account.catalog_at(account.elapsed_ms(account.now)))
        })
    }

    /// All that was ever offered, whatever the weather.
    pub(crate) fn whole_catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    pub fn notices(&mut self, now: Timestamp) -> Reply<Vec<Notice>> {
        self.call(Call::Notices, None, now, |account, _| {
            let standing = |notice: &&Notice| account.record(&notice.machine).is_some_and(Record::is_alive);
            Ok(account.notices.iter().filter(standing).cloned().collect())
        })
    }

    /// A mark is the place of the last machine on the page before.
    fn page(&self, from: Option<&PageMark>, number: u64) -> Result<Page, Refusal> {
        let first = match from {
            None => 0,
            Some(mark) => mark
                .0
                .parse::<usize>()
                .map_err(|_| Refusal::Invalid(format!("`{}` is not a mark of this cloud's pages", mark.0)))?
                .saturating_add(1),
        };
        let faults = &self.weather.lists;
        let at_ms = self.elapsed_ms(self.now);
        let strikes = |odds, fault| self.strikes(odds, fault, number, at_ms);
        if strikes(&faults.empty, "list empty") {
            return Ok(Page::default());
        }
        let elsewhere = strikes(&faults.elsewhere, "list elsewhere");
        let mut shown = self
            .records
            .iter()
            .enumerate()
            .skip(first)
            .filter(|(_, record)| !elsewhere || record.purchase.is_none())
            .filter_map(|(place, record)| Some((place, record.shown_at(self.now)?)));
        let page: Vec<(usize, Machine)> = shown.by_ref().take(faults.page_size.max(1)).collect();
        let more = shown.next().is_some() && !strikes(&faults.cut, "list cut");
        let next = page.last().filter(|_| more).map(|(place, _)| PageMark(place.to_string().into()));
        let copies = if strikes(&faults.doubled, "list doubled") { 2 } else { 1 };
        let machines =
            page.into_iter().flat_map(|(_, machine)| std::iter::repeat_n(machine, copies)).collect();
        Ok(Page { machines, next })
    }
}
