//! CapacityBuffers: room kept free, as pods that exist only in the plan.

use std::collections::BTreeMap;

use berth_core::disruption::PodDisruption;
use berth_core::names::Text;
use berth_core::pod::{Pod, PodOrigin, PodPhase, PodSpec};
use berth_core::resources::Resources;

use crate::convert::{Converter, checked_amount};
use crate::pods::{Dangling, Finisher, PodTemplate};
use crate::problem::At;
use crate::resources::buffer::{ACTIVE_CAPACITY, CapacityBuffer};
use crate::resources::scalar::Whole;
use crate::workloads::Workload;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    namespace: Text,
    name: Text,
    target: Target,
    replicas: Option<u32>,
    percentage: Option<u32>,
    /// What its pods may ask for together.
    limits: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    PodTemplate(Text),
    Workload { kind: Text, name: Text },
}

/// Kinds of workloads that room can be kept for.
pub const SCALABLE: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "Job"];

/// `None` where another strategy than keeping nodes is asked for: that is not ours to do.
pub(crate) fn read_buffer(
    object: &CapacityBuffer,
    (namespace, name): (Text, Text),
    to: &mut Converter<'_>,
) -> Option<Buffer> {
    let at = At::ROOT.key("spec");
    let spec = &object.spec;
    let target = match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(template), None) => Target::PodTemplate(to.text(&template.name)),
        (None, Some(workload)) => {
            Target::Workload { kind: to.text(&workload.kind), name: to.text(&workload.name) }
        }
        _ => {
            to.findings.add(&at, "must have exactly one of podTemplateRef and scalableRef");
            return None;
        }
    };
    if spec.replicas.is_none() && spec.percentage.is_none() && spec.limits.is_empty() {
        to.findings.add(&at, "says not how much room to keep; set replicas, percentage or limits");
    }
    let limits_at = at.key("limits");
    let mut limits = Resources::new();
    for (name, amount) in &spec.limits {
        match checked_amount(name, amount.get()) {
            Ok(amount) => limits.set(name, amount),
            Err(message) => to.findings.add(&limits_at.key(name), message),
        }
    }
    (spec.provisioning_strategy == ACTIVE_CAPACITY).then_some(Buffer {
        namespace,
        name,
        target,
        replicas: spec.replicas.map(Whole::get),
        percentage: spec.percentage.map(Whole::get),
        limits,
    })
}

/// More room than any cluster keeps; a larger number is a slip of the keyboard.
const PODS_MAX: u32 = 100_000;

/// The pods that the buffer stands for, or what it refers to in vain.
pub(crate) fn pods_of(
    buffer: &Buffer,
    templates: &BTreeMap<(Text, Text), PodTemplate>,
    workloads: &[Workload],
    finisher: &mut Finisher<'_>,
) -> Result<Vec<Pod>, Dangling> {
    let (template, of_workload) = match &buffer.target {
        Target::PodTemplate(name) => {
            let template =
                templates.get(&(buffer.namespace.clone(), name.clone())).ok_or_else(|| Dangling {
                    field: "podTemplateRef.name",
                    message: format!(
                        "there is no PodTemplate `{name}` in the namespace {}; add it",
                        buffer.namespace
                    ),
                })?;
            (template, 0)
        }
        Target::Workload { kind, .. } if !SCALABLE.contains(&&**kind) => {
            return Err(Dangling {
                field: "scalableRef.kind",
                message: format!("`{kind}` is not known; it is one of {}", SCALABLE.join(", ")),
            });
        }
        Target::Workload { kind, name } => {
            let workload = workloads
                .iter()
                .find(|w| w.kind.name() == &**kind && w.name == *name && w.namespace == buffer.namespace)
                .ok_or_else(|| Dangling {
                    field: "scalableRef",
                    message: format!(
                        "there is no {kind} `{name}` in the namespace {}; add it",
                        buffer.namespace
                    ),
                })?;
            (&workload.template, workload.wanted)
        }
    };
    let is_replicated = matches!(&buffer.target, Target::Workload { kind, .. } if &**kind != "Job");
    let spec = finisher.finish_spread(&template.shape, &buffer.namespace, (false, is_replicated))?;
    let count = buffer.pod_count(of_workload, &spec);
    if count > PODS_MAX {
        return Err(Dangling {
            field: "replicas",
            message: format!("room for {count} pods is more than any cluster keeps; the most is {PODS_MAX}"),
        });
    }
    let pod = |i: u32| {
        let name = format!("{}{INFIX}{i}", buffer.name);
        Pod {
            namespace: buffer.namespace.clone(),
            volumes: template.volumes.iter().map(|volume| volume.of_pod(&name)).collect(),
            name: name.into(),
            spec: spec.clone(),
            phase: PodPhase::Pending,
            node: None,
            nominated: None,
            is_fresh: false,
            deleting: false,
            origin: PodOrigin::Buffer,
            daemon_set: None,
            mirror: false,
            disruption: PodDisruption::default(),
        }
    };
    Ok((0..count).map(pod).collect())
}

/// Between the name of a buffer and the number of a pod that it stands for.
const INFIX: &str = "-buffer-";

/// The name of the buffer that a pod holds room for, if it does.
pub fn buffer_of(pod: &Pod) -> Option<&str> {
    let (buffer, _) = pod.name.rsplit_once(INFIX).filter(|_| pod.origin == PodOrigin::Buffer)?;
    Some(buffer)
}

impl Buffer {
    /// The larger of its two sizes, and no more than its limits leave room for.
    fn pod_count(&self, of_workload: u32, spec: &PodSpec) -> u32 {
        let share = self.percentage.map(|percentage| {
            let pods = (u64::from(of_workload) * u64::from(percentage)).div_ceil(100);
            u32::try_from(pods).unwrap_or(u32::MAX)
        });
        let limited = self
            .limits
            .iter()
            .filter_map(|(name, limit)| limit.checked_div(spec.requests.get(name)))
            .map(|pods| u32::try_from(pods).unwrap_or(u32::MAX))
            .min();
        match (self.replicas.max(share), limited) {
            (Some(wanted), Some(limited)) => wanted.min(limited),
            (wanted, limited) => wanted.or(limited).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_large_as_asked_and_allowed() {
        let spec = PodSpec { requests: Resources::of(&[("cpu", 500), ("pods", 1)]), ..PodSpec::default() };
        for (replicas, percentage, limits, of_workload, expected) in [
            (Some(3), None, &[][..], 0, 3),
            (None, Some(25), &[], 10, 3),
            (Some(5), Some(25), &[], 10, 5),
            (Some(1), Some(100), &[], 10, 10),
            (Some(5), None, &[("cpu", 1200)], 0, 2),
            (None, None, &[("cpu", 1200)], 0, 2),
            (None, None, &[("cpu", 1200), ("pods", 1)], 0, 1),
            (Some(2), None, &[("memory", 1)], 0, 2),
            (None, Some(0), &[], 10, 0),
        ] {
            let buffer = Buffer {
                namespace: "default".into(),
                name: "b".into(),
                target: Target::PodTemplate("t".into()),
                replicas,
                percentage,
                limits: Resources::of(limits),
            };
            let actual = buffer.pod_count(of_workload, &spec);
            assert_eq!(actual, expected, "{replicas:?} {percentage:?} {limits:?}");
        }
    }
}
