//! The cloud as an operator has it: what it asks is judged first, and may be the last that it asks.

use std::collections::BTreeSet;
use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use axum::body::Bytes;
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, Note, Notice, Order};
use berth_cloud::provider::{Answer, Launched, Page, PageMark, Refusal, Trouble};
use berth_cloud::vpsie::{Sent, Transport};
use berth_core::catalog::Catalog;
use berth_world::World;
use berth_world::cloud::Call;
use berth_world::vpsie::{Deed, InProcess};
use http::Request;
use serde_json::Value;

use crate::truth::Truth;

/// The operator ends at its so many-th call of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloudCrash {
    pub(crate) call: Call,
    pub(crate) nth: u64,
    /// The call has had its effect.
    pub(crate) is_after: bool,
}

tokio::task_local! {
    /// The uid of the claim for which something is being launched.
    static BUYER: String;
}

/// Sees what an operator asks its cloud.
#[derive(Clone)]
pub(crate) struct Witness {
    pub(crate) world: World,
    pub(crate) truth: Truth,
    pub(crate) client: String,
    pub(crate) crash: Option<CloudCrash>,
    /// Calls of the kind that it ends at.
    pub(crate) asked: Arc<AtomicU64>,
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Witness {
    async fn judged<T>(&self, call: Call, about: &str, answer: impl Future<Output = T>) -> T {
        let crash = self.crash.filter(|crash| crash.call == call);
        let is_last = crash.is_some_and(|crash| self.asked.fetch_add(1, Ordering::Relaxed) + 1 == crash.nth);
        if is_last && !crash.is_some_and(|crash| crash.is_after) {
            self.end().await;
        }
        self.truth.before_call(&self.client, call, about);
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

/// A cloud of which it is known for whom it launches.
#[derive(Clone, Debug)]
pub(crate) struct JudgedCloud {
    pub(crate) cloud: Arc<dyn Cloud>,
    /// `None`: what it asks is judged where it is sent.
    pub(crate) witness: Option<Witness>,
}

impl JudgedCloud {
    async fn judged<T>(&self, call: Call, about: &str, answer: Answer<'_, T>) -> Result<T, Refusal> {
        match &self.witness {
            Some(witness) => witness.judged(call, about, answer).await,
            None => answer.await,
        }
    }
}

impl Cloud for JudgedCloud {
    fn prepare<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<Note>> {
        self.cloud.prepare(order)
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        let token = order.token.as_str();
        Box::pin(BUYER.scope(token.to_owned(), self.judged(Call::Launch, token, self.cloud.launch(order))))
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

    fn sets_up(&self) -> bool {
        self.cloud.sets_up()
    }

    fn troubles(&self) -> BTreeSet<Trouble> {
        self.cloud.troubles()
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(self.judged(Call::Notices, "", self.cloud.notices()))
    }
}

/// With it in the environment all that VPSie is asked is told.
const TELL: &str = "BERTH_TELL";

/// The way to VPSie: what is sent there is judged.
#[derive(Clone, Debug)]
pub(crate) struct JudgedTransport {
    pub(crate) vpsie: InProcess,
    pub(crate) witness: Witness,
}

impl Transport for JudgedTransport {
    fn send(&self, request: Request<Bytes>) -> Sent<'_> {
        let path = request.uri().path();
        let line = format!("{} {path}", request.method());
        let (call, about) = match Deed::of(request.method().as_str(), path) {
            Deed::Create => (Call::Launch, BUYER.try_with(String::clone).unwrap_or_default()),
            Deed::Delete => (Call::Terminate, deleted(path, request.body())),
            _ => (Call::List, String::new()),
        };
        Box::pin(async move {
            let sent = async {
                let mut sent = self.vpsie.send(request);
                // What is bought is bought by now, whether or not anybody waits for the answer.
                let first = poll_fn(|context| Poll::Ready(sent.as_mut().poll(context))).await;
                if call == Call::Launch {
                    self.witness.truth.bought_for(&about);
                }
                let answer = match first {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => sent.await,
                };
                if std::env::var_os(TELL).is_some() {
                    let now = self.witness.world.clock_of(&self.witness.client);
                    let answer = answer.as_ref().map(|answer| answer.status().as_u16());
                    eprintln!("{now} {}: {line} {about}: {answer:?}", self.witness.client);
                }
                answer
            };
            self.witness.judged(call, &about, sent).await
        })
    }
}

/// Which machine is to be deleted: the path says it, or the body.
fn deleted(path: &str, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    body["identifier"].as_str().unwrap_or(last).to_owned()
}
