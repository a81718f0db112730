//! The cloud as an operator has it: what it asks is judged first, and may be the last that it asks.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, Note, Notice, Order};
use berth_cloud::provider::{Answer, Launched, Page, PageMark};
use berth_core::catalog::Catalog;
use berth_world::World;
use berth_world::cloud::{Call, SimulatedCloud};

use crate::truth::Truth;

/// The operator ends at its so many-th call of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloudCrash {
    pub(crate) call: Call,
    pub(crate) nth: u64,
    /// The call has had its effect.
    pub(crate) is_after: bool,
}

#[derive(Clone)]
pub(crate) struct JudgedCloud {
    pub(crate) world: World,
    pub(crate) cloud: SimulatedCloud,
    pub(crate) truth: Truth,
    pub(crate) client: String,
    pub(crate) crash: Option<CloudCrash>,
    /// Calls of the kind that it ends at.
    pub(crate) asked: Arc<AtomicU64>,
}

impl fmt::Debug for JudgedCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JudgedCloud").field("client", &self.client).finish_non_exhaustive()
    }
}

impl JudgedCloud {
    async fn judged<T>(
        &self,
        call: Call,
        about: &str,
        answer: Answer<'_, T>,
    ) -> Result<T, berth_cloud::provider::Refusal> {
        let crash = self.crash.filter(|crash| crash.call == call);
        let is_last = crash.is_some_and(|crash| self.asked.fetch_add(1, Ordering::Relaxed) + 1 == crash.nth);
        if is_last && !crash.is_some_and(|crash| crash.is_after) {
            self.end().await;
        }
        self.truth.before_call(call, about);
        let answer = answer.await;
        if is_last {
            self.end().await;
        }
        answer
    }

    async fn end(&self) {
        self.world.crash(&self.client);
        pending::<()>().await;
    }
}

impl Cloud for JudgedCloud {
    fn prepare<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<Note>> {
        self.cloud.prepare(order)
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        Box::pin(self.judged(Call::Launch, order.token.as_str(), self.cloud.launch(order)))
    }

    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
        Box::pin(self.judged(Call::Get, id.as_str(), self.cloud.get(id)))
    }

    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
        Box::pin(self.judged(Call::List, "", self.cloud.list(from)))
    }

    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
        Box::pin(self.judged(Call::Terminate, id.as_str(), self.cloud.terminate(id)))
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(self.judged(Call::Catalog, "", self.cloud.catalog()))
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(self.judged(Call::Notices, "", self.cloud.notices()))
    }
}
