//! Random clusters with pods of very many sizes.

use std::sync::Arc;

use berth_core::pod::PodOrigin;
use berth_core::resources::{CPU, MEMORY, Resources};
use berth_core::snapshot::{Policy, Snapshot};

use super::{Dice, cluster};

/// Enough that no two dozen of the sizes are alike.
const COPIES: usize = 30;
const MIB: i64 = 1 << 20;

/// A cluster in which each pod that waits has many companions, each a little larger than it.
pub(crate) fn crowded_cluster(seed: u64) -> (Snapshot, Policy) {
    let (mut snapshot, policy) = cluster(seed);
    let mut dice = Dice::new(seed ^ 0xC0D);
    let waiting = snapshot.pods.iter().filter(|pod| {
        pod.node.is_none()
            && pod.volumes.is_empty()
            && pod.origin == PodOrigin::Object
            && pod.daemon_set.is_none()
    });
    let mut companions = Vec::new();
    for pod in waiting {
        for copy in 0..COPIES {
            let mut companion = pod.clone();
            companion.name = format!("{}-{copy}", pod.name).into();
            let mut spec = (*companion.spec).clone();
            let amount = |below: usize, dice: &mut Dice| i64::try_from(dice.below(below)).unwrap_or(0);
            let more = [(CPU, 10 * amount(40, &mut dice)), (MEMORY, 16 * MIB * amount(40, &mut dice))];
            spec.requests = spec.requests.plus(&Resources::of(&more));
            companion.spec = Arc::new(spec);
            companions.push(companion);
        }
    }
    snapshot.pods.extend(companions);
    (snapshot.in_order(), policy)
}
