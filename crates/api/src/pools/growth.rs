//! When a NodeGroup may grow.

use std::collections::BTreeSet;

use berth_core::names::Text;
use berth_core::reason::{Reason, Refusal};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::resources::vpsie::{AutoscalerConfig, GlobalSettings, NodeGroup, ScaleUpPolicy};
use crate::template::NewGroups;
use crate::vpsie::{MANAGED, PAUSE, is_managed};

/// What holds for all groups together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupSettings {
    /// How many nodes all may have; no limit if there is none.
    pub(crate) nodes_max: Option<u32>,
    /// How many nodes of a group may go at once.
    pub(crate) removals_max: u32,
    /// Whether nodes are replaced by cheaper ones; `None` where nobody says so for all groups.
    pub(crate) is_rebalancing: Option<bool>,
    /// How long no group shrinks after one has.
    pub(crate) removal_cooldown_secs: u32,
    growth_cooldown_secs: u32,
    /// How many groups may grow at the same time.
    growths_max: usize,
    /// How long pods wait before a node is bought for them.
    pub(crate) grace_secs: u32,
}

impl GroupSettings {
    pub(crate) fn of(config: &AutoscalerConfig) -> Self {
        let GlobalSettings {
            scale_up_cooldown_seconds,
            scale_down_cooldown_seconds,
            max_concurrent_scale_ups,
            max_concurrent_scale_downs,
            max_cluster_workers,
            unschedulable_pod_grace_period_seconds,
            enable_rebalancing,
            ..
        } = &config.spec.global_settings;
        Self {
            nodes_max: Some(max_cluster_workers.get()).filter(|nodes| *nodes > 0),
            removals_max: max_concurrent_scale_downs.get(),
            is_rebalancing: Some(*enable_rebalancing),
            removal_cooldown_secs: scale_down_cooldown_seconds.get(),
            growth_cooldown_secs: scale_up_cooldown_seconds.get(),
            growths_max: usize::try_from(max_concurrent_scale_ups.get()).unwrap_or(usize::MAX),
            grace_secs: unschedulable_pod_grace_period_seconds.get(),
        }
    }
}

/// Without an AutoscalerConfig groups grow at once and shrink, each by itself.
impl Default for GroupSettings {
    fn default() -> Self {
        let GlobalSettings { scale_up_cooldown_seconds, max_concurrent_scale_downs, .. } =
            GlobalSettings::default();
        Self {
            nodes_max: None,
            removals_max: max_concurrent_scale_downs.get(),
            is_rebalancing: None,
            removal_cooldown_secs: 0,
            growth_cooldown_secs: scale_up_cooldown_seconds.get(),
            growths_max: usize::MAX,
            grace_secs: 0,
        }
    }
}

/// What a group says of its growth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrowthRules {
    pub(crate) is_managed: bool,
    is_paused: bool,
    pub(crate) is_enabled: bool,
    /// A group that has shrunk does not grow again at once.
    stabilization_secs: u32,
    shrank: Option<Timestamp>,
    grew: Option<Timestamp>,
    pub(crate) thresholds: Thresholds,
}

/// A group whose nodes use more than this, in percent, for so long has too few of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Nothing is asked for where this is none.
    pub(crate) cpu_percent: u32,
    pub(crate) memory_percent: u32,
    pub(crate) window_secs: u32,
}

pub(crate) fn read_growth(group: &NodeGroup) -> GrowthRules {
    let policy = &group.spec.scale_up_policy;
    let status = group.status.as_ref();
    GrowthRules {
        is_managed: is_managed(&group.metadata),
        is_paused: is_paused(&group.metadata),
        is_enabled: policy.enabled,
        stabilization_secs: policy.stabilization_window_seconds.get(),
        shrank: status.and_then(|status| status.last_scale_down_time.as_ref()).map(|time| time.0),
        grew: status.and_then(|status| status.last_scale_up_time.as_ref()).map(|time| time.0),
        thresholds: if policy.enabled { Thresholds::of(policy) } else { Thresholds::default() },
    }
}

impl Thresholds {
    fn of(policy: &ScaleUpPolicy) -> Self {
        Self {
            cpu_percent: policy.cpu_threshold.get(),
            memory_percent: policy.memory_threshold.get(),
            window_secs: policy.stabilization_window_seconds.get(),
        }
    }
}

/// Its owner wants nothing done with it for now.
pub(crate) fn is_paused(group: &ObjectMeta) -> bool {
    group.annotations.as_ref().and_then(|all| all.get(PAUSE)).is_some_and(|value| value == "true")
}

/// What else decides.
#[derive(Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a GroupSettings,
    /// What is there is all there is: it is a live cluster.
    pub(crate) is_live: bool,
    /// Groups that have nodes on their way.
    pub(crate) growing: &'a BTreeSet<Text>,
    /// When the group's youngest node was asked for.
    pub(crate) newest: Option<Timestamp>,
    /// The group has fewer nodes than it must have, which it may whatever else it may not.
    pub(crate) lacks_minimum: bool,
}

impl GrowthRules {
    /// Of a group that is yet to be made.
    pub(crate) fn of_new(config: Option<&NewGroups>) -> Self {
        let is_enabled = config.is_none_or(|config| config.defaults.scale_up_policy.enabled);
        Self {
            is_managed: true,
            is_paused: false,
            is_enabled,
            stabilization_secs: 0,
            shrank: None,
            grew: None,
            thresholds: Thresholds::default(),
        }
    }

    /// Why the group does not grow now, if it does not.
    pub(crate) fn judged(&self, name: &Text, around: &Circumstances<'_>) -> Option<Refusal> {
        let Circumstances { now, settings, growing, .. } = around;
        if around.is_live && !self.is_managed {
            let message = format!("without the label {MANAGED}=true the group is nobody's to change");
            return Some(Reason::PoolNotReady.because(message));
        }
        if self.is_paused {
            return Some(Reason::PoolPaused.because(format!("the annotation {PAUSE} says so")));
        }
        if !self.is_enabled && !around.lacks_minimum {
            return Some(Reason::PoolPaused.because("spec.scaleUpPolicy.enabled is false"));
        }
        let left = |since: Option<Timestamp>, secs: u32| {
            let passed = now.duration_since(since?).as_secs().max(0);
            u64::try_from(i64::from(secs) - passed).ok().filter(|left| *left > 0)
        };
        let grew = self.grew.max(around.newest);
        if let Some(secs) = left(grew, settings.growth_cooldown_secs) {
            let message = format!("the group has grown, and may again in {secs} s");
            return Some(Reason::PoolResting.because(message));
        }
        if let Some(secs) = left(self.shrank, self.stabilization_secs) {
            let message = format!("the group has shrunk, and may grow in {secs} s");
            return Some(Reason::PoolResting.because(message));
        }
        if !growing.contains(name) && growing.len() >= settings.growths_max {
            let groups = growing.iter().map(|group| &**group).collect::<Vec<_>>().join(", ");
            let message = format!("{groups} grows, and {} may at a time", settings.growths_max);
            return Some(Reason::PoolResting.because(message));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn ago(secs: i64) -> Option<Timestamp> {
        Timestamp::from_second(NOW - secs).ok()
    }

    fn rules() -> GrowthRules {
        GrowthRules {
            is_managed: true,
            is_paused: false,
            is_enabled: true,
            stabilization_secs: 60,
            shrank: ago(61),
            grew: ago(31),
            thresholds: Thresholds::default(),
        }
    }

    fn around<'a>(settings: &'a GroupSettings, growing: &'a BTreeSet<Text>) -> Circumstances<'a> {
        Circumstances {
            now: Timestamp::from_second(NOW).unwrap(),
            settings,
            is_live: true,
            growing,
            newest: ago(31),
            lacks_minimum: false,
        }
    }

    #[test]
    fn a_group_grows_when_nothing_is_against_it() {
        type Change = fn(&mut GrowthRules, &mut Circumstances<'_>);
        type Expected = Option<(Reason, &'static str)>;
        let settings = GroupSettings { growth_cooldown_secs: 30, growths_max: 1, ..GroupSettings::default() };
        let cases: [(&str, Change, Expected); 11] = [
            ("free", |_, _| (), None),
            ("not ours", |rules, _| rules.is_managed = false, Some((Reason::PoolNotReady, "managed=true"))),
            ("only in a file", |rules, around| (rules.is_managed, around.is_live) = (false, false), None),
            ("paused", |rules, _| rules.is_paused = true, Some((Reason::PoolPaused, "pause"))),
            ("turned off", |rules, _| rules.is_enabled = false, Some((Reason::PoolPaused, "scaleUpPolicy"))),
            (
                "turned off, below its minimum",
                |rules, around| (rules.is_enabled, around.lacks_minimum) = (false, true),
                None,
            ),
            ("just grown", |rules, _| rules.grew = ago(29), Some((Reason::PoolResting, "again in 1 s"))),
            (
                "just grown, and not said so yet",
                |_, around| around.newest = ago(10),
                Some((Reason::PoolResting, "again in 20 s")),
            ),
            ("just shrunk", |rules, _| rules.shrank = ago(59), Some((Reason::PoolResting, "in 1 s"))),
            (
                "never before",
                |rules, around| (rules.grew, rules.shrank, around.newest) = (None, None, None),
                None,
            ),
            ("of the future", |rules, _| rules.grew = ago(-10), Some((Reason::PoolResting, "in 30 s"))),
        ];
        let none = BTreeSet::new();
        for (what, change, expected) in cases {
            let (mut rules, mut around) = (rules(), around(&settings, &none));
            change(&mut rules, &mut around);
            let refusal = rules.judged(&"a".into(), &around);
            match (&refusal, expected) {
                (None, None) => {}
                (Some(refusal), Some((reason, words))) => {
                    assert_eq!(refusal.reason, reason, "{what}");
                    assert!(refusal.message.contains(words), "{what}: {}", refusal.message);
                }
                _ => panic!("{what}: {refusal:?}"),
            }
        }
        let growing = BTreeSet::from(["b".into()]);
        let refusal = rules().judged(&"a".into(), &around(&settings, &growing)).unwrap();
        assert_eq!(refusal.message, "b grows, and 1 may at a time");
        assert_eq!(
            rules().judged(&"b".into(), &around(&settings, &growing)),
            None,
            "one that grows may go on"
        );
    }
}
