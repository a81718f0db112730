//! Which of the nodes that are open to a pod suits it best, by kube-scheduler's default plugins and weights.
//!
//! All open nodes are compared: kube-scheduler looks at a sample where there are many. No node has images.

use berth_core::scoring::{self, SCORE_MAX, Share};

use super::cache::{Cache, Class, Host, SCORED, Slot};
use super::outlook::{Fixed, Outlook, SoftSpread};

const WEIGHT_TAINTS: i64 = 3;
const WEIGHT_NODE_AFFINITY: i64 = 2;
const WEIGHT_SPREAD: i64 = 2;
const WEIGHT_POD_AFFINITY: i64 = 2;
const WEIGHT_LEAST_ALLOCATED: i64 = 1;
const WEIGHT_BALANCED: i64 = 1;

/// The score of each of the nodes that passed.
pub(super) fn scores(cache: &Cache, class: &Class, outlook: &Outlook, passed: &[Slot]) -> Vec<i64> {
    let mut scores: Vec<i64> =
        passed.iter().map(|slot| cache.host(*slot).map_or(0, |host| of_resources(class, host))).collect();
    let fixed = |slot: &Slot| match outlook.fixed.get(*slot) {
        Some(Fixed::Open { taints_borne, preference }) => (i64::from(*taints_borne), *preference),
        _ => (0, 0),
    };
    let taints: Vec<i64> = passed.iter().map(|slot| fixed(slot).0).collect();
    add(&mut scores, WEIGHT_TAINTS, to_most(&taints).into_iter().map(|share| SCORE_MAX - share));
    let preferences: Vec<i64> = passed.iter().map(|slot| fixed(slot).1).collect();
    add(&mut scores, WEIGHT_NODE_AFFINITY, to_most(&preferences));
    if !outlook.likes.is_empty() {
        let weight = |slot: &Slot| outlook.likes.iter().map(|likes| likes.weight(*slot)).sum();
        let weights: Vec<i64> = passed.iter().map(weight).collect();
        add(&mut scores, WEIGHT_POD_AFFINITY, between(&weights));
    }
    if !outlook.spreads.is_empty() {
        add(&mut scores, WEIGHT_SPREAD, of_spreads(&outlook.spreads, passed));
    }
    scores
}

fn add(scores: &mut [i64], weight: i64, more: impl IntoIterator<Item = i64>) {
    for (score, more) in scores.iter_mut().zip(more) {
        *score += weight * more;
    }
}

fn of_resources(class: &Class, host: &Host) -> i64 {
    let share =
        |dimension: usize, used: i64| Share { used, total: host.total.get(dimension).copied().unwrap_or(0) };
    let asked = |dimension: usize| class.requests.get(dimension).copied().unwrap_or(0);
    let used = |dimension: usize| {
        let at = |list: &[i64]| list.get(dimension).copied().unwrap_or(0);
        at(&host.total) - at(&host.left)
    };
    let scored: [Share; SCORED] = std::array::from_fn(|d| {
        let at = |list: &[i64; SCORED]| list.get(d).copied().unwrap_or(0);
        share(d, at(&host.scored) + at(&class.scored))
    });
    let least = scoring::least_allocated(&scored);
    // A pod that asks for neither is not to be drawn to where it makes no difference.
    let balanced = if (0..SCORED).all(|d| asked(d) == 0) {
        0
    } else {
        let before: [Share; SCORED] = std::array::from_fn(|d| share(d, used(d)));
        let after: [Share; SCORED] = std::array::from_fn(|d| share(d, used(d) + asked(d)));
        scoring::balanced(&before, &after)
    };
    WEIGHT_LEAST_ALLOCATED * least + WEIGHT_BALANCED * balanced
}

/// Each as a share of the largest; nothing where all are nothing.
fn to_most(values: &[i64]) -> Vec<i64> {
    let most = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|value| if most == 0 { 0 } else { SCORE_MAX * value / most }).collect()
}

/// Each as a share of the way from the least to the most.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "kube-scheduler reckons so, and from 0 to 100 it comes out"
)]
fn between(values: &[i64]) -> Vec<i64> {
    let (least, most) =
        (values.iter().copied().min().unwrap_or(0), values.iter().copied().max().unwrap_or(0));
    let share = |value: &i64| SCORE_MAX as f64 * ((value - least) as f64 / (most - least) as f64);
    values.iter().map(|value| if most > least { share(value) as i64 } else { 0 }).collect()
}

/// The fewer pods of its kind are in a node's domains, the better.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "kube-scheduler reckons so, and as many pods as there can be are far from the limits"
)]
fn of_spreads(spreads: &[SoftSpread], passed: &[Slot]) -> Vec<i64> {
    let is_ignored =
        |slot: Slot| spreads.iter().any(|spread| spread.ignored.get(slot).copied().unwrap_or(true));
    let compared: Vec<Slot> = passed.iter().copied().filter(|slot| !is_ignored(*slot)).collect();
    let weights: Vec<f64> = spreads
        .iter()
        .map(|spread| {
            let size = if spread.is_over_hosts {
                compared.len()
            } else {
                let mut domains: Vec<Option<usize>> =
                    compared.iter().map(|slot| spread.domain(*slot)).collect();
                domains.sort_unstable();
                domains.dedup();
                domains.len()
            };
            ((size + 2) as f64).ln()
        })
        .collect();
    let raw = |slot: Slot| {
        let mut sum = 0.0;
        for (spread, weight) in spreads.iter().zip(&weights) {
            if spread.has_key.get(slot).copied().unwrap_or(false) {
                sum += spread.count(slot) as f64 * weight + f64::from(spread.max_skew.saturating_sub(1));
            }
        }
        sum.round() as i64
    };
    let raws: Vec<Option<i64>> = passed.iter().map(|slot| (!is_ignored(*slot)).then(|| raw(*slot))).collect();
    let most = raws.iter().flatten().copied().max().unwrap_or(0);
    let least = raws.iter().flatten().copied().min().unwrap_or(0);
    raws.into_iter()
        .map(|raw| match raw {
            None => 0,
            Some(_) if most == 0 => SCORE_MAX,
            Some(raw) => SCORE_MAX * (most + least - raw) / most,
        })
        .collect()
}
