//! What a plan buys: committed in the pools' ledgers first, and only then made as claims.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::ledger;
use berth_api::vpsie::Occasion;
use berth_core::commitment::{Commitments, Living, Objection};
use berth_core::names::Text;
use berth_core::plan::{Alternative, Launch};
use berth_core::pool::{Limits, Pool};
use berth_core::reason::{Reason, Refusal};
use berth_core::resources::{Resources, USD_PER_HOUR};
use berth_core::units::Price;
use futures::{StreamExt, stream};
use serde_json::json;

use crate::cluster::Refused;
use crate::dialect::{Entry, PoolId, PoolObject};
use crate::metrics::table;
use crate::office::Office;
use crate::planning::Round;
use crate::planted::PlantedBug;
use crate::tally::Direction;

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
    #[error("it has been changed since it was seen")]
    Changed,
    #[error("another leads, since epoch {epoch}")]
    Superseded { epoch: u64 },
    #[error("{0}")]
    Limit(Refusal),
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

impl Account {
    /// Whether the pool's limits and budgets are still those that the plan was made with.
    pub(crate) fn check_seen(&self, seen: &PoolObject) -> Result<(), NotCommitted> {
        if self.object.asks_for_the_same(seen) { Ok(()) } else { Err(NotCommitted::Changed) }
    }
}

/// A launch that is to be bought now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Its index among the plan's.
    pub(crate) launch: usize,
    pub(crate) occasion: Occasion,
    /// What is bought in its place has to cost less.
    pub(crate) price_end: Option<Price>,
}

type Wanted<'l> = (Wish, &'l Launch);

/// What a launch became.
#[derive(Clone, Debug)]
pub(crate) struct Bought {
    /// Its index among the plan's launches.
    pub(crate) launch: usize,
    pub(crate) claim: Text,
}

/// What came of a wish to buy.
#[derive(Debug, Default)]
pub(crate) struct Purchase {
    pub(crate) bought: Vec<Bought>,
    pub(crate) refused: Refusals,
}

/// Which pools committed themselves to nothing, and why. One keeps no other from buying.
pub(crate) type Refusals = BTreeMap<Text, NotCommitted>;

impl Office {
    /// Reads a pool and its claims, as they are and not as they were last seen.
    pub(crate) async fn account(&self, pool: &PoolId) -> Result<Account, NotCommitted> {
        let object = pool_in(pool, &self.desk.read(&pool.path()).await?)?;
        let claims = pool.dialect.entries(&self.desk, Some(pool)).await?;
        let mut record = record_of(&object)?;
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
    /// plan, as is what was too much at once. The claims in `made` have been made since the plan was.
    pub(crate) async fn buy(
        &self,
        round: &Round,
        made: &BTreeSet<Text>,
        (launches, wishes): (&[Launch], &[Wish]),
        epoch: u64,
    ) -> Purchase {
        let mut by_pool: BTreeMap<&Text, Vec<Wanted<'_>>> = BTreeMap::new();
        for wish in wishes {
            if let Some(launch) = launches.get(wish.launch) {
                by_pool.entry(&launch.pool).or_default().push((*wish, launch));
            }
        }
        let mut purchase = Purchase::default();
        for (name, mut launches) in by_pool {
            launches.truncate(CLAIMS_AT_ONCE_MAX);
            // One that cannot be read is there all the same, and counts.
            let known = |claim: &Text| {
                round.claims.contains_key(claim)
                    || round.illegible_claims.contains(claim)
                    || made.contains(claim)
            };
            let bought = &mut purchase.bought;
            if let Err(why) = self.buy_for(round, (name, &launches), known, epoch, bought).await {
                purchase.refused.insert(name.clone(), why);
            }
        }
        purchase
    }

    async fn buy_for(
        &self,
        round: &Round,
        (name, launches): (&Text, &[Wanted<'_>]),
        is_known: impl Fn(&Text) -> bool,
        epoch: u64,
        bought: &mut Vec<Bought>,
    ) -> Result<(), NotCommitted> {
        let Some(pool) = round.snapshot.pools.iter().find(|pool| pool.name == *name) else { return Ok(()) };
        let Some(object) = round.pools.get(name) else { return Ok(()) };
        // A claim says how its machine is set up. Without its class nobody knows.
        let class = object.vpsie_class().map(|name| round.classes.get(name));
        if class == Some(None) {
            return Ok(());
        }
        let class = class.flatten().map(|class| &**class);
        let id = object.id();
        let mut account = self.account(&id).await?;
        account.check_seen(object)?;
        for (claim, counted) in &mut account.living {
            if let Some(cost) = round.cost_of(claim) {
                counted.set(USD_PER_HOUR, cost.micro_usd());
            }
        }
        let unseen = account.living.keys().find(|claim| !is_known(claim));
        if let Some(unseen) = unseen.filter(|_| !PlantedBug::NoReservation.is_planted()) {
            return Err(NotCommitted::Behind { claim: unseen.clone() });
        }
        let offerings: Vec<Vec<Alternative>> =
            launches.iter().map(|(wish, launch)| offerings_within(launch, pool, wish.price_end)).collect();
        let capacities: Vec<Resources> = offerings.iter().map(|offerings| most_of(offerings, pool)).collect();
        let now_secs = self.now().as_second();
        let limits = if PlantedBug::NoReservation.is_planted() { &Limits::default() } else { &pool.limits };
        let (next, names) =
            account.record.with_claims(name, &capacities, &account.living, limits, (epoch, now_secs))?;
        if !PlantedBug::MarkAfterwards.is_planted() {
            self.commit(&account, &next).await?;
        }
        self.stay_within(round, &id, &names, epoch).await?;
        let objects = launches.iter().zip(&offerings).zip(&names).map(|((wanted, offerings), claim)| {
            let (wish, launch) = wanted;
            account.object.new_claim(claim, (pool, class), (launch, wish.occasion), offerings)
        });
        let place = id.dialect.claims(&id.namespace);
        let mut answers = stream::iter(objects)
            .map(async |object| self.desk.create(&place, &object).await)
            .buffered(WRITES_AT_ONCE);
        self.scaled(round, &id, Direction::Up, names.len()).await;
        let mut pairs = launches.iter().zip(&names);
        while let Some(answer) = answers.next().await {
            match answer {
                // Whoever else made it committed to it too.
                Err(refused) if !refused.is_conflict() => return Err(refused.into()),
                _ => bought.extend(
                    pairs
                        .next()
                        .map(|((wish, _), claim)| Bought { launch: wish.launch, claim: claim.clone() }),
                ),
            }
        }
        if PlantedBug::MarkAfterwards.is_planted() {
            self.commit(&account, &next).await?;
        }
        Ok(())
    }

    /// Takes the claims back that were just committed to if with them pools have more nodes than they may have
    /// together. Each pool has a ledger of its own; but whoever commits first and then looks at all of them sees
    /// whatever was committed before, so of two that are too many together at least one is taken back.
    async fn stay_within(
        &self,
        round: &Round,
        pool: &PoolId,
        names: &[Text],
        epoch: u64,
    ) -> Result<(), NotCommitted> {
        for shared in round.snapshot.shared_limits.iter().filter(|shared| shared.pools.contains(&pool.name)) {
            let mut nodes = 0;
            for id in shared.pools.iter().filter_map(|name| round.pools.get(name)).map(|pool| pool.id()) {
                nodes += self.committed_by(&id).await?.claims.len();
            }
            if nodes > shared.nodes_max as usize {
                self.release(pool, &names.iter().cloned().collect(), &BTreeSet::new(), epoch).await?;
                let message = format!("all groups would have {nodes} of at most {} nodes", shared.nodes_max);
                return Err(NotCommitted::Limit(Reason::NodeLimit.because(message)));
            }
        }
        Ok(())
    }

    /// A pool's ledger as it is now, without its claims: there may be thousands. One that is gone has committed itself
    /// to nothing.
    pub(crate) async fn committed_by(&self, pool: &PoolId) -> Result<Commitments, NotCommitted> {
        match self.desk.read(&pool.path()).await {
            Err(refused) if refused.is_absence() => Ok(Commitments::default()),
            text => Ok(record_of(&pool_in(pool, &text?)?)?),
        }
    }

    /// Takes claims that are gone, and departures that are undone, out of a pool's ledger.
    pub(crate) async fn release(
        &self,
        pool: &PoolId,
        gone: &BTreeSet<Text>,
        staying: &BTreeSet<Text>,
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

fn pool_in(id: &PoolId, text: &str) -> Result<PoolObject, Refused> {
    id.dialect.pool(text).ok_or_else(|| Refused::unsaid(format!("{} cannot be read", id.path())))
}

fn record_of(pool: &PoolObject) -> Result<Commitments, ledger::Unreadable> {
    let mut record = pool.ledger()?;
    if PlantedBug::LeadRemembered.is_planted() {
        record.epoch = 0;
    }
    Ok(record)
}

/// The offering that the plan chose, and those others that are cheap enough and no larger in anything that the pool limits:
/// two claims could not both become larger within a limit that only one of them fits.
fn offerings_within(launch: &Launch, pool: &Pool, price_end: Option<Price>) -> Vec<Alternative> {
    let chosen = Alternative {
        instance_type: launch.instance_type.clone(),
        zone: launch.zone.clone(),
        capacity_type: launch.capacity_type,
        price_per_hour: launch.price,
    };
    let most = limited_of(&chosen, pool);
    let fits = |other: &&Alternative| match (limited_of(other, pool), &most) {
        (Some(other), Some(most)) => other.first_exceeding(most).is_none(),
        _ => false,
    };
    let is_cheap = |other: &&Alternative| price_end.is_none_or(|end| other.price_per_hour < end);
    let others = launch.alternatives.iter().filter(is_cheap).filter(fits).cloned();
    [chosen].into_iter().chain(others).collect()
}

/// The most that any of the offerings has of what the pool limits.
fn most_of(offerings: &[Alternative], pool: &Pool) -> Resources {
    let mut most = Resources::new();
    for limited in offerings.iter().filter_map(|offering| limited_of(offering, pool)) {
        Resources::max(&mut most, &limited);
    }
    most
}

/// What an offering has of what the pool limits, if it is offered.
fn limited_of(offering: &Alternative, pool: &Pool) -> Option<Resources> {
    let known = pool.types.iter().find(|known| known.name == offering.instance_type)?;
    let cost = offering.price_per_hour.plus(pool.node_cost);
    let amount = |name: &Text| (name.clone(), Limits::amount(name, &known.capacity, cost));
    Some(
        pool.limits
            .resources
            .iter()
            .map(|(name, _)| amount(name))
            .filter(|(_, amount)| *amount > 0)
            .collect(),
    )
}
