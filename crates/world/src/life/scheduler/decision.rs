//! Where one pod goes: a pure function of what is known.

use berth_core::selector::Selector;

use super::cache::{Cache, PodId, Slot};
use super::filter::{Concerns, Refusal, Seeker, Volumes, summary};
use super::outlook::{Fixed, Outlook, Outlooks};
use super::preempt::{self, Budget};
use super::score::scores;
use super::trial;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Bind(Slot),
    NoPlace(NoPlace),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoPlace {
    pub(super) message: String,
    /// What could help.
    pub(super) concerns: Concerns,
    pub(super) nomination: Nomination,
    /// Who has to go, the most important first.
    pub(super) victims: Vec<PodId>,
}

/// What becomes of the node that is meant for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nomination {
    Stays,
    Ends,
    Is(Slot),
}

/// What else there is to know about a pod.
pub(super) struct Circumstances<'a> {
    /// Decides among equals.
    pub(super) uid: &'a str,
    pub(super) never_preempts: bool,
    /// The pods that it is spread among by default.
    pub(super) company: Option<Selector>,
    pub(super) budgets: &'a dyn Fn() -> Vec<Budget>,
}

pub(super) fn decide(
    cache: &Cache,
    outlooks: &mut Outlooks,
    id: PodId,
    circumstances: &Circumstances<'_>,
) -> Option<Verdict> {
    let pod = cache.pod(id)?;
    let class = cache.class(pod.class)?;
    if cache.nodes() == 0 {
        return Some(Verdict::NoPlace(NoPlace {
            message: "no nodes available to schedule pods".to_owned(),
            concerns: Concerns::NODES,
            nomination: Nomination::Ends,
            victims: Vec::new(),
        }));
    }
    let volumes = match Volumes::of(cache, pod) {
        Ok(volumes) => volumes,
        Err(why) => {
            return Some(Verdict::NoPlace(NoPlace {
                // The end is what kube-scheduler finds of resource claims, for which it has not looked yet.
                message: format!("0/{} nodes are available: {why}. not found", cache.nodes()),
                concerns: Concerns::STORAGE,
                nomination: Nomination::Stays,
                victims: Vec::new(),
            }));
        }
    };
    let outlook = outlooks.of(cache, pod.class, class, circumstances.company.clone());
    let seeker = Seeker { cache, id, class, volumes: volumes.as_ref() };
    if let Some(slot) = pod.nominated.filter(|slot| has_node(outlook, *slot))
        && trial::refusal(seeker, outlook, slot).is_none()
    {
        return Some(Verdict::Bind(slot));
    }
    let mut passed: Vec<Slot> = Vec::new();
    let mut refusals: Vec<(Slot, Refusal)> = Vec::new();
    for slot in 0..outlook.fixed.len() {
        if has_node(outlook, slot) {
            match trial::refusal(seeker, outlook, slot) {
                None => passed.push(slot),
                Some(refusal) => refusals.push((slot, refusal)),
            }
        }
    }
    Some(match best(cache, seeker, outlook, &passed, circumstances.uid) {
        Some(slot) => Verdict::Bind(slot),
        None => Verdict::NoPlace(no_place(seeker, outlook, &refusals, circumstances)),
    })
}

/// What begins the account of what was tried beyond the filters: first resource claims, of which there are none.
const AFTER: &str = "no new claims to deallocate, preemption:";

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";

fn has_node(outlook: &Outlook, slot: Slot) -> bool {
    outlook.fixed.get(slot).is_some_and(|fixed| *fixed != Fixed::NoNode)
}

/// The one that scores best; of equals one that the pod's identity and the node's name decide on, where
/// kube-scheduler draws lots.
fn best(cache: &Cache, seeker: Seeker<'_>, outlook: &Outlook, passed: &[Slot], uid: &str) -> Option<Slot> {
    if let [only] = passed {
        return Some(*only);
    }
    let scores = scores(cache, seeker.class, outlook, passed);
    let lot = |slot: Slot| {
        let name = cache.host(slot).and_then(|host| host.name.clone()).unwrap_or_default();
        (mixed(&[uid, &name]), name)
    };
    let most = scores.iter().copied().max()?;
    let equals = passed.iter().zip(&scores).filter(|(_, score)| **score == most).map(|(slot, _)| *slot);
    equals.min_by_key(|slot| lot(*slot))
}

/// FNV-1a, with its bits mixed well.
fn mixed(texts: &[&str]) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0xFF])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash ^ (hash >> 33)
}

fn no_place(
    seeker: Seeker<'_>,
    outlook: &mut Outlook,
    refusals: &[(Slot, Refusal)],
    circumstances: &Circumstances<'_>,
) -> NoPlace {
    let cache = seeker.cache;
    let nowhere = summary(cache.nodes(), refusals.iter().flat_map(|(_, refusal)| refusal.reasons(cache)));
    let concerns = refusals.iter().fold(Concerns::NODES, |all, (_, refusal)| all.and(refusal.concerns()));
    let concerns = if seeker.volumes.is_some() { concerns.and(Concerns::STORAGE) } else { concerns };
    let with = |after: &str, nomination, victims| NoPlace {
        message: if after.is_empty() { nowhere.clone() } else { format!("{nowhere} {AFTER} {after}") },
        concerns,
        nomination,
        victims,
    };
    if circumstances.never_preempts {
        return with(NEVER, Nomination::Stays, Vec::new());
    }
    if waits_for_victims(seeker, refusals) {
        let why = "not eligible due to a terminating pod on the nominated node.";
        return with(why, Nomination::Stays, Vec::new());
    }
    match preempt::choose(seeker, outlook, refusals, &(circumstances.budgets)()) {
        Ok(candidate) => with("", Nomination::Is(candidate.slot), candidate.victims),
        Err(why) => with(&why, Nomination::Ends, Vec::new()),
    }
}

/// Whether pods are already leaving the node that is meant for the pod.
fn waits_for_victims(seeker: Seeker<'_>, refusals: &[(Slot, Refusal)]) -> bool {
    let cache = seeker.cache;
    let Some(slot) = cache.pod(seeker.id).and_then(|pod| pod.nominated) else { return false };
    let is_hopeless = refusals.iter().any(|(refused, refusal)| *refused == slot && refusal.is_hopeless());
    !is_hopeless
        && preempt::lower_than(seeker, slot)
            .into_iter()
            .filter_map(|id| cache.pod(id))
            .any(|pod| pod.terminating && pod.preempted)
}
