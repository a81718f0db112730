//! Why a NodePool does not grow, as events on it: pods say it too, but there may be thousands, and they go.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::names::Text;
use berth_core::plan::{Plan, PoolRefusal};
use berth_core::pool::Limits;
use berth_core::reason::Reason;
use berth_core::resources::format_amount;

use crate::buy::{NotCommitted, Refusals};
use crate::dialect::{Dialect, PoolObject};
use crate::journal::Severity;
use crate::office::Office;
use crate::planning::Round;

/// So many pools are told something new at once; the others with the next look.
const TOLD_AT_ONCE_MAX: usize = 10;

impl Office {
    /// Says on pools that their limits keep pods from a place.
    pub(crate) async fn tell_limits(&self, round: &Round, plan: &Plan) {
        let refusals = plan.unplaced.iter().flat_map(|unplaced| &unplaced.refusals);
        let is_limit = |reason: Reason| matches!(reason, Reason::PoolLimit | Reason::NodeLimit);
        let reached: BTreeSet<_> = refusals
            .filter(|PoolRefusal { refusal, .. }| is_limit(refusal.reason))
            .filter_map(|PoolRefusal { pool, refusal }| Some((pool.as_ref()?, refusal.reason)))
            .collect();
        let mut told = 0;
        for (name, reason) in reached {
            if told == TOLD_AT_ONCE_MAX {
                break;
            }
            let Some(pool) = round.snapshot.pools.iter().find(|pool| pool.name == *name) else { continue };
            // How much is used differs from look to look, and is in the pool's status.
            let message = format!("pods wait, and {} let it buy no node for them", limits(&pool.limits));
            told += usize::from(self.tell_pool(round, name, (reason.name(), &message)).await);
        }
    }

    /// Says on pools why nothing could be committed.
    pub(crate) async fn tell_refusals(&self, round: &Round, refusals: &Refusals) {
        for (name, why) in refusals.iter().filter(|(_, why)| !is_passing(why)).take(TOLD_AT_ONCE_MAX) {
            let message = format!("nothing was committed: {why}");
            self.tell_pool(round, name, ("NotCommitted", &message)).await;
        }
    }

    /// Whether it was news. NodeGroups have conditions for it.
    async fn tell_pool(&self, round: &Round, name: &Text, (reason, message): (&str, &str)) -> bool {
        let is_told = |pool: &&Arc<PoolObject>| pool.dialect() == Dialect::Karpenter;
        let Some(pool) = round.pools.get(name).filter(is_told) else { return false };
        let said = (Severity::Warning, reason, message);
        self.journal.say(&self.desk, (&pool.about(), self.now()), said).await
    }
}

/// Somebody else was faster: with the next look it is well, or another's concern.
fn is_passing(why: &NotCommitted) -> bool {
    match why {
        NotCommitted::Cluster(refused) => refused.is_conflict(),
        NotCommitted::Behind { .. } | NotCommitted::Changed | NotCommitted::Superseded { .. } => true,
        NotCommitted::Unreadable(_) | NotCommitted::Limit(_) => false,
    }
}

/// A pool's limits in words.
fn limits(limits: &Limits) -> String {
    let resources = limits.resources.iter();
    let resources =
        resources.map(|(resource, amount)| format!("{resource}: {}", format_amount(resource, amount)));
    let nodes = limits.nodes.map(|nodes| format!("nodes: {nodes}"));
    let own = resources.chain(nodes).collect::<Vec<_>>().join(", ");
    if own.is_empty() { "limits that it shares".to_owned() } else { format!("its limits ({own})") }
}
