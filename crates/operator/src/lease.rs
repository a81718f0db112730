//! Who of several replicas leads: whoever holds the Lease.
//!
//! The lease is advice, and what is committed in ledgers is what counts. But it keeps replicas from getting in each
//! other's way, and its number of holders so far makes the epoch by which ledgers refuse a leader of yesterday.
//!
//! No clock of another machine is believed: a lease has run out when this process has not seen it change for as long
//! as it lasts, on a clock that only this process has. The times that are written into it are for people, and for who waits
//! so that leaders do not follow each other too fast.

use std::time::Duration;

use berth_api::{Timestamp, ledger};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::cluster::{Cluster, Refused};
use crate::desk::Desk;
use crate::dialect::Dialect;
use crate::objects::Metadata;
use crate::office::Clock;

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Others take the lease once it has not changed for so long.
    pub duration: Duration,
    /// A holder that could not renew it for so long no longer leads. It is shorter, so that there are never two.
    pub renew_within: Duration,
    /// How often it is looked at, and renewed.
    pub retry: Duration,
    /// No sooner than so long after one came to lead does another: what leaders do is bounded for two of them at a time.
    pub succession_min: Duration,
}

impl Default for Terms {
    /// As Kubernetes' own components have them.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            succession_min: Duration::ZERO,
        }
    }
}

/// What a replica wants of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// To hold it, and lead.
    #[default]
    Lead,
    /// To do nothing more, and let nobody else lead until what was begun is done.
    Finish,
    /// To let others have it.
    Leave,
}

/// What a lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u32>,
    lease_transitions: Option<u64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    metadata: Metadata,
    spec: Spec,
}

impl Spec {
    fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Since its last holder took it.
    fn held(&self, now: Timestamp) -> Option<Duration> {
        let acquired: Timestamp = self.acquire_time.as_ref()?.parse().ok()?;
        now.duration_since(acquired).try_into().ok()
    }

    /// It grows with every new holder.
    fn epoch(&self) -> u64 {
        self.lease_transitions.unwrap_or(0).saturating_add(1)
    }
}

/// What is known when the next step is chosen.
#[derive(Clone, Copy, Debug)]
struct Sight<'a> {
    me: &'a str,
    /// The lease as it was last seen, if there is one.
    lease: Option<&'a Spec>,
    /// For how long it has been seen like that, or not been there.
    unchanged: Duration,
    /// Ledgers tell of somebody else who led last, also where no lease does.
    has_predecessor: bool,
    /// Since its last holder took it, by the times of two machines, if it says when.
    held: Option<Duration>,
    wish: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Create,
    Acquire,
    Renew,
    Release,
    Wait,
}

fn step(sight: &Sight<'_>, terms: &Terms) -> Action {
    let holder = sight.lease.and_then(Spec::holder);
    let is_mine = holder == Some(sight.me);
    match (sight.wish, sight.lease) {
        (Wish::Leave, _) if is_mine => Action::Release,
        (Wish::Lead | Wish::Finish, _) if is_mine => Action::Renew,
        (Wish::Finish | Wish::Leave, _) => Action::Wait,
        // Somebody has deleted it, and nobody can say since when another led.
        (Wish::Lead, None) if sight.has_predecessor && sight.unchanged < terms.succession_min => Action::Wait,
        (Wish::Lead, None) => Action::Create,
        (Wish::Lead, Some(lease)) => {
            let theirs = Duration::from_secs(lease.lease_duration_seconds.unwrap_or(0).into());
            let is_over = sight.unchanged >= terms.duration.max(theirs);
            // Whatever their clocks say, it is waited no longer than that.
            let since = sight.held.map_or(sight.unchanged, |held| held.max(sight.unchanged));
            let may_follow = since >= terms.succession_min;
            if may_follow && (holder.is_none() || is_over) { Action::Acquire } else { Action::Wait }
        }
    }
}

/// One replica that would lead.
#[derive(Debug)]
pub struct Elector {
    desk: Desk,
    clock: Clock,
    namespace: String,
    name: String,
    me: String,
    terms: Terms,
    /// The lease as it was last seen, and since when it has been seen like that.
    seen: Option<(Record, Instant)>,
    /// Since when it has been looked for and not been there.
    missed_since: Option<Instant>,
    /// The epoch in which this replica led last.
    led: Option<u64>,
    /// When the last renewal that worked began.
    renewed: Option<Instant>,
    /// What kept it from being looked at or written, last.
    trouble: Option<String>,
    lead: watch::Sender<Option<u64>>,
}

impl Elector {
    /// `me` must be nobody else's name, nor that of an earlier life of this replica.
    pub fn new(cluster: Cluster, clock: Clock, (namespace, name): (&str, &str), me: &str) -> Self {
        Self {
            desk: Desk::new(cluster),
            clock,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            me: me.to_owned(),
            terms: Terms::default(),
            seen: None,
            missed_since: None,
            led: None,
            renewed: None,
            trouble: None,
            lead: watch::Sender::new(None),
        }
    }

    #[must_use]
    pub fn with_terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// The epoch in which this replica leads, while it does.
    pub fn lead(&self) -> watch::Receiver<Option<u64>> {
        self.lead.subscribe()
    }

    /// Holds the lease, or waits for it, until nobody wants it any more and it is released.
    pub async fn run(mut self, mut wish: watch::Receiver<Wish>) {
        loop {
            // Whoever can no longer say what they want is gone.
            let wanted = if wish.has_changed().is_ok() { *wish.borrow_and_update() } else { Wish::Leave };
            let outcome = self.attempt(wanted).await;
            self.tell(wanted);
            if wanted == Wish::Leave && !self.is_mine() {
                return;
            }
            self.complain(outcome.as_ref().err());
            let pause = match outcome {
                // Somebody else wrote it: what they wrote is looked at soon.
                Err(refused) if refused.is_conflict() || refused.is_absence() => self.terms.retry / 10,
                _ => self.terms.retry,
            };
            // Whatever is waited for, the lead is given up in time.
            let left = self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let pause = left.map_or(pause, |left| left.min(pause));
            tokio::select! {
                biased;
                _ = wish.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Says what is wrong, once for each time that it begins. That others are faster is not.
    fn complain(&mut self, refused: Option<&Refused>) {
        let trouble = refused.filter(|refused| !refused.is_conflict()).map(|refused| refused.message.clone());
        if let Some(why) = trouble.as_ref().filter(|_| trouble != self.trouble) {
            tracing::warn!(
                lease = format!("{}/{}", self.namespace, self.name),
                "cannot use the lease: {why}"
            );
        }
        self.trouble = trouble;
    }

    fn is_mine(&self) -> bool {
        let holder = self.seen.as_ref().and_then(|(record, _)| record.spec.holder());
        holder == Some(&*self.me)
    }

    /// When the lead has to be given up, if it is not renewed before.
    fn deadline(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.terms.renew_within)
    }

    /// Says who leads, as far as this replica is concerned.
    fn tell(&self, wish: Wish) {
        let is_good = self.deadline().is_some_and(|deadline| Instant::now() < deadline);
        let leads = is_good && wish == Wish::Lead && self.is_mine();
        let epoch = self.seen.as_ref().filter(|_| leads).map(|(record, _)| record.spec.epoch());
        let news = self.lead.send_if_modified(|lead| std::mem::replace(lead, epoch) != epoch);
        if news {
            let said = if epoch.is_some() { "leading" } else { "not leading" };
            tracing::info!(lease = self.name, holder = self.me, epoch, "{said}");
        }
    }

    /// One step, in the time that there is for it.
    async fn attempt(&mut self, wish: Wish) -> Result<(), Refused> {
        let late = || Refused::unsaid("no answer came in time".to_owned());
        // An answer that takes half of the time leaves time for another.
        let answer_max = self.terms.renew_within / 2;
        let good_until = self.deadline().filter(|deadline| Instant::now() < *deadline);
        if good_until.is_none() {
            self.renewed = None;
            self.tell(wish);
        }
        let limit = Instant::now() + answer_max;
        let limit = good_until.map_or(limit, |deadline| deadline.min(limit));
        timeout_at(limit, self.take_step(wish)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn take_step(&mut self, wish: Wish) -> Result<(), Refused> {
        // What is mine is renewed as it is known: whoever has changed it makes that fail.
        if !self.is_mine() {
            self.look().await?;
        }
        let since = self.seen.as_ref().map(|(_, since)| *since).or(self.missed_since);
        let sight = Sight {
            me: &self.me,
            lease: self.seen.as_ref().map(|(record, _)| &record.spec),
            unchanged: since.map_or(Duration::ZERO, |since| since.elapsed()),
            has_predecessor: self.has_predecessor().await?,
            held: self.seen.as_ref().and_then(|(record, _)| record.spec.held(self.clock.now())),
            wish,
        };
        let action = step(&sight, &self.terms);
        let began = Instant::now();
        match self.perform(action).await {
            Ok(written) => {
                if let Some(record) = written {
                    self.led = Some(record.spec.epoch()).filter(|_| action != Action::Release).or(self.led);
                    self.see(Some(record));
                    self.renewed = Some(began).filter(|_| action != Action::Release);
                }
                Ok(())
            }
            Err(refused) => {
                if refused.is_conflict() || refused.is_absence() {
                    // It is not what it was taken for.
                    self.renewed = None;
                    self.seen = None;
                }
                Err(refused)
            }
        }
    }

    /// Whether others have led since this replica did, as far as that has to be known.
    async fn has_predecessor(&self) -> Result<bool, Refused> {
        if self.seen.is_some() || self.terms.succession_min.is_zero() {
            return Ok(false);
        }
        Ok(epoch_of_ledgers(&self.desk).await? > self.led.unwrap_or(0))
    }

    async fn look(&mut self) -> Result<(), Refused> {
        let record = match self.desk.get::<Record>(&self.path()).await {
            Ok(record) => Some(record),
            Err(refused) if refused.is_absence() => None,
            Err(refused) => return Err(refused),
        };
        self.see(record);
        Ok(())
    }

    /// Only a change of what it says is a sign of life.
    fn see(&mut self, record: Option<Record>) {
        let before = self.seen.take();
        self.missed_since = record.is_none().then(|| self.missed_since.unwrap_or_else(Instant::now));
        self.seen = record.map(|record| {
            let same = before
                .filter(|(known, _)| known.metadata.uid == record.metadata.uid && known.spec == record.spec);
            let since = same.map_or_else(Instant::now, |(_, since)| since);
            (record, since)
        });
    }

    /// What the lease became, if it was written.
    async fn perform(&self, action: Action) -> Result<Option<Record>, Refused> {
        let now = format!("{:.6}", self.clock.now());
        let text = match (action, &self.seen) {
            (Action::Create, _) => {
                let object = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": { "namespace": self.namespace, "name": self.name },
                    "spec": self.held(epoch_of_ledgers(&self.desk).await?, &now),
                });
                self.desk.create(&self.collection(), &object).await?
            }
            (Action::Wait, _) | (_, None) => return Ok(None),
            (Action::Acquire, Some((record, _))) => {
                let epoch = record.spec.epoch().max(epoch_of_ledgers(&self.desk).await?);
                self.write(record, self.held(epoch, &now)).await?
            }
            (Action::Renew, Some((record, _))) => self.write(record, json!({ "renewTime": now })).await?,
            (Action::Release, Some((record, _))) => {
                let nobody = json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now });
                self.write(record, nobody).await?
            }
        };
        let unread = |error: serde_json::Error| Refused::unsaid(format!("{}: {error}", self.path()));
        serde_json::from_str(&text).map(Some).map_err(unread)
    }

    /// A lease that this replica holds from now on, after so many others.
    fn held(&self, transitions: u64, now: &str) -> Value {
        json!({
            "holderIdentity": self.me, "leaseTransitions": transitions,
            "leaseDurationSeconds": self.terms.duration.as_secs(),
            "acquireTime": now, "renewTime": now,
        })
    }

    /// Changes this very lease, if nobody has since it was read.
    async fn write(&self, record: &Record, spec: Value) -> Result<String, Refused> {
        let change = json!({
            "metadata": { "uid": record.metadata.uid, "resourceVersion": record.metadata.resource_version },
            "spec": spec,
        });
        self.desk.patch(&self.path(), &change).await
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

/// In which epoch one comes to lead that has nobody beside it, and after how long: ledgers tell whether somebody led before.
pub async fn epoch_alone(cluster: &Cluster, terms: &Terms) -> Result<(u64, Duration), Refused> {
    let newest = epoch_of_ledgers(&Desk::new(cluster.clone())).await?;
    let wait = if newest == 0 { Duration::ZERO } else { terms.succession_min };
    Ok((newest.saturating_add(1), wait))
}

/// Leads without a lease, from after `wait` until that is no longer wanted.
pub async fn lead_alone(
    lead: watch::Sender<Option<u64>>,
    (epoch, wait): (u64, Duration),
    mut wish: watch::Receiver<Wish>,
) {
    if timeout(wait, given_up(&mut wish)).await.is_err() {
        lead.send_replace(Some(epoch));
        tracing::info!(epoch, "leading");
        given_up(&mut wish).await;
        lead.send_replace(None);
    }
}

/// Whoever can no longer say what they want is gone.
async fn given_up(wish: &mut watch::Receiver<Wish>) {
    let _ = wish.wait_for(|wish| *wish != Wish::Lead).await;
}

/// Somebody may have deleted the lease, and with it the number of its holders, or have led without it; ledgers would
/// refuse whoever began to count anew.
async fn epoch_of_ledgers(desk: &Desk) -> Result<u64, Refused> {
    #[derive(Deserialize)]
    struct Annotated {
        metadata: Metadata,
    }
    let mut pools: Vec<Annotated> = Vec::new();
    for dialect in Dialect::ALL {
        match desk.list(&dialect.pools("")).await {
            Err(refused) if refused.is_absence() => {}
            listed => pools.extend(listed?),
        }
    }
    let epochs = pools.iter().filter_map(|pool| {
        let annotation = pool.metadata.annotations.get(ledger::LEDGER)?;
        // Nothing is committed in a ledger that cannot be read.
        Some(ledger::parse(Some(annotation)).ok()?.epoch)
    });
    Ok(epochs.max().unwrap_or(0))
}

/// Nobody renews it any more.
impl Drop for Elector {
    fn drop(&mut self) {
        self.lead.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        let lease = |holder: &str, secs| Spec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(secs),
            lease_transitions: Some(4),
            ..Spec::default()
        };
        let (mine, other, nobody, long) =
            (lease("me", 15), lease("other", 15), lease("", 1), lease("other", 60));
        let table = [
            (None, 0, Wish::Lead, Action::Create),
            (None, 0, Wish::Finish, Action::Wait),
            (None, 0, Wish::Leave, Action::Wait),
            (Some(&mine), 0, Wish::Lead, Action::Renew),
            // Nobody has taken it: it is still mine.
            (Some(&mine), 100, Wish::Lead, Action::Renew),
            (Some(&mine), 2, Wish::Finish, Action::Renew),
            (Some(&mine), 2, Wish::Leave, Action::Release),
            (Some(&other), 0, Wish::Lead, Action::Wait),
            (Some(&other), 14, Wish::Lead, Action::Wait),
            (Some(&other), 15, Wish::Lead, Action::Acquire),
            (Some(&other), 15, Wish::Finish, Action::Wait),
            (Some(&other), 15, Wish::Leave, Action::Wait),
            // Whoever holds it counts on the time that they wrote.
            (Some(&long), 15, Wish::Lead, Action::Wait),
            (Some(&long), 60, Wish::Lead, Action::Acquire),
            (Some(&nobody), 0, Wish::Lead, Action::Acquire),
            (Some(&nobody), 0, Wish::Leave, Action::Wait),
        ];
        for (lease, secs, wish, action) in table {
            let unchanged = Duration::from_secs(secs);
            let sight = Sight { me: "me", lease, unchanged, has_predecessor: true, held: None, wish };
            assert_eq!(step(&sight, &Terms::default()), action, "{sight:?}");
        }
        // For so long it has been as it is, and for so long somebody has held it, as they say.
        for (lease, unchanged, held, action) in [
            (Some(&nobody), 0, Some(89), Action::Wait),
            (Some(&nobody), 0, Some(90), Action::Acquire),
            (Some(&other), 15, Some(89), Action::Wait),
            (Some(&other), 14, Some(300), Action::Wait),
            (Some(&other), 15, Some(300), Action::Acquire),
            (Some(&other), 89, None, Action::Wait),
            // Their clock is ahead.
            (Some(&other), 90, None, Action::Acquire),
            // Somebody has deleted it.
            (None, 0, None, Action::Wait),
            (None, 89, None, Action::Wait),
            (None, 90, None, Action::Create),
        ] {
            let (unchanged, held) = (Duration::from_secs(unchanged), held.map(Duration::from_secs));
            let (has_predecessor, wish) = (true, Wish::Lead);
            let sight = Sight { me: "me", lease, unchanged, has_predecessor, held, wish };
            let terms = Terms { succession_min: Duration::from_secs(90), ..Terms::default() };
            assert_eq!(step(&sight, &terms), action, "{sight:?}");
            let first = Sight { has_predecessor: false, ..sight };
            assert_eq!(
                lease.is_none(),
                step(&first, &terms) == Action::Create,
                "nobody led before: {first:?}"
            );
        }
        assert_eq!(other.epoch(), 5);
        assert_eq!(Spec::default().epoch(), 1);
    }

    #[test]
    fn a_holder_gives_up_before_others_take_over() {
        let Terms { duration, renew_within, retry, .. } = Terms::default();
        assert!(retry < renew_within && renew_within < duration);
    }
}
