//! How long pods take from their creation until they run: those that were seen to wait, one look after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::Timestamp;
use berth_core::plan::Plan;
use berth_core::pod::{Pod, PodPhase};
use berth_core::snapshot::Snapshot;

use crate::metrics::{Metrics, table};
use crate::office::PodName;
use crate::sight::secs_between;

/// Pods that do not run yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    coming: BTreeMap<PodName, Coming>,
}

#[derive(Clone, Copy, Debug)]
struct Coming {
    created: Timestamp,
    seen: Timestamp,
    /// Whether any plan was made since.
    is_planned: bool,
    /// When a plan first had a place for it.
    placed: Option<Timestamp>,
    is_bound: bool,
}

impl Arrivals {
    /// Looks at those that wait, since when, and the plan that was made for them, if one was.
    pub(crate) fn look(
        &mut self,
        snapshot: &Snapshot,
        (waiting, plan): (&BTreeMap<PodName, Timestamp>, Option<&Plan>),
        now: Timestamp,
        metrics: &Metrics,
    ) {
        for (name, created) in waiting {
            // One that was made anew under its name is another.
            let is_another = |known: &Coming| known.created != *created;
            if self.coming.get(name).is_none_or(is_another) {
                let coming =
                    Coming { created: *created, seen: now, is_planned: false, placed: None, is_bound: false };
                self.coming.insert(name.clone(), coming);
            }
        }
        let placed: BTreeSet<usize> = plan.iter().flat_map(|plan| &plan.binds).map(|bind| bind.pod).collect();
        let since = |then: Timestamp| Duration::from_secs(secs_between(then, now));
        self.coming.retain(|name, coming| {
            let Some((index, pod)) = found(snapshot, name) else { return false };
            if plan.is_some() && !coming.is_planned && pod.node.is_none() {
                coming.is_planned = true;
                metrics.took(table::PODS_DECISION, [], since(coming.seen));
            }
            if coming.placed.is_none() && placed.contains(&index) {
                coming.placed = Some(now);
            }
            if pod.node.is_some() && !coming.is_bound {
                coming.is_bound = true;
                metrics.took(table::PODS_BOUND, [], since(coming.created));
                if let Some(placed) = coming.placed {
                    metrics.took(table::PODS_PROVISIONING_BOUND, [], since(placed));
                }
            }
            if pod.phase == PodPhase::Running {
                metrics.took(table::PODS_STARTUP, [], since(coming.created));
                if let Some(placed) = coming.placed {
                    metrics.took(table::PODS_PROVISIONING_STARTUP, [], since(placed));
                }
            }
            // What has ended was not seen to run.
            pod.phase == PodPhase::Pending
        });
    }
}

fn found<'s>(snapshot: &'s Snapshot, (namespace, name): &PodName) -> Option<(usize, &'s Pod)> {
    let order = |pod: &Pod| (&pod.namespace, &pod.name).cmp(&(namespace, name));
    let index = snapshot.pods.binary_search_by(order).ok()?;
    Some((index, snapshot.pods.get(index)?))
}
