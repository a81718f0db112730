//! Small problems are solved outright: the cheapest cover of every part of the demand, from the smallest on.

use crate::host::fits;
use crate::market::Amounts;
use crate::pack::add_times;

use super::Work;
use super::knapsack::RuleCounts;
use super::model::{Model, Pattern};

/// Parts of the demand that are looked at, and pairs of them, at most.
const PARTS_MAX: usize = 20_000;
const PAIRS_MAX: usize = 4_000_000;
/// One round of work for so many pairs.
const PAIRS_PER_ROUND: usize = 100_000;

/// The cheapest machines that hold everything, or `None` where that is too much to look at, or where rooms
/// that exist or limits would have a say.
pub(super) fn cheapest(model: &Model, work: &mut Work<'_>) -> Option<Vec<Pattern>> {
    let numbering = Numbering::of(model)?;
    if (0..model.sites.len())
        .any(|site| model.is_once(site) && model.items.iter().any(|i| i.sites.contains(site)))
    {
        return None;
    }
    for _ in 0..numbering.pairs.div_ceil(PAIRS_PER_ROUND) {
        if !work.round() {
            return None;
        }
    }
    let machines: Vec<Option<usize>> =
        (0..numbering.parts).map(|part| machine(model, &numbering.counts(part))).collect();
    // The least cost of each part, and the part that its first machine holds.
    let mut least: Vec<Option<(i64, usize)>> = vec![None; numbering.parts];
    *least.first_mut()? = Some((0, 0));
    for part in 1..numbering.parts {
        let counts = numbering.counts(part);
        let first = counts.iter().position(|count| *count > 0)?;
        for held in numbering.parts_within(&counts, first) {
            let (Some(site), Some((rest, _))) = (machines[held], least[part - held]) else { continue };
            let cost = model.sites[site].price + rest;
            if least[part].is_none_or(|(known, _)| cost < known) {
                least[part] = Some((cost, held));
            }
        }
    }
    let mut patterns = Vec::new();
    let mut part = numbering.parts - 1;
    while part > 0 {
        let (_, held) = least[part]?;
        let items = numbering.counts(held).into_iter().enumerate().filter(|(_, pods)| *pods > 0).collect();
        patterns.push(Pattern { site: machines[held]?, items });
        part -= held;
    }
    keeps_limits(model, &patterns).then_some(patterns)
}

/// The cheapest site that holds these pods on one machine.
fn machine(model: &Model, counts: &[u32]) -> Option<usize> {
    let mut load = Amounts::from_elem(0, model.items.first()?.requests.len());
    let mut rules = RuleCounts::default();
    for (item, pods) in model.items.iter().zip(counts).filter(|(_, pods)| **pods > 0) {
        add_times(&mut load, &item.requests, i64::from(*pods));
        if rules.room(&item.rules) < *pods {
            return None;
        }
        rules.change(&item.rules, i64::from(*pods));
    }
    let held = |item: &super::model::Item, site: usize| item.sites.contains(site);
    (0..model.sites.len())
        .filter(|site| !model.is_once(*site) && fits(&load, &model.sites[*site].room))
        .filter(|site| model.items.iter().zip(counts).all(|(item, pods)| *pods == 0 || held(item, *site)))
        .min_by_key(|site| (model.sites[*site].price, *site))
}

fn keeps_limits(model: &Model, patterns: &[Pattern]) -> bool {
    model.limits.iter().all(|limit| {
        let used: i64 = patterns.iter().map(|pattern| limit.use_of(pattern.site)).sum();
        used <= limit.left
    })
}

/// Parts of the demand as numbers: how many of each item, in mixed radix. A part within another has its number
/// taken off without a borrow.
struct Numbering {
    radix: Vec<usize>,
    parts: usize,
    pairs: usize,
}

impl Numbering {
    fn of(model: &Model) -> Option<Self> {
        let radix: Vec<usize> = model.items.iter().map(|item| item.pods as usize + 1).collect();
        let mut parts = 1_usize;
        let mut pairs = 1_usize;
        for radix in &radix {
            parts = parts.checked_mul(*radix).filter(|parts| *parts <= PARTS_MAX)?;
            pairs = pairs.checked_mul(radix * (radix + 1) / 2).filter(|pairs| *pairs <= PAIRS_MAX)?;
        }
        Some(Self { radix, parts, pairs })
    }

    fn counts(&self, part: usize) -> Vec<u32> {
        let mut rest = part;
        self.radix
            .iter()
            .map(|radix| {
                let count = rest % radix;
                rest /= radix;
                u32::try_from(count).unwrap_or(u32::MAX)
            })
            .collect()
    }

    /// The parts within these counts that have at least one of the item `with`.
    fn parts_within(&self, counts: &[u32], with: usize) -> Vec<usize> {
        let mut parts = vec![0];
        let mut unit = 1;
        for (index, (radix, count)) in self.radix.iter().zip(counts).enumerate() {
            let least = usize::from(index == with);
            let known = std::mem::take(&mut parts);
            parts.extend(
                (least..=*count as usize).flat_map(|count| known.iter().map(move |part| part + count * unit)),
            );
            unit *= radix;
        }
        parts
    }
}
