//! How full nodes are.

use berth_core::names::Text;
use berth_core::resources::{CPU, MEMORY, PODS, Resources, format_amount};

/// How much of one resource is taken on one node, or on several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) resource: Text,
    /// Taken by what is there whatever the plan does: running pods, DaemonSets.
    pub(crate) held: i64,
    /// Taken by the pods that the plan puts there.
    pub(crate) added: i64,
    pub(crate) allocatable: i64,
}

impl Fill {
    /// Rounded down, so that only a full node is 100 % full. `None` where there is nothing to fill.
    pub(crate) fn percent(&self) -> Option<u32> {
        self.percent_of(self.held.saturating_add(self.added))
    }

    pub(crate) fn held_percent(&self) -> Option<u32> {
        self.percent_of(self.held)
    }

    fn percent_of(&self, taken: i64) -> Option<u32> {
        if self.allocatable <= 0 {
            return None;
        }
        let percent = i128::from(taken) * 100 / i128::from(self.allocatable);
        Some(u32::try_from(percent).unwrap_or(u32::MAX))
    }

    /// `3 of 3900m`.
    pub(crate) fn amounts(&self) -> String {
        let taken = format_amount(&self.resource, self.held.saturating_add(self.added));
        format!("{taken} of {}", format_amount(&self.resource, self.allocatable))
    }
}

/// CPU, memory and pods, then whatever else is taken, by name.
pub(crate) fn fills(held: &Resources, added: &Resources, allocatable: &Resources) -> Vec<Fill> {
    let always = [CPU, MEMORY, PODS];
    let taken = held.plus(added);
    let others = taken.iter().filter(|(name, amount)| *amount > 0 && !always.contains(&&***name));
    always
        .iter()
        .map(|name| Text::from(*name))
        .chain(others.map(|(name, _)| name.clone()))
        .map(|resource| Fill {
            held: held.get(&resource),
            added: added.get(&resource),
            allocatable: allocatable.get(&resource),
            resource,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_down() {
        for (held, added, allocatable, held_percent, percent) in [
            (0, 0, 10, Some(0), Some(0)),
            (0, 999, 1000, Some(0), Some(99)),
            (500, 500, 1000, Some(50), Some(100)),
            (0, 15, 10, Some(0), Some(150)),
            (0, 5, 0, None, None),
            (i64::MAX, i64::MAX, i64::MAX, Some(100), Some(100)),
        ] {
            let fill = Fill { resource: CPU.into(), held, added, allocatable };
            assert_eq!((fill.held_percent(), fill.percent()), (held_percent, percent), "{fill:?}");
        }
    }

    #[test]
    fn the_usual_resources_come_first_and_others_only_where_taken() {
        let held = Resources::of(&[("nvidia.com/gpu", 1), ("example.com/idle", 0)]);
        let room = Resources::of(&[(CPU, 4000), ("nvidia.com/gpu", 2), ("example.com/idle", 2)]);
        let names: Vec<_> = fills(&held, &Resources::new(), &room)
            .into_iter()
            .map(|fill| fill.resource.to_string())
            .collect();
        assert_eq!(names, [CPU, MEMORY, PODS, "nvidia.com/gpu"]);
    }
}
