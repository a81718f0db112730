//! Spread that kube-scheduler asks of pods that ask for none, where it is configured to.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use berth_core::names::{Labels, Text};
use berth_core::pod::Spread;
use berth_core::requirement::Expression;
use berth_core::selector::Selector;
use serde::Deserialize;

use crate::builtin::pod::SpreadConstraint;
use crate::documents::Body;
use crate::intern::Interner;
use crate::manifests::Refused;
use crate::piece::convert_with;
use crate::placement;
use crate::problem::At;
use crate::tree::Tree;

/// What the cluster's scheduler is configured to, as far as it decides where pods may run: Karpenter's
/// `--scheduler-config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Without selectors: each pod has its own.
    default_spread: Vec<Spread>,
}

impl SchedulerConfig {
    /// Whether Services matter: it is by them, too, that the scheduler knows which pods belong together.
    pub fn needs_services(&self) -> bool {
        !self.default_spread.is_empty()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Wire<'a> {
    #[serde(borrow)]
    pod_topology_spread: PodTopologySpread<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PodTopologySpread<'a> {
    #[serde(borrow)]
    default_constraints: Vec<SpreadConstraint<'a>>,
}

impl FromStr for SchedulerConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let tree = Tree::parse(text).map_err(|error| error.message)?;
        let mut interner = Interner::default();
        let read = Body::Yaml(&tree).read::<Wire<'_>>();
        let read = read.and_then(|wire| convert_with(&mut interner, |to| default_spread(&wire, to)));
        match read {
            Ok(default_spread) => Ok(Self { default_spread }),
            Err(Refused::Wrong(findings)) => {
                let words = findings.iter().map(|found| format!("{}: {}", found.path, found.message));
                Err(words.collect::<Vec<_>>().join("; "))
            }
            Err(Refused::Json(error)) => Err(error.to_string()),
            Err(Refused::Replaced) => Err("cannot be read".to_owned()),
        }
    }
}

fn default_spread(wire: &Wire<'_>, to: &mut crate::convert::Converter<'_>) -> Vec<Spread> {
    let constraints = &wire.pod_topology_spread.default_constraints;
    let plugin = At::ROOT.key("podTopologySpread");
    let list = plugin.key("defaultConstraints");
    let mut known = BTreeSet::new();
    for (i, constraint) in constraints.iter().enumerate() {
        if constraint.label_selector.is_some() {
            let message =
                "is not for defaults: the scheduler finds it for each pod by its Services and its controller";
            to.findings.add(&list.index(i).key("labelSelector"), message);
        }
        if !known.insert((&*constraint.topology_key, &*constraint.when_unsatisfiable)) {
            to.findings.add(&list.index(i), "has the topologyKey and whenUnsatisfiable of another");
        }
    }
    placement::spreads(constraints, &Labels::new(), &list, to)
}

/// Labels that pods of one controller do not share.
const OWN_LABELS: [&str; 3] =
    ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"];

/// What there is to spread pods by that do not say so themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spreading<'a> {
    pub(crate) config: &'a SchedulerConfig,
    /// The selectors of Services, by namespace and name.
    pub(crate) services: &'a BTreeMap<(Text, Text), Labels>,
}

impl Spreading<'_> {
    pub(crate) fn is_needed(&self, own: &[Spread]) -> bool {
        own.is_empty() && !self.config.default_spread.is_empty()
    }

    /// The constraints of a pod that has none. As the scheduler does, it is counted with those that its Services
    /// select and, if it `is_replicated`, with those of its controller; where there is neither, it is spread by nothing.
    ///
    /// A controller's pods are known by the labels that they share, which come from its template: its selector is a part
    /// of these, and no other pods have all of them. So nobody has to watch every ReplicaSet there is.
    pub(crate) fn of(&self, labels: &Labels, namespace: &Text, is_replicated: bool) -> Vec<Spread> {
        let mut expressions = Vec::new();
        let from = (namespace.clone(), Text::default());
        let services = self.services.range(from..).take_while(|((of, _), _)| of == namespace);
        for (_, selector) in services {
            if selector.iter().all(|(key, value)| labels.get(key) == Some(value)) {
                expressions.extend(selector.iter().map(|(key, value)| equals(key, value)));
            }
        }
        if is_replicated {
            let shared = labels.iter().filter(|(key, _)| !OWN_LABELS.contains(&&***key));
            expressions.extend(shared.map(|(key, value)| equals(key, value)));
        }
        if expressions.is_empty() {
            return Vec::new();
        }
        let selector = Some(Selector::new(expressions));
        let defaults = self.config.default_spread.iter();
        defaults.map(|spread| Spread { selector: selector.clone(), ..spread.clone() }).collect()
    }
}

fn equals(key: &Text, value: &Text) -> Expression {
    Expression::equals(key.clone(), value.clone())
}

/// Whether the scheduler looks at the selector of such a controller.
pub(crate) fn replicates(kind: &str) -> bool {
    ["ReplicaSet", "StatefulSet", "ReplicationController"].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: &str = "podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 1, topologyKey: \
                         topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}\n";

    #[test]
    fn configurations() {
        let constraint = |words: &str| format!("podTopologySpread: {{defaultConstraints: [{words}]}}");
        let good = "{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}";
        for (text, expected) in [
            (String::new(), Ok(0)),
            ("{}".to_owned(), Ok(0)),
            (ZONES.to_owned(), Ok(1)),
            (r#"{"podTopologySpread": {"defaultConstraints": []}}"#.to_owned(), Ok(0)),
            (
                constraint("{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Never}"),
                Err("`Never` is not known; it is one of DoNotSchedule, ScheduleAnyway"),
            ),
            (
                constraint(
                    "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}",
                ),
                Err("podTopologySpread.defaultConstraints[0].labelSelector: is not for defaults"),
            ),
            (
                constraint(&format!("{good}, {good}")),
                Err("has the topologyKey and whenUnsatisfiable of another"),
            ),
            ("nodeResourcesFit: {}".to_owned(), Err("nodeResourcesFit")),
            ("[".to_owned(), Err("")),
        ] {
            match (text.parse::<SchedulerConfig>(), expected) {
                (Ok(config), Ok(count)) => assert_eq!(config.default_spread.len(), count, "{text}"),
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{text}: {said}"),
                (said, expected) => panic!("{text}: {said:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn pods_are_counted_with_those_that_belong_to_them() {
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
        };
        let web = labels(&[("app", "web"), ("tier", "front")]);
        let services = BTreeMap::from([
            (("shop".into(), "web".into()), labels(&[("app", "web")])),
            (("shop".into(), "db".into()), labels(&[("app", "db")])),
            (("other".into(), "front".into()), labels(&[("tier", "front")])),
        ]);
        let config: SchedulerConfig = ZONES.parse().unwrap();
        let spreading = Spreading { config: &config, services: &services };
        let stateful = labels(&[("app", "db"), ("statefulset.kubernetes.io/pod-name", "db-0")]);
        for (of, namespace, is_replicated, expected) in [
            (&web, "shop", false, Some("app In [web]")),
            (&web, "shop", true, Some("app In [web] and tier In [front]")),
            (&web, "other", false, Some("tier In [front]")),
            (&web, "elsewhere", false, None),
            (&web, "elsewhere", true, Some("app In [web] and tier In [front]")),
            (&stateful, "elsewhere", true, Some("app In [db]")),
            (&labels(&[]), "shop", true, None),
        ] {
            let spreads = spreading.of(of, &namespace.into(), is_replicated);
            let selector =
                spreads.first().and_then(|spread| spread.selector.as_ref()).map(ToString::to_string);
            assert_eq!(selector.as_deref(), expected, "{of:?} in {namespace}, {is_replicated}");
        }
    }
}
