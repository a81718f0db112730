//! How a pool's nodes are divided among capacity types and zones.

use crate::catalog::{CapacityType, Offering};
use crate::names::{self, Text};
use crate::node::Node;
use crate::plan::Launch;
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};

/// What a pool says of the division of its nodes; nothing, unless told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    pub spot: Option<SpotShare>,
    pub zones: Option<ZoneSplit>,
    /// The type that is bought wherever it would do, whatever others cost.
    pub preferred_type: Option<Text>,
}

/// How much of a pool may be spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpotShare {
    /// At most so many of a hundred nodes.
    pub percent_max: u32,
    /// Where spot cannot be had, more than the rest is bought on demand.
    pub falls_back: bool,
}

impl SpotShare {
    /// How many of so many nodes may be spot.
    fn spot_max(self, nodes: u32) -> u32 {
        u32::try_from(u64::from(nodes) * u64::from(self.percent_max) / 100).unwrap_or(u32::MAX)
    }

    /// How many of so many nodes may be anything else.
    fn others_max(self, nodes: u32) -> u32 {
        if self.falls_back { nodes } else { nodes.saturating_sub(self.spot_max(nodes)) }
    }
}

/// The zones that a pool is to be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSplit {
    pub rule: ZoneRule,
    /// With their weights, in the pool's order.
    pub zones: Vec<(Text, u32)>,
    /// So many nodes are in each of them, whatever the pods want.
    pub nodes_min: u32,
}

/// Where the next node goes. Pods that can only be elsewhere are not kept waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRule {
    /// To the zone that has the fewest for its weight.
    ByWeight,
    /// To the first zone that can be had.
    InOrder,
}

impl ZoneSplit {
    /// Whether the next node belongs to the one zone rather than to the other, if these have so many.
    fn prefers(&self, (this, has): (usize, u32), (that, other_has): (usize, u32)) -> bool {
        match self.rule {
            ZoneRule::InOrder => this < that,
            ZoneRule::ByWeight => {
                let weight = |zone: usize| u64::from(self.zones.get(zone).map_or(0, |(_, weight)| *weight));
                (u64::from(has) + 1) * weight(that) < (u64::from(other_has) + 1) * weight(this)
            }
        }
    }
}

/// Which part of its pool's division a node is in. All nodes of a pool that is not divided are in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Portion {
    is_spot: bool,
    zone: Option<usize>,
    is_preferred: bool,
}

impl Portion {
    pub(crate) fn is_spot(self) -> bool {
        self.is_spot
    }

    pub(crate) fn of_offering(pool: &Pool, instance_type: &str, offering: &Offering) -> Self {
        let is_spot = offering.capacity_type == CapacityType::Spot;
        Self::of(&pool.division, is_spot, Some(&offering.zone), Some(instance_type))
    }

    pub(crate) fn of_launch(pool: &Pool, launch: &Launch) -> Self {
        let is_spot = launch.capacity_type == CapacityType::Spot;
        Self::of(&pool.division, is_spot, Some(&launch.zone), Some(&launch.instance_type))
    }

    pub(crate) fn of_node(pool: &Pool, node: &Node) -> Self {
        let label = |key: &str| node.labels.get(key).map(|value| &**value);
        let is_spot = label(names::CAPACITY_TYPE) == Some(CapacityType::Spot.name());
        Self::of(&pool.division, is_spot, label(names::ZONE), label(names::INSTANCE_TYPE))
    }

    fn of(division: &Division, is_spot: bool, zone: Option<&str>, instance_type: Option<&str>) -> Self {
        let index = |split: &ZoneSplit| split.zones.iter().position(|(known, _)| Some(&**known) == zone);
        let preferred = division.preferred_type.as_deref();
        Self {
            is_spot: is_spot && division.spot.is_some(),
            zone: division.zones.as_ref().and_then(index),
            is_preferred: preferred.is_some() && preferred == instance_type,
        }
    }
}

/// How many nodes of a pool stay, by portion.
#[derive(Clone, Debug)]
pub(crate) struct Divided {
    division: Division,
    nodes: u32,
    spot: u32,
    by_zone: Vec<u32>,
}

impl Divided {
    pub(crate) fn new(pool: &Pool) -> Self {
        let zones = pool.division.zones.as_ref().map_or(0, |split| split.zones.len());
        Self { division: pool.division.clone(), nodes: 0, spot: 0, by_zone: vec![0; zones] }
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    pub(crate) fn come(&mut self, portion: Portion) {
        self.nodes += 1;
        self.spot += u32::from(portion.is_spot);
        if let Some(nodes) = portion.zone.and_then(|zone| self.by_zone.get_mut(zone)) {
            *nodes += 1;
        }
    }

    pub(crate) fn go(&mut self, portion: Portion) {
        self.nodes = self.nodes.saturating_sub(1);
        self.spot = self.spot.saturating_sub(u32::from(portion.is_spot));
        if let Some(nodes) = portion.zone.and_then(|zone| self.by_zone.get_mut(zone)) {
            *nodes = nodes.saturating_sub(1);
        }
    }

    /// Why one more of this portion would be too many, if it would.
    pub(crate) fn refusal_to_come(&self, portion: Portion) -> Option<Refusal> {
        let share = self.division.spot?;
        let after = self.nodes + 1;
        let (have, max, what) = if portion.is_spot {
            (self.spot, share.spot_max(after), "spot")
        } else {
            (self.nodes - self.spot, share.others_max(after), "on demand, for it does not fall back to that")
        };
        (have >= max).then(|| {
            let message = format!("of {after} nodes {max} may be {what}, and the pool has {have}");
            Reason::SpotShare.because(message)
        })
    }

    /// Why one of this portion must not go for good, if it must not. One that is empty goes whatever its zone has beside
    /// others: it is of no use to anybody.
    pub(crate) fn refusal_to_go(&self, portion: Portion, is_empty: bool) -> Option<Refusal> {
        if let Some((split, zone)) = self.division.zones.as_ref().zip(portion.zone) {
            let has = |zone: usize| self.by_zone.get(zone).copied().unwrap_or(0);
            let name = |zone: usize| split.zones.get(zone).map_or("", |(name, _)| name);
            if has(zone) <= split.nodes_min {
                let message = format!(
                    "the pool must have {} nodes in {}, and has no more",
                    split.nodes_min,
                    name(zone)
                );
                return Some(Reason::PoolMinimum.because(message));
            }
            let mut after = self.clone();
            after.go(portion);
            if !is_empty && after.misplaced() > self.misplaced() {
                let message = format!(
                    "with one less than {} nodes {} would be behind the pool's other zones",
                    has(zone),
                    name(zone)
                );
                return Some(Reason::ZoneShare.because(message));
            }
        }
        let mut after = self.clone();
        after.go(portion);
        (after.spot_excess() > self.spot_excess()).then(|| {
            let max = after.spot - after.spot_excess();
            let message =
                format!("of {} nodes {max} may be spot, and the pool has {}", after.nodes, after.spot);
            Reason::SpotShare.because(message)
        })
    }

    /// Whether one portion may take the place of the other where something else cannot be had: nothing becomes spot that
    /// was not, and nothing moves to another zone.
    pub(crate) fn lets_replace(&self, from: Portion, to: Portion) -> bool {
        let stays_off_spot = from.is_spot || !to.is_spot;
        let may_fall_back =
            !from.is_spot || to.is_spot || self.division.spot.is_none_or(|share| share.falls_back);
        from.zone == to.zone && stays_off_spot && may_fall_back
    }

    /// Whether the next node may have to be of another portion than the last.
    pub(crate) fn has_turns(&self) -> bool {
        self.division != Division::default()
    }

    /// Those of these portions to which the next node belongs: by zone first, then by type.
    pub(crate) fn due(&self, among: &[Portion]) -> Vec<Portion> {
        let mut due = self.due_by_zone(among);
        if due.iter().any(|portion| portion.is_preferred) {
            due.retain(|portion| portion.is_preferred);
        }
        due
    }

    fn due_by_zone(&self, among: &[Portion]) -> Vec<Portion> {
        let Some(split) = &self.division.zones else { return among.to_vec() };
        let standing =
            |portion: &Portion| portion.zone.map(|zone| (zone, self.by_zone.get(zone).copied().unwrap_or(0)));
        let is_behind = |this: &Portion, that: &Portion| match (standing(this), standing(that)) {
            (Some(this), Some(that)) => split.prefers(this, that),
            (this, that) => this.is_some() && that.is_none(),
        };
        let is_due = |portion: &&Portion| !among.iter().any(|other| is_behind(other, portion));
        among.iter().filter(is_due).copied().collect()
    }

    /// The portions in which there are fewer nodes than there must be.
    pub(crate) fn wants(&self, portion: Portion) -> bool {
        let least = self.division.zones.as_ref().map_or(0, |split| split.nodes_min);
        portion.zone.and_then(|zone| self.by_zone.get(zone)).is_some_and(|has| *has < least)
    }

    /// How many nodes each zone lacks of those that it must have.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = u32> {
        let least = self.division.zones.as_ref().map_or(0, |split| split.nodes_min);
        self.by_zone.iter().map(move |has| least.saturating_sub(*has))
    }

    /// How many nodes would have to be in another zone for each to have its part by weight.
    pub(crate) fn misplaced(&self) -> u32 {
        let Some(split) = self.division.zones.as_ref().filter(|split| split.rule == ZoneRule::ByWeight)
        else {
            return 0;
        };
        let mut has = self.by_zone.clone();
        let mut moved = 0;
        loop {
            let pairs = (0..has.len()).flat_map(|to| (0..has.len()).map(move |from| (to, from)));
            let better = pairs.into_iter().find(|(to, from)| {
                to != from && has[*from] > 0 && split.prefers((*to, has[*to]), (*from, has[*from] - 1))
            });
            let Some((to, from)) = better else { return moved };
            has[to] += 1;
            has[from] -= 1;
            moved += 1;
        }
    }

    /// How many nodes are spot that should not be.
    pub(crate) fn spot_excess(&self) -> u32 {
        self.division.spot.map_or(0, |share| self.spot.saturating_sub(share.spot_max(self.nodes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(division: Division, spot: u32, by_zone: &[u32], nodes: u32) -> Divided {
        Divided { division, nodes, spot, by_zone: by_zone.to_vec() }
    }

    fn in_zone(zone: usize) -> Portion {
        Portion { zone: Some(zone), ..Portion::default() }
    }

    #[test]
    fn the_preferred_type_comes_first_within_its_zone() {
        let division = Division { preferred_type: Some("big".into()), ..Division::default() };
        let preferred = Portion { is_preferred: true, ..Portion::default() };
        let divided = divided(division, 0, &[], 0);
        assert_eq!(divided.due(&[Portion::default(), preferred]), [preferred]);
        assert_eq!(divided.due(&[Portion::default()]), [Portion::default()]);
    }

    #[test]
    fn spot_is_a_share_of_all() {
        let share = |percent_max, falls_back| Division {
            spot: Some(SpotShare { percent_max, falls_back }),
            ..Division::default()
        };
        let (spot, other) = (Portion { is_spot: true, ..Portion::default() }, Portion::default());
        for (percent, falls_back, has, nodes, may_spot, may_other, other_may_go) in [
            (80, true, 0, 0, false, true, true),
            (80, true, 0, 1, true, true, true),
            (80, true, 4, 5, false, true, false),
            (80, true, 3, 5, true, true, true),
            (100, true, 0, 0, true, true, true),
            (0, true, 0, 9, false, true, true),
            (80, false, 0, 0, false, true, true),
            (80, false, 0, 1, true, false, true),
            (50, false, 1, 2, false, true, false),
        ] {
            let divided = divided(share(percent, falls_back), has, &[], nodes);
            let case = format!("{has} of {nodes} at {percent} %");
            assert_eq!(divided.refusal_to_come(spot).is_none(), may_spot, "{case}");
            assert_eq!(divided.refusal_to_come(other).is_none(), may_other, "{case}");
            assert_eq!(divided.refusal_to_go(other, false).is_none(), other_may_go, "{case}");
            assert!(divided.refusal_to_go(spot, false).is_none(), "{case}: spot may always go");
        }
    }

    #[test]
    fn the_next_node_goes_where_it_is_due() {
        type Case = (ZoneRule, [u32; 3], [u32; 3], &'static [usize]);
        let split = |rule, weights: &[u32]| Division {
            zones: Some(ZoneSplit {
                rule,
                zones: weights
                    .iter()
                    .enumerate()
                    .map(|(zone, weight)| (format!("z{zone}").into(), *weight))
                    .collect(),
                nodes_min: 0,
            }),
            ..Division::default()
        };
        let cases: [Case; 7] = [
            (ZoneRule::ByWeight, [1, 1, 1], [0, 0, 0], &[0, 1, 2]),
            (ZoneRule::ByWeight, [1, 1, 1], [1, 0, 0], &[1, 2]),
            (ZoneRule::ByWeight, [1, 1, 1], [2, 2, 1], &[2]),
            (ZoneRule::ByWeight, [3, 1, 1], [0, 0, 0], &[0]),
            (ZoneRule::ByWeight, [3, 1, 0], [3, 0, 0], &[1]),
            (ZoneRule::ByWeight, [0, 1, 1], [0, 5, 5], &[1, 2]),
            (ZoneRule::InOrder, [0, 0, 0], [9, 0, 0], &[0]),
        ];
        for (rule, weights, has, expected) in cases {
            let divided = divided(split(rule, &weights), 0, &has, has.iter().sum());
            let all: Vec<Portion> = (0..weights.len()).map(in_zone).collect();
            let due: Vec<usize> = divided.due(&all).iter().filter_map(|portion| portion.zone).collect();
            assert_eq!(due, expected, "{weights:?} with {has:?}");
        }
    }

    #[test]
    fn nodes_go_from_where_there_are_more() {
        let zones = |weights: [u32; 2]| Division {
            zones: Some(ZoneSplit {
                rule: ZoneRule::ByWeight,
                zones: vec![("a".into(), weights[0]), ("b".into(), weights[1])],
                nodes_min: 0,
            }),
            ..Division::default()
        };
        for (weights, has, is_empty, may_go) in [
            ([1, 1], [3, 3], false, [true, true]),
            ([1, 1], [2, 3], false, [false, true]),
            ([1, 1], [2, 3], true, [true, true]),
            ([2, 1], [2, 1], false, [true, true]),
            ([2, 1], [3, 2], false, [false, true]),
        ] {
            let divided = divided(zones(weights), 0, &has, has.iter().sum());
            let goes = |zone| divided.refusal_to_go(in_zone(zone), is_empty).is_none();
            assert_eq!([goes(0), goes(1)], may_go, "{weights:?} with {has:?}");
        }
    }

    #[test]
    fn each_zone_keeps_its_least() {
        let zones = Some(ZoneSplit {
            rule: ZoneRule::ByWeight,
            zones: vec![("a".into(), 1), ("b".into(), 1)],
            nodes_min: 1,
        });
        let divided = divided(Division { zones, ..Division::default() }, 0, &[1, 2], 3);
        let reason =
            |at: usize, is_empty| divided.refusal_to_go(in_zone(at), is_empty).map(|refusal| refusal.reason);
        assert_eq!(reason(0, true), Some(Reason::PoolMinimum));
        assert_eq!(reason(1, false), None);
        assert!(!divided.wants(in_zone(0)) && !divided.wants(Portion::default()));
        assert_eq!(divided.lacking().collect::<Vec<_>>(), [0, 0]);
    }
}
