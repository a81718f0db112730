//! What is true of the world, whatever anybody has seen of it: its objects, its machines, and who did what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::Timestamp;
use berth_cloud::machine::MachineId;
use berth_world::World;
use berth_world::audit::{Asked, Changed};
use berth_world::cloud::{Call, SimulatedCloud};
use tokio::sync::watch;

use crate::dialect::Dialect;
use crate::faults::Case;
use crate::invariants::{self, Broken};
use crate::things::{Budget, Claim, Machine, Node, Pod, Pool, text};

/// Clients of these names are operators.
const OPERATORS: &str = "berth";

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Truth {
    world: World,
    cloud: SimulatedCloud,
    state: Arc<Mutex<State>>,
    broken: watch::Sender<Option<Broken>>,
}

pub(crate) struct State {
    pub(crate) dialect: Dialect,
    revision: u64,
    pub(crate) now: Timestamp,
    pub(crate) pods: BTreeMap<(String, String), Pod>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) claims: BTreeMap<String, Claim>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) budgets: BTreeMap<String, Budget>,
    /// All that ever were.
    pub(crate) machines: Vec<Machine>,
    happened: usize,
    pub(crate) past: Past,
    pub(crate) counts: Counts,
    /// More claims than this need not be made.
    pub(crate) claims_max: u64,
    /// Pods that wait are told why after so long, if that can be asked of operators.
    pub(crate) told_secs_max: Option<i64>,
}

/// What has been.
#[derive(Default)]
pub(crate) struct Past {
    /// Claims that ever were: their uids by their names.
    pub(crate) claims: BTreeMap<String, BTreeSet<String>>,
    /// The uids of the claims for which machines were asked for, where machines do not show it.
    pub(crate) bought_for: BTreeMap<MachineId, String>,
    /// The uids of the claims that had these machines first.
    owners: BTreeMap<MachineId, String>,
    /// Since when machines have no claim.
    pub(crate) orphans: BTreeMap<MachineId, Timestamp>,
    /// Since when claims are going, have failed or are gone, by uid.
    pub(crate) given_up: BTreeMap<String, Timestamp>,
    /// Claims that somebody other than an operator has taken the finalizer from.
    pub(crate) abandoned: BTreeSet<String>,
    /// What pools had committed themselves to when somebody other than an operator changed that, by pool.
    pub(crate) uncommitted: BTreeMap<String, BTreeSet<String>>,
    /// Claims that an operator deleted though it need not have, by uid.
    pub(crate) disrupted: BTreeSet<String>,
    /// Since when pods without a node have waited.
    pub(crate) waiting: BTreeMap<(String, String), Timestamp>,
    /// Pods that an operator has said something to, by namespace and name.
    pub(crate) told: BTreeSet<(String, String)>,
    /// When each operator wrote in the last second, and when it asked the cloud, as far back as that counts.
    pub(crate) writes: BTreeMap<String, VecDeque<Timestamp>>,
    pub(crate) calls: BTreeMap<String, VecDeque<Timestamp>>,
    /// How well each operator is shown what is.
    views: BTreeMap<String, Shown>,
}

#[derive(Default)]
struct Shown {
    /// For how long something of it had been out of date when it last asked.
    stale_secs: u64,
    /// Since when objects of some kinds are not listed or followed, because that is refused.
    refused: BTreeMap<String, Timestamp>,
}

impl Shown {
    /// Takes what the operator has asked.
    fn take(&mut self, asked: &Asked, is_judged: bool, now: Timestamp) {
        self.stale_secs = asked.stale_secs;
        if !is_judged || !matches!(asked.verb, "list" | "watch") {
            return;
        }
        if asked.is_done() {
            self.refused.remove(&asked.resource);
        } else {
            self.refused.entry(asked.resource.clone()).or_insert(now);
        }
    }
}

/// How often operators did what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By verb and resource.
    pub(crate) asked: BTreeMap<(String, String), u64>,
    pub(crate) writes: u64,
    pub(crate) launches: u64,
    pub(crate) terminations: u64,
    /// Changes of objects, by resource.
    pub(crate) changes: BTreeMap<String, u64>,
    pub(crate) claims_made: u64,
    pub(crate) claims_gone: u64,
}

impl Truth {
    pub(crate) fn new(world: &World, cloud: &SimulatedCloud, dialect: Dialect, case: &Case) -> Self {
        world.begin_audit();
        let state = State::new(dialect, world.revision(), case);
        Self {
            world: world.clone(),
            cloud: cloud.clone(),
            state: Arc::new(Mutex::new(state)),
            broken: watch::Sender::new(None),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what is true now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.catch_up();
        look(&self.locked())
    }

    /// Judges everything that happens until something is wrong.
    pub(crate) async fn judge(&self) -> Broken {
        let mut revisions = self.world.revisions();
        let mut broken = self.broken.subscribe();
        loop {
            self.catch_up();
            if let Some(broken) = self.broken.borrow().clone() {
                return broken;
            }
            tokio::select! {
                biased;
                _ = broken.changed() => {}
                _ = revisions.changed() => {}
            }
        }
    }

    /// An operator is about to ask something of the cloud.
    pub(crate) fn before_call(&self, client: &str, call: Call, about: &str) {
        self.catch_up();
        let mut state = self.locked();
        let (now, window) = (state.now, state.dialect.calls_max().1);
        within(window, state.past.calls.entry(client.to_owned()).or_default(), now);
        match call {
            Call::Launch => state.counts.launches += 1,
            Call::Terminate => state.counts.terminations += 1,
            _ => {}
        }
        let found = invariants::before_call(&state, client, call, about);
        drop(state);
        self.note(found);
    }

    /// What has just been bought was asked for by the claim of this uid.
    pub(crate) fn bought_for(&self, uid: &str) {
        let mut state = self.locked();
        self.cloud.inspect(|account| {
            for record in account.records() {
                let known = state.past.bought_for.entry(record.machine.id.clone());
                known.or_insert_with(|| uid.to_owned());
            }
        });
    }

    fn note(&self, found: Option<Broken>) {
        if let Some(found) = found {
            self.broken.send_if_modified(|broken| {
                let is_first = broken.is_none();
                *broken = broken.take().or(Some(found));
                is_first
            });
        }
    }

    /// Takes in what has happened since this was last done, one thing after the other.
    pub(crate) fn catch_up(&self) {
        let asked = self.world.take_asked();
        let mut state = self.locked();
        self.cloud.inspect(|account| {
            state.now = account.now();
            if state.happened != account.history().len() {
                state.happened = account.history().len();
                state.machines = account.records().iter().map(Machine::read).collect();
            }
        });
        state.attribute();
        let followed: Vec<&str> = state.dialect.judged().into_iter().chain(["events"]).collect();
        let changes = self.world.changes_after(state.revision, &followed).unwrap_or_default();
        state.revision = self.world.revision();
        let mut changes = VecDeque::from(changes);
        let mut found = None;
        for asked in asked {
            found = found.or(state.take(&mut changes, asked.revisions.0, None));
            if is_operator(&asked) {
                found = found.or(state.count(&asked));
            }
            found = found.or(state.take(&mut changes, asked.revisions.1, Some(&asked)));
        }
        found = found.or(state.take(&mut changes, u64::MAX, None));
        state.mark_orphans();
        found = found.or_else(|| invariants::of_machines(&state)).or_else(|| invariants::explained(&state));
        drop(state);
        self.note(found);
    }
}

impl State {
    fn new(dialect: Dialect, revision: u64, case: &Case) -> Self {
        Self {
            dialect,
            revision,
            now: Timestamp::default(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            pools: BTreeMap::new(),
            budgets: BTreeMap::new(),
            machines: Vec::new(),
            happened: 0,
            past: Past::default(),
            counts: Counts::default(),
            claims_max: case.claims_max(),
            told_secs_max: case.told_secs_max(),
        }
    }

    /// Takes changes up to a revision, made by whoever asked for them.
    fn take(&mut self, changes: &mut VecDeque<Changed>, until: u64, by: Option<&Asked>) -> Option<Broken> {
        while changes.front().is_some_and(|change| change.revision <= until) {
            let change = changes.pop_front()?;
            *self.counts.changes.entry(change.resource.clone()).or_default() += 1;
            if let Some(broken) = self.change(change, by) {
                return Some(broken);
            }
        }
        None
    }

    /// Counts what an operator asked, and judges it before it has its effect.
    fn count(&mut self, asked: &Asked) -> Option<Broken> {
        *self.counts.asked.entry((asked.verb.to_owned(), asked.resource.clone())).or_default() += 1;
        let is_judged = self.dialect.judged().contains(&&*asked.resource);
        self.past.views.entry(asked.client.clone()).or_default().take(asked, is_judged, self.now);
        if !asked.is_write() {
            return None;
        }
        self.counts.writes += 1;
        within(SECOND, self.past.writes.entry(asked.client.clone()).or_default(), self.now);
        let found = invariants::before_write(self, asked);
        if asked.is_done()
            && asked.verb == "delete"
            && asked.resource == self.dialect.claims()
            && let Some(claim) = self.claims.get(&asked.name)
            && invariants::is_voluntary(self, claim)
        {
            self.past.disrupted.insert(claim.uid.clone());
        }
        found
    }

    fn change(&mut self, change: Changed, by: Option<&Asked>) -> Option<Broken> {
        let Changed { resource, namespace, name, object, .. } = change;
        let object = object.as_ref();
        match &*resource {
            "pods" => {
                let id = (namespace, name);
                let pod = object.map(Pod::read);
                if pod.as_ref().is_some_and(|pod| pod.node.is_empty() && pod.deletion.is_none()) {
                    self.past.waiting.entry(id.clone()).or_insert(self.now);
                } else {
                    self.past.waiting.remove(&id);
                    self.past.told.remove(&id);
                }
                put(&mut self.pods, id, pod);
                None
            }
            "events" => {
                if let Some(event) = object.filter(|event| event["source"]["component"] == "berth") {
                    let about = &event["involvedObject"];
                    self.past.told.insert((text(&about["namespace"]), text(&about["name"])));
                }
                None
            }
            "nodes" => {
                let dialect = self.dialect;
                put(&mut self.nodes, name, object.map(|object| Node::read(object, dialect)));
                invariants::of_nodes(self)
            }
            "poddisruptionbudgets.policy" => {
                put(&mut self.budgets, name, object.map(Budget::read));
                None
            }
            resource if resource == self.dialect.pools() => {
                let after = object.map(|object| self.dialect.pool(object));
                let before = self.pools.get(&name).cloned();
                put(&mut self.pools, name.clone(), after.clone());
                let had = before.as_ref().map(|before| &before.ledger);
                let is_meddled = after.as_ref().map(|after| &after.ledger) != had;
                if is_meddled && !by.is_some_and(is_operator) {
                    let claims =
                        had.into_iter().flat_map(|ledger| ledger.claims.keys().map(ToString::to_string));
                    self.past.uncommitted.entry(name.clone()).or_default().extend(claims);
                    return invariants::of_pool(self, &name, None, after.as_ref());
                }
                invariants::of_pool(self, &name, before.as_ref(), after.as_ref())
            }
            resource if resource == self.dialect.claims() => {
                let after = object.map(|object| self.dialect.claim(object));
                let before = self.claims.get(&name).cloned();
                self.remember(&name, before.as_ref(), after.as_ref(), by);
                put(&mut self.claims, name.clone(), after.clone());
                self.attribute();
                let is_made = before.is_none() && by.is_some_and(is_operator);
                let committed = is_made.then(|| invariants::committed(self, &name, after.as_ref())).flatten();
                committed.or_else(|| invariants::of_claim(self, &name, before.as_ref(), after.as_ref()))
            }
            _ => None,
        }
    }

    fn remember(&mut self, name: &str, before: Option<&Claim>, after: Option<&Claim>, by: Option<&Asked>) {
        if let Some(claim) = before.or(after).filter(|_| after.is_none_or(Claim::is_given_up)) {
            self.past.given_up.entry(claim.uid.clone()).or_insert(self.now);
        }
        match (before, after) {
            (None, Some(claim)) => {
                self.counts.claims_made += u64::from(by.is_some_and(is_operator));
                self.past.claims.entry(name.to_owned()).or_default().insert(claim.uid.clone());
            }
            (Some(claim), None) => {
                self.counts.claims_gone += 1;
                if !by.is_some_and(is_operator) {
                    self.past.abandoned.insert(claim.uid.clone());
                }
            }
            _ => {}
        }
    }

    /// For how long an operator has not been shown all that is, as it is.
    pub(crate) fn blind_secs(&self, client: &str) -> u64 {
        let Some(Shown { stale_secs, refused }) = self.past.views.get(client) else { return 0 };
        let refused = refused.values().map(|since| self.now.duration_since(*since).unsigned_abs().as_secs());
        refused.max().unwrap_or(0).max(*stale_secs)
    }

    /// Finds whose machines are, where they do not show it: whoever has written it down first; else one that waits for a
    /// machine, if possible the one that asked for it. One that nobody can be waiting for is nobody's.
    fn attribute(&mut self) {
        if !self.dialect.is_anonymous() {
            return;
        }
        let mut waiting = BTreeSet::new();
        for claim in self.claims.values() {
            match claim.provider_id.rsplit('/').next().filter(|id| !id.is_empty()) {
                Some(id) => drop(self.past.owners.entry(id.into()).or_insert_with(|| claim.uid.clone())),
                None if claim.holds.contains("MachineEnded") => {}
                None => drop(waiting.insert(claim.uid.clone())),
            }
        }
        let Past { bought_for, owners, .. } = &self.past;
        let pool = self.pools.keys().next();
        for machine in self.machines.iter_mut().filter(|machine| machine.token.is_some()) {
            let buyer = bought_for.get(&machine.id);
            machine.pool = pool.cloned().unwrap_or_default();
            let owner = owners.get(&machine.id);
            let asks_still =
                buyer.filter(|buyer| owner.is_none() && machine.is_alive && waiting.remove(*buyer));
            machine.token = Some(owner.or(asks_still).cloned().unwrap_or_default());
        }
        for machine in self.machines.iter_mut().filter(|machine| machine.is_alive) {
            if machine.token.as_deref() == Some("") {
                machine.token = Some(waiting.pop_first().unwrap_or_default());
            }
        }
        // What one has asked for another may have got, and then asks again; or it was ended for another that was given up.
        // What is nobody's is one too many for who asked.
        let Past { claims, bought_for, given_up, .. } = &self.past;
        let whose = |machine: &Machine| machine.token.clone().filter(|token| !token.is_empty());
        let mut supplied: BTreeSet<String> = self.machines.iter().filter_map(whose).collect();
        for machine in self.machines.iter_mut().filter(|machine| machine.token.is_some()) {
            let owner = whose(machine).or_else(|| {
                let buyer = bought_for.get(&machine.id);
                let ended_for = || given_up.keys().find(|uid| !supplied.contains(*uid));
                buyer.filter(|uid| !supplied.contains(*uid)).or_else(ended_for).or(buyer).cloned()
            });
            supplied.extend(owner.clone());
            let named = |uid: &String| claims.iter().find(|(_, uids)| uids.contains(uid));
            machine.name = owner.as_ref().and_then(named).map(|(name, _)| name.clone()).unwrap_or_default();
        }
    }

    /// No claim has it yet, and it does not show whose it is.
    pub(crate) fn is_loose(&self, machine: &Machine) -> bool {
        self.dialect.is_anonymous() && !self.past.owners.contains_key(&machine.id)
    }

    /// Notes since when machines have no claim.
    fn mark_orphans(&mut self) {
        let uids: BTreeSet<&str> = self.claims.values().map(|claim| claim.uid.as_str()).collect();
        let mut orphans = BTreeMap::new();
        for machine in self.alive() {
            if !machine.token.as_deref().is_some_and(|token| uids.contains(token)) {
                let since = self.past.orphans.get(&machine.id).copied().unwrap_or(self.now);
                orphans.insert(machine.id.clone(), since);
            }
        }
        self.past.orphans = orphans;
    }

    /// The machine of a claim, if it has one.
    pub(crate) fn machine_of(&self, claim: &Claim) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.token.as_deref() == Some(&*claim.uid))
    }

    /// The node of a machine: names prove nothing.
    pub(crate) fn node_of(&self, provider_id: &str) -> Option<(&String, &Node)> {
        self.nodes.iter().find(|(_, node)| !provider_id.is_empty() && node.provider_id == provider_id)
    }

    pub(crate) fn claim_of_node(&self, node: &Node) -> Option<(&String, &Claim)> {
        let has = |claim: &Claim| !claim.provider_id.is_empty() && claim.provider_id == node.provider_id;
        self.claims.iter().find(|(_, claim)| has(claim))
    }

    pub(crate) fn pods_on<'a>(
        &'a self,
        node: &'a str,
    ) -> impl Iterator<Item = (&'a (String, String), &'a Pod)> {
        self.pods.iter().filter(move |(_, pod)| pod.node == node)
    }

    /// The workload's own pods.
    pub(crate) fn workload(&self) -> impl Iterator<Item = (&String, &Pod)> {
        let own = self.pods.iter().filter(|((namespace, _), _)| namespace == "default");
        own.map(|((_, name), pod)| (name, pod))
    }

    pub(crate) fn running(&self) -> usize {
        self.workload().filter(|(_, pod)| pod.phase == "Running" && pod.deletion.is_none()).count()
    }

    /// The machines that were bought and are there.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| machine.is_alive && machine.token.is_some())
    }

    /// In a few lines.
    pub(crate) fn told(&self) -> String {
        let mut lines = vec![format!("at {}", self.now)];
        for (name, pool) in &self.pools {
            let ledger = &pool.ledger;
            let claims: Vec<&str> = ledger.claims.keys().map(|name| &**name).collect();
            let leaving: Vec<&str> = ledger.leaving.keys().map(|name| &**name).collect();
            lines.push(format!("pool {name}: epoch {}, {claims:?}, leaving {leaving:?}", ledger.epoch));
        }
        for (name, claim) in &self.claims {
            let holds: Vec<&str> = claim.holds.iter().map(String::as_str).collect();
            let deleting = claim.deletion.map(|at| format!(" deleted {at}")).unwrap_or_default();
            lines.push(format!("claim {name} on {:?}{deleting}: {}", claim.node, holds.join(" ")));
        }
        for (name, node) in &self.nodes {
            let pods = self.pods_on(name).count();
            lines.push(format!(
                "node {name}: ready {}, closed {}, deleting {}, {pods} pods",
                node.is_ready, node.is_closed, node.is_deleting
            ));
        }
        for machine in self.alive() {
            lines.push(format!("machine {} of {}", machine.id, machine.name));
        }
        let homeless = self.pods.values().filter(|pod| pod.node.is_empty()).count();
        lines.push(format!("{} pods, {homeless} without a node, {} run", self.pods.len(), self.running()));
        lines.join("\n")
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Adds a time, and forgets those that are older than that.
fn within(window: Duration, times: &mut VecDeque<Timestamp>, now: Timestamp) {
    times.push_back(now);
    let is_old = |at: &Timestamp| now.duration_since(*at).unsigned_abs() >= window;
    while times.front().is_some_and(is_old) {
        times.pop_front();
    }
}

fn is_operator(asked: &Asked) -> bool {
    asked.client.starts_with(OPERATORS)
}

fn put<K: Ord, V>(all: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(all.insert(key, value)),
        None => drop(all.remove(&key)),
    }
}
