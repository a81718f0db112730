//! The life in a cluster: its controllers, and the loop that lets them work.
//!
//! A controller is told of every change and says which objects are worth another look; looking at one, it decides
//! what to write. The loop is one task that takes one object at a time, controllers in their order and objects in
//! the order in which they came up, so that the same world lives the same life.

mod accounts;
mod budgets;
mod cronjobs;
mod daemonsets;
mod deployments;
mod endpoints;
mod expiry;
mod garbage;
mod history;
mod jobs;
mod kubelet;
mod machines;
mod namespaces;
mod nodes;
mod owned;
mod podgc;
mod pods;
mod protection;
mod refused;
mod replicasets;
mod report;
mod roles;
mod scheduler;
mod statefulsets;
mod taints;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use tokio::time::sleep_until;

use crate::api::{Act, Api};
use crate::store::{Change, Key};

pub use kubelet::Kubelets;
pub(crate) use kubelet::{amounts, of_containers};
pub(crate) use report::{Report, Severity};
pub(crate) use view::View;

use refused::{Attempt, Refusal};
use report::Reports;

/// Something that keeps the cluster as it should be.
pub(crate) trait Controller: fmt::Debug + Send {
    /// Who it is on record as writing.
    fn name(&self) -> &'static str;

    /// Which objects a change gives reason to look at.
    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key>;

    /// Which objects something outside of the cluster gives reason to look at.
    fn stir(&mut self, _: View<'_>) -> Vec<Key> {
        Vec::new()
    }

    /// What to do about one object, which may be gone by now. Decides by what is there, not by what has happened.
    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision;

    /// What to do at once where one of the writes was refused, which is tried again later: what people hear of it, and
    /// what the object says of itself all the same.
    fn refused(&mut self, _: &Key, _: &Refusal, _: View<'_>) -> Decision {
        Decision::none()
    }
}

/// What is to be done, in this order. Where one write fails, those after it are left out, the controller says what to do
/// instead, and the object is looked at again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    pub(crate) acts: Vec<Act>,
    /// What is told once all that has been done.
    pub(crate) reports: Vec<Report>,
    /// When to look again, if nothing happens before.
    pub(crate) again: Option<Timestamp>,
}

impl Decision {
    pub(crate) fn none() -> Self {
        Self::default()
    }

    pub(crate) fn act(act: Act) -> Self {
        Self { acts: vec![act], ..Self::default() }
    }

    pub(crate) fn again(at: Timestamp) -> Self {
        Self { again: Some(at), ..Self::default() }
    }
}

/// Every controller of a cluster, in the order in which they get to work: those that others wait for come first, so
/// that the others look once at all that has come of it.
pub(crate) fn controllers(kubelets: &Kubelets) -> Vec<Box<dyn Controller>> {
    let scheduler: Box<dyn Controller> = Box::new(scheduler::Scheduler::new());
    let endpoints: Box<dyn Controller> = Box::new(endpoints::Endpoints);
    let all = [on_nodes(kubelets), housekeeping(), workloads(), vec![scheduler, endpoints]];
    all.into_iter().flatten().collect()
}

/// Those that see to nodes and to what runs on them.
fn on_nodes(kubelets: &Kubelets) -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(kubelet::Kubelet::new(kubelets)),
        Box::new(nodes::NodeLifecycle::default()),
        Box::new(machines::MachineLifecycle::new(kubelets)),
        Box::new(taints::TaintEviction::default()),
        Box::new(podgc::PodCollector::default()),
        Box::new(budgets::Budgets::default()),
    ]
}

/// Those that tidy up.
fn housekeeping() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(namespaces::Namespaces),
        Box::new(accounts::Accounts),
        Box::new(accounts::Certificates),
        Box::new(roles::Roles),
        Box::new(protection::Protection),
        Box::new(garbage::Garbage),
        Box::new(expiry::Expiry),
    ]
}

/// Those that make pods.
fn workloads() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(replicasets::ReplicaSets::new()),
        Box::new(statefulsets::StatefulSets::new()),
        Box::new(daemonsets::DaemonSets::new()),
        Box::new(jobs::Jobs::new()),
        Box::new(cronjobs::CronJobs),
        Box::new(deployments::Deployments::new()),
    ]
}

/// How long to wait before trying again what failed; twice as long each time, up to the most.
const RETRY_FIRST: SignedDuration = SignedDuration::from_millis(50);
const RETRY_MOST: SignedDuration = SignedDuration::from_secs(30);

/// How many objects are looked at before others, who share the thread, get their turn.
const TURN: usize = 64;

#[derive(Debug)]
struct Worker {
    controller: Box<dyn Controller>,
    queue: VecDeque<Key>,
    queued: BTreeSet<Key>,
    /// How often in a row an object's writes have failed.
    failures: BTreeMap<Key, u32>,
}

impl Worker {
    fn push(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let key = self.queue.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }
}

/// The controllers at work.
#[derive(Debug)]
pub(crate) struct Life {
    api: Api,
    workers: Vec<Worker>,
    alarms: Alarms,
    reports: Reports,
}

impl Life {
    pub(crate) fn new(api: Api, controllers: Vec<Box<dyn Controller>>) -> Self {
        let worker = |controller| Worker {
            controller,
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            failures: BTreeMap::new(),
        };
        Self {
            api,
            workers: controllers.into_iter().map(worker).collect(),
            alarms: Alarms::default(),
            reports: Reports::default(),
        }
    }

    pub(crate) async fn live(mut self) {
        let _witness = Witness(self.api.clone());
        let mut latest = self.api.state().store.subscribe();
        loop {
            latest.borrow_and_update();
            self.settle().await;
            let clock = self.api.state().clock();
            let next = self.alarms.next().unwrap_or(Timestamp::MAX);
            tokio::select! {
                biased;
                changed = latest.changed() => if changed.is_err() { return },
                () = sleep_until(clock.instant(next)) => {}
            }
        }
    }

    /// Works until there is nothing left to do for now.
    async fn settle(&mut self) {
        for turn in 1.. {
            self.listen();
            let Some((worker, key)) = self.next() else { return };
            self.look(worker, key).await;
            if turn % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Tells the controllers what has happened and what time it is.
    fn listen(&mut self) {
        let mut state = self.api.state();
        let changes = state.store.take_untold();
        let view = View::of(&state);
        for change in &changes {
            for worker in &mut self.workers {
                for key in worker.controller.observe(change, view) {
                    worker.push(key);
                }
            }
        }
        for worker in &mut self.workers {
            for key in worker.controller.stir(view) {
                worker.push(key);
            }
        }
        for (worker, key) in self.alarms.take_due(view.now()) {
            if let Some(worker) = self.workers.get_mut(worker) {
                worker.push(key);
            }
        }
    }

    fn next(&mut self) -> Option<(usize, Key)> {
        self.workers.iter_mut().enumerate().find_map(|(index, worker)| Some((index, worker.pop()?)))
    }

    async fn look(&mut self, index: usize, key: Key) {
        let Some(worker) = self.workers.get_mut(index) else { return };
        let (decision, now) = {
            let state = self.api.state();
            let view = View::of(&state);
            (worker.controller.decide(&key, view), view.now())
        };
        let name = worker.controller.name();
        for act in decision.acts {
            let attempt = Attempt::of(&act);
            let Err(why) = self.api.act(name, act).await else { continue };
            let failures = worker.failures.entry(key.clone()).or_default();
            *failures += 1;
            let wait = RETRY_FIRST.saturating_mul(1 << (*failures - 1).min(20)).min(RETRY_MOST);
            let instead =
                worker.controller.refused(&key, &Refusal { attempt, why }, View::of(&self.api.state()));
            let at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
            self.alarms.set(index, key, at);
            for act in instead.acts {
                // What is refused as well is decided anew with the rest.
                drop(self.api.act(name, act).await);
            }
            for report in instead.reports {
                self.reports.write(&self.api, report).await;
            }
            return;
        }
        worker.failures.remove(&key);
        for report in decision.reports {
            self.reports.write(&self.api, report).await;
        }
        if let Some(at) = decision.again {
            self.alarms.set(index, key, at);
        }
    }
}

/// Sees to it that nobody takes a cluster whose controllers are gone for one in which nothing happens.
struct Witness(Api);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state().is_broken = true;
        }
    }
}

/// When to look at what, at the latest.
#[derive(Debug, Default)]
struct Alarms {
    by_time: BTreeSet<(Timestamp, usize, Key)>,
    by_key: FxHashMap<(usize, Key), Timestamp>,
}

impl Alarms {
    /// The last word counts: whoever looks says when to look again.
    fn set(&mut self, worker: usize, key: Key, at: Timestamp) {
        if let Some(before) = self.by_key.insert((worker, key.clone()), at) {
            self.by_time.remove(&(before, worker, key.clone()));
        }
        self.by_time.insert((at, worker, key));
    }

    fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, ..)| *at)
    }

    fn take_due(&mut self, now: Timestamp) -> Vec<(usize, Key)> {
        let mut due = Vec::new();
        while self.by_time.first().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, worker, key)) = self.by_time.pop_first() {
                self.by_key.remove(&(worker, key.clone()));
                due.push((worker, key));
            }
        }
        due
    }
}

#[cfg(test)]
mod lab;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;
