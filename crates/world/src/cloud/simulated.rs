//! The simulated cloud behind the trait, in tokio's time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, Note, Notice, Order};
use berth_cloud::provider::{Answer, Launched, Page, PageMark, Refusal};
use berth_core::catalog::Catalog;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::account::{Account, Reply};
use super::history::Happening;

/// A cloud in this process. Clones are the same cloud.
#[derive(Clone, Debug)]
pub struct SimulatedCloud {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    account: Mutex<Account>,
    /// When it was `began_at` by tokio's clock.
    began: Instant,
    began_at: Timestamp,
    asked: watch::Sender<()>,
}

impl SimulatedCloud {
    /// Goes on from the account's time. Must be called where tokio runs: its clock is the cloud's.
    pub fn new(account: Account) -> Self {
        let began_at = account.now();
        let asked = watch::Sender::new(());
        let shared = Shared { account: Mutex::new(account), began: Instant::now(), began_at, asked };
        Self { shared: Arc::new(shared) }
    }

    /// Looks at the truth, as of now.
    pub fn inspect<T>(&self, look: impl FnOnce(&Account) -> T) -> T {
        let mut account = self.account();
        account.advance(self.now());
        look(&account)
    }

    /// All that happens, from the beginning: machines join and leave, and whatever else there is.
    pub fn happenings(&self) -> Happenings {
        Happenings { cloud: self.clone(), taken: 0, asked: self.shared.asked.subscribe() }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.shared.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.shared.began.elapsed()).unwrap_or(SignedDuration::MAX);
        self.shared.began_at.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// What is asked is done once the future is polled. Whoever drops it then has lost the answer only.
    async fn ask<T>(&self, ask: impl FnOnce(&mut Account, Timestamp) -> Reply<T>) -> Result<T, Refusal> {
        let reply = ask(&mut self.account(), self.now());
        self.shared.asked.send_replace(());
        sleep(reply.after).await;
        reply.answer
    }

    /// Changes something by hand. Whoever waits for the next happening looks again.
    pub(crate) fn touch<T>(&self, change: impl FnOnce(&mut Account, Timestamp) -> T) -> T {
        let changed = change(&mut self.account(), self.now());
        self.shared.asked.send_replace(());
        changed
    }

    async fn until(&self, at: Option<Timestamp>) {
        let Some(at) = at else { return std::future::pending().await };
        let after = Duration::try_from(at.duration_since(self.shared.began_at)).unwrap_or_default();
        match self.shared.began.checked_add(after) {
            Some(instant) => sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }
}

/// Each reader takes every happening once, in its order.
#[derive(Debug)]
pub struct Happenings {
    cloud: SimulatedCloud,
    taken: usize,
    asked: watch::Receiver<()>,
}

impl Happenings {
    /// Waits for the next. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Happening {
        loop {
            // Seen before looking: whoever asks after the look wakes it.
            self.asked.mark_unchanged();
            let taken = self.taken;
            let (next, due) =
                self.cloud.inspect(|account| (account.history().get(taken).cloned(), account.next_due()));
            if let Some(next) = next {
                self.taken += 1;
                return next;
            }
            tokio::select! {
                biased;
                // The sender lives in `self.cloud`, so this cannot fail.
                _ = self.asked.changed() => {}
                () = self.cloud.until(due) => {}
            }
        }
    }
}

impl Cloud for SimulatedCloud {
    fn prepare<'a>(&'a self, _: &'a Order) -> Answer<'a, Option<Note>> {
        Box::pin(async { Ok(None) })
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        Box::pin(self.ask(|account, now| account.launch(order, now)))
    }

    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
        Box::pin(self.ask(|account, now| account.get(id, now)))
    }

    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
        Box::pin(self.ask(move |account, now| account.list(from, now)))
    }

    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
        Box::pin(self.ask(|account, now| account.terminate(id, now)))
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(self.ask(Account::catalog))
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(self.ask(Account::notices))
    }
}
