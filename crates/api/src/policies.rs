//! Objects that say something about many pods: PriorityClass, RuntimeClass, LimitRange.

use std::collections::BTreeMap;

use berth_core::names::Text;
use berth_core::pod::Toleration;
use berth_core::requirement::Expression;
use berth_core::resources::Resources;

use crate::builtin::policy as wire;
use crate::convert::Converter;
use crate::problem::At;

/// What the input says, and what every cluster has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub(crate) priority_classes: BTreeMap<Text, PriorityClass>,
    pub(crate) runtime_classes: BTreeMap<Text, RuntimeClass>,
    /// By namespace and name: where several apply, the first by name that names a resource counts.
    pub(crate) limit_ranges: BTreeMap<(Text, Text), Resources>,
    defaults: BTreeMap<Text, Resources>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PriorityClass {
    pub(crate) value: i32,
    pub(crate) is_default: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimeClass {
    pub(crate) overhead: Resources,
    pub(crate) node_selector: Vec<Expression>,
    pub(crate) tolerations: Vec<Toleration>,
}

/// The classes that every cluster has from the start.
const BUILT_IN_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Above it only the system's own classes are.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;

impl Policies {
    /// Merges the ranges of each namespace; to be called once all are there.
    pub(crate) fn settle(&mut self) {
        for ((namespace, _), range) in &self.limit_ranges {
            let defaults = self.defaults.entry(namespace.clone()).or_default();
            for (name, amount) in range.iter() {
                if !defaults.names(name) {
                    defaults.set(name, amount);
                }
            }
        }
    }

    pub(crate) fn default_requests(&self, namespace: &str) -> Option<&Resources> {
        self.defaults.get(namespace)
    }

    pub(crate) fn priority(&self, class: &str) -> Option<i32> {
        let given = self.priority_classes.get(class).map(|class| class.value);
        given.or_else(|| BUILT_IN_PRIORITIES.iter().find(|(name, _)| *name == class).map(|(_, value)| *value))
    }

    /// Of several defaults the lowest counts, as in Kubernetes.
    pub(crate) fn default_priority(&self) -> i32 {
        self.priority_classes.values().filter(|c| c.is_default).map(|c| c.value).min().unwrap_or(0)
    }

    pub(crate) fn priority_classes(&self) -> impl Iterator<Item = &str> {
        let given = self.priority_classes.keys().map(|name| &**name);
        given.chain(BUILT_IN_PRIORITIES.iter().map(|(name, _)| *name))
    }

    pub(crate) fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        self.runtime_classes.get(name)
    }
}

pub(crate) fn read_priority_class(
    class: &wire::PriorityClass,
    name: &str,
    to: &mut Converter<'_>,
) -> PriorityClass {
    let system = name.starts_with("system-");
    if class.value > USER_PRIORITY_MAX && !system {
        let message = format!("{} is too high; the most is {USER_PRIORITY_MAX}", class.value);
        to.findings.add(&At::ROOT.key("value"), message);
    }
    let value = i32::try_from(class.value).unwrap_or_else(|_| {
        to.findings.add(&At::ROOT.key("value"), "is too low; the least is -2147483648");
        0
    });
    PriorityClass { value, is_default: class.global_default }
}

pub(crate) fn read_runtime_class(class: &wire::RuntimeClass<'_>, to: &mut Converter<'_>) -> RuntimeClass {
    let overhead = At::ROOT.key("overhead");
    let scheduling = At::ROOT.key("scheduling");
    RuntimeClass {
        overhead: to.resources(&class.overhead.pod_fixed, &overhead.key("podFixed")),
        node_selector: to.node_selector(&class.scheduling.node_selector),
        tolerations: to.tolerations(&class.scheduling.tolerations, &scheduling.key("tolerations")),
    }
}

/// The requests that the range gives to containers without any.
pub(crate) fn read_limit_range(range: &wire::LimitRange<'_>, to: &mut Converter<'_>) -> Resources {
    let spec = At::ROOT.key("spec");
    let list = spec.key("limits");
    let mut requests = Resources::new();
    for (i, item) in range.spec.limits.iter().enumerate() {
        let at = list.index(i);
        // A missing default is the maximum; a missing default request is the default, else the minimum.
        for (field, amounts) in [
            ("defaultRequest", &item.default_request),
            ("default", &item.default),
            ("max", &item.max),
            ("min", &item.min),
        ] {
            let amounts = to.resources(amounts, &at.key(field));
            if &*item.kind != "Container" {
                continue;
            }
            for (name, amount) in amounts.iter() {
                if !requests.names(name) {
                    requests.set(name, amount);
                }
            }
        }
    }
    requests
}
