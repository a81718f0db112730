//! What a plan buys: committed in the pools' ledgers first, and only then made as claims.

use std::collections::BTreeMap;

use berth_api::ledger;
use berth_core::commitment::{Commitments, Living, Objection};
use berth_core::names::Text;
use berth_core::plan::{Alternative, Launch};
use berth_core::pool::{Limits, Pool};
use berth_core::resources::Resources;
use futures::{StreamExt, stream};
use serde_json::json;

use crate::cluster::Refused;
use crate::dialect::{Entry, PoolId, PoolObject};
use crate::metrics::table;
use crate::office::Office;
use crate::planning::Round;
use crate::planted::PlantedBug;

/// So many claims are committed to at once: what was committed and not made is little.
const CLAIMS_AT_ONCE_MAX: usize = 50;

/// So many requests are under way at a time.
pub(crate) const WRITES_AT_ONCE: usize = 16;

/// Why a pool's ledger was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotCommitted {
    #[error("{0}")]
    Cluster(#[from] Refused),
    #[error("{0}")]
    Unreadable(#[from] ledger::Unreadable),
    #[error("{claim} is there and was not seen when the plan was made")]
    Behind { claim: Text },
    #[error("another leads, since epoch {epoch}")]
    Superseded { epoch: u64 },
    #[error("{0}")]
    Limit(berth_core::reason::Refusal),
}

impl From<Objection> for NotCommitted {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Superseded { epoch } => Self::Superseded { epoch },
            Objection::Limit(refusal) => Self::Limit(refusal),
        }
    }
}

/// A pool as it is now, with its ledger and its claims.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) object: PoolObject,
    pub(crate) record: Commitments,
    pub(crate) living: Living,
}

/// What a launch became.
#[derive(Clone, Debug)]
pub(crate) struct Bought {
    /// Its index among the plan's launches.
    pub(crate) launch: usize,
    pub(crate) claim: Text,
}

impl Office {
    /// Reads a pool and its claims, as they are and not as they were last seen.
    pub(crate) async fn account(&self, pool: &PoolId) -> Result<Account, NotCommitted> {
        let path = pool.path();
        let text = self.desk.read(&path).await?;
        let unread = || Refused::unsaid(format!("{path} cannot be read"));
        let object = pool.dialect.pool(&text).ok_or_else(unread)?;
        let claims = pool.dialect.entries(&self.desk, Some(pool)).await?;
        let mut record = object.ledger()?;
        if PlantedBug::LeadRemembered.is_planted() {
            record.epoch = 0;
        }
        let has_node = |claim: &Entry| !claim.node_name.is_empty();
        let counts = |claim: &Entry| !PlantedBug::CountNodes.is_planted() || has_node(claim);
        let living = claims.into_iter().filter(counts);
        let living: Living = living.map(|claim| (claim.name, claim.capacity)).collect();
        if PlantedBug::CountNodes.is_planted() {
            (record.claims, record.unborn) = (living.clone(), BTreeMap::new());
        }
        Ok(Account { object, record, living })
    }

    /// Writes a pool's ledger, if nobody has since it was read.
    pub(crate) async fn commit(&self, account: &Account, next: &Commitments) -> Result<(), NotCommitted> {
        if account.record == *next {
            return Ok(());
        }
        let metadata = account.object.metadata();
        let change = json!({ "metadata": {
            "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            "annotations": { ledger::LEDGER: ledger::written(next) },
        } });
        let written = self.desk.patch(&account.object.id().path(), &change).await;
        let result = match &written {
            Ok(_) => "committed",
            Err(refused) if refused.is_conflict() => "conflict",
            Err(_) => "failed",
        };
        self.metrics.count(table::LEDGER_COMMITS, [result]);
        Ok(written.map(drop)?)
    }

    /// Commits to these launches of the plan, and makes their claims. What is over a limit by now is left to the next
    /// plan, as is what was too much at once.
    pub(crate) async fn buy(
        &self,
        round: &Round,
        launches: &[Launch],
        wanted: &[usize],
        epoch: u64,
    ) -> Result<Vec<Bought>, NotCommitted> {
        let mut by_pool: BTreeMap<&Text, Vec<usize>> = BTreeMap::new();
        for index in wanted {
            if let Some(launch) = launches.get(*index) {
                by_pool.entry(&launch.pool).or_default().push(*index);
            }
        }
        let mut bought = Vec::new();
        for (name, mut indices) in by_pool {
            indices.truncate(CLAIMS_AT_ONCE_MAX);
            let Some(pool) = round.snapshot.pools.iter().find(|pool| pool.name == *name) else { continue };
            let Some(object) = round.pools.get(name) else { continue };
            let id = object.id();
            let account = self.account(&id).await?;
            let is_unseen = |claim: &&Text| !round.claims.contains_key(*claim);
            let unseen = account.living.keys().find(is_unseen);
            if let Some(unseen) = unseen.filter(|_| !PlantedBug::NoReservation.is_planted()) {
                return Err(NotCommitted::Behind { claim: unseen.clone() });
            }
            let plans: Vec<(usize, &Launch, Vec<Alternative>)> = indices
                .iter()
                .filter_map(|index| launches.get(*index).map(|launch| (*index, launch)))
                .map(|(index, launch)| (index, launch, offerings_within(launch, pool)))
                .collect();
            let capacities: Vec<Resources> =
                plans.iter().map(|(_, _, offerings)| most_of(offerings, pool)).collect();
            let now_secs = self.now().as_second();
            let limits =
                if PlantedBug::NoReservation.is_planted() { &Limits::default() } else { &pool.limits };
            let (next, names) =
                account.record.with_claims(name, &capacities, &account.living, limits, (epoch, now_secs))?;
            if !PlantedBug::MarkAfterwards.is_planted() {
                self.commit(&account, &next).await?;
            }
            let objects = plans.iter().zip(&names).map(|((_, launch, offerings), claim)| {
                account.object.new_claim(claim, pool, launch, offerings)
            });
            let place = id.dialect.claims(&id.namespace);
            let mut made = stream::iter(objects)
                .map(async |object| self.desk.create(&place, &object).await)
                .buffered(WRITES_AT_ONCE);
            let mut pairs = plans.iter().zip(&names);
            while let Some(answer) = made.next().await {
                match answer {
                    // Whoever else made it committed to it too.
                    Err(refused) if !refused.is_conflict() => return Err(refused.into()),
                    _ => bought.extend(
                        pairs
                            .next()
                            .map(|((launch, ..), claim)| Bought { launch: *launch, claim: claim.clone() }),
                    ),
                }
            }
            if PlantedBug::MarkAfterwards.is_planted() {
                self.commit(&account, &next).await?;
            }
        }
        Ok(bought)
    }

    /// Takes claims that are gone, and departures that are undone, out of a pool's ledger.
    pub(crate) async fn release(
        &self,
        pool: &PoolId,
        gone: &std::collections::BTreeSet<Text>,
        staying: &std::collections::BTreeSet<Text>,
        epoch: u64,
    ) -> Result<(), NotCommitted> {
        let account = match self.account(pool).await {
            Err(NotCommitted::Cluster(refused)) if refused.is_absence() => return Ok(()),
            account => account?,
        };
        // One that is there again, or still, is not gone.
        let gone = gone.iter().filter(|name| !account.living.contains_key(*name)).cloned().collect();
        let next = account.record.without(&gone, staying, epoch)?;
        self.commit(&account, &next).await
    }
}

/// The offering that the plan chose, and those others that are no larger in anything that the pool limits: two claims
/// could not both become larger within a limit that only one of them fits.
fn offerings_within(launch: &Launch, pool: &Pool) -> Vec<Alternative> {
    let chosen = Alternative {
        instance_type: launch.instance_type.clone(),
        zone: launch.zone.clone(),
        capacity_type: launch.capacity_type,
        price_per_hour: launch.price,
    };
    let size = |name: &Text| pool.types.iter().find(|known| known.name == *name).map(|known| &known.capacity);
    let most = size(&launch.instance_type);
    let fits = |other: &&Alternative| match (size(&other.instance_type), most) {
        (Some(other), Some(most)) => {
            pool.limits.resources.iter().all(|(resource, _)| other.get(resource) <= most.get(resource))
        }
        _ => false,
    };
    let others = launch.alternatives.iter().filter(fits).cloned();
    [chosen].into_iter().chain(others).collect()
}

/// The most that any of the offerings has of what the pool limits.
fn most_of(offerings: &[Alternative], pool: &Pool) -> Resources {
    let mut most = Resources::new();
    for offering in offerings {
        if let Some(known) = pool.types.iter().find(|known| known.name == offering.instance_type) {
            let limited = known.capacity.iter().filter(|(name, _)| pool.limits.resources.names(name));
            let limited: Vec<(&str, i64)> = limited.map(|(name, amount)| (&**name, amount)).collect();
            Resources::max(&mut most, &Resources::of(&limited));
        }
    }
    most
}
