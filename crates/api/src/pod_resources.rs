//! What a pod asks for, as Kubernetes computes it.

use berth_core::resources::{PODS, Resources};

use crate::builtin::pod::{Container, ContainerStatus, PodSpec, PodStatus, ResourceClaim};
use crate::convert::Converter;
use crate::problem::At;

/// Everything a pod's effective requests come from, before defaults of its namespace and its runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    containers: Vec<ContainerDemand>,
    init_containers: Vec<ContainerDemand>,
    /// Requests of the pod as a whole, which replace the sum of its containers'.
    pod: Resources,
    /// What the runtime takes for itself, where the pod already says so.
    overhead: Option<Resources>,
    /// A resize that the node cannot do: what was allocated counts, not what was asked.
    resize_infeasible: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct ContainerDemand {
    requests: Resources,
    /// What the kubelet has set aside for it, where that is not what it asks for.
    allocated: Option<Resources>,
    /// An init container that keeps running beside the others.
    restartable: bool,
}

/// Requests that a namespace gives to containers which name none.
pub(crate) type DefaultRequests = Resources;

impl Demand {
    pub(crate) fn read(
        spec: &PodSpec<'_>,
        status: Option<&PodStatus<'_>>,
        at: &At<'_>,
        to: &mut Converter<'_>,
    ) -> Self {
        let (containers_at, init_at) = (at.key("containers"), at.key("initContainers"));
        let statuses = status.map_or(&[][..], |status| &status.container_statuses);
        let init_statuses = status.map_or(&[][..], |status| &status.init_container_statuses);
        let overhead = spec.overhead.as_ref().map(|amounts| to.resources(amounts, &at.key("overhead")));
        Self {
            containers: read_containers(&spec.containers, statuses, &containers_at, to),
            init_containers: read_containers(&spec.init_containers, init_statuses, &init_at, to),
            pod: spec
                .resources
                .as_ref()
                .map(|claim| requests_with_limits(claim, &at.key("resources"), to))
                .unwrap_or_default(),
            overhead,
            resize_infeasible: status.is_some_and(|status| {
                status.resize.as_deref() == Some("Infeasible")
                    || status.conditions.iter().any(|condition| {
                        &*condition.kind == "PodResizePending"
                            && condition.reason.as_deref() == Some("Infeasible")
                    })
            }),
        }
    }

    /// The pod's effective requests, and one of `pods`.
    pub(crate) fn effective(
        &self,
        defaults: Option<&DefaultRequests>,
        runtime_overhead: Option<&Resources>,
    ) -> Resources {
        let request = |container: &ContainerDemand| self.container_requests(container, defaults);
        let mut running = Resources::new();
        for container in &self.containers {
            running.add(&request(container));
        }
        let mut sidecars = Resources::new();
        let mut starting = Resources::new();
        for container in &self.init_containers {
            if container.restartable {
                sidecars.add(&request(container));
                Resources::max(&mut starting, &sidecars);
            } else {
                Resources::max(&mut starting, &request(container).plus(&sidecars));
            }
        }
        running.add(&sidecars);
        Resources::max(&mut running, &starting);
        for (name, amount) in self.pod.iter() {
            running.set(name, amount);
        }
        if let Some(overhead) = self.overhead.as_ref().or(runtime_overhead) {
            running.add(overhead);
        }
        running.set(PODS, 1);
        running
    }

    fn container_requests(&self, container: &ContainerDemand, defaults: Option<&Resources>) -> Resources {
        let mut requests = match &container.allocated {
            Some(allocated) if self.resize_infeasible => allocated.clone(),
            Some(allocated) => {
                let mut larger = container.requests.clone();
                Resources::max(&mut larger, allocated);
                larger
            }
            None => container.requests.clone(),
        };
        for (name, amount) in defaults.into_iter().flat_map(Resources::iter) {
            if !requests.names(name) {
                requests.set(name, amount);
            }
        }
        requests
    }
}

fn read_containers(
    containers: &[Container<'_>],
    statuses: &[ContainerStatus<'_>],
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Vec<ContainerDemand> {
    let mut demands = Vec::with_capacity(containers.len());
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        let requests = requests_with_limits(&container.resources, &at.key("resources"), to);
        let status = statuses.iter().find(|status| status.name == container.name && status.name.is_some());
        let allocated =
            status.map(|status| allocated(status, to)).filter(|a| !a.is_empty() && *a != requests);
        let restartable = container.restart_policy.as_deref() == Some("Always");
        demands.push(ContainerDemand { requests, allocated, restartable });
    }
    demands
}

/// What the kubelet has admitted, or is still running with while a resize is under way.
fn allocated(status: &ContainerStatus<'_>, to: &mut Converter<'_>) -> Resources {
    let at = At::ROOT.key("status");
    let mut allocated = to.resources(&status.allocated_resources, &at);
    if !allocated.is_empty() {
        Resources::max(&mut allocated, &to.resources(&status.resources.requests, &at));
    }
    allocated
}

/// A resource that is limited and not requested is requested up to its limit.
fn requests_with_limits(claim: &ResourceClaim<'_>, at: &At<'_>, to: &mut Converter<'_>) -> Resources {
    let requests = to.resources(&claim.requests, &at.key("requests"));
    let limits = to.resources(&claim.limits, &at.key("limits"));
    let mut all = limits;
    for (name, amount) in requests.iter() {
        let limit = all.get(name);
        if all.names(name) && amount > limit {
            let requests_at = at.key("requests");
            to.findings.add(&requests_at.key(name), "is more than the limit; lower it or raise the limit");
        }
        all.set(name, amount);
    }
    all
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::builtin::pod::Pod;
    use crate::intern::Interner;
    use crate::problem::Findings;
    use crate::tree::Tree;

    fn effective(pod: &str, defaults: &[(&str, i64)], overhead: &[(&str, i64)]) -> String {
        let tree = Tree::parse(pod).unwrap();
        let pod = Pod::deserialize(&tree).unwrap();
        let (mut findings, mut interner) = (Findings::default(), Interner::default());
        let mut to = Converter { findings: &mut findings, interner: &mut interner };
        let demand = Demand::read(&pod.spec, Some(&pod.status), &At::ROOT.key("spec"), &mut to);
        if let Some(finding) = findings.0.first() {
            return format!("{}: {}", finding.path, finding.message);
        }
        let (defaults, overhead) = (Resources::of(defaults), Resources::of(overhead));
        demand.effective(Some(&defaults), (!overhead.is_empty()).then_some(&overhead)).to_string()
    }

    #[test]
    fn effective_requests_are_those_of_kubernetes() {
        let containers = |spec: &str| format!("{{metadata: {{}}, spec: {{{spec}}}}}");
        for (spec, expected) in [
            ("containers: [{}]", "pods 1"),
            ("containers: []", "pods 1"),
            (
                "containers: [{resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 500m}}}]",
                "cpu 1500m, pods 1",
            ),
            // Limits stand in for requests that are missing.
            ("containers: [{resources: {limits: {cpu: 2, memory: 1Gi}}}]", "cpu 2, memory 1Gi, pods 1"),
            ("containers: [{resources: {limits: {cpu: 2}, requests: {cpu: 1}}}]", "cpu 1, pods 1"),
            (
                "containers: [{resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]",
                "spec.containers[0].resources.requests.cpu: is more than the limit; lower it or raise the limit",
            ),
            // Init containers run one after another, before the others.
            (
                "containers: [{resources: {requests: {cpu: 1}}}], initContainers: [{resources: {requests: {cpu: 3}}}, {resources: {requests: {cpu: 2, memory: 1Gi}}}]",
                "cpu 3, memory 1Gi, pods 1",
            ),
            (
                "containers: [{resources: {requests: {cpu: 4}}}], initContainers: [{resources: {requests: {cpu: 3}}}]",
                "cpu 4, pods 1",
            ),
            // Sidecars start in their turn and stay.
            (
                "containers: [{resources: {requests: {cpu: 1}}}], initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 1}}}]",
                "cpu 2, pods 1",
            ),
            (
                "containers: [{resources: {requests: {cpu: 1}}}], initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 5}}}]",
                "cpu 6, pods 1",
            ),
            (
                "containers: [{resources: {requests: {cpu: 1}}}], initContainers: [{resources: {requests: {cpu: 5}}}, {restartPolicy: Always, resources: {requests: {cpu: 1}}}]",
                "cpu 5, pods 1",
            ),
            (
                "containers: [{resources: {requests: {cpu: 1}}}], initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2}}}, {restartPolicy: Always, resources: {requests: {cpu: 3}}}]",
                "cpu 6, pods 1",
            ),
            // Requests of the pod replace the sum, resource by resource.
            (
                "resources: {requests: {cpu: 2}}, containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}]",
                "cpu 2, memory 1Gi, pods 1",
            ),
            (
                "resources: {limits: {memory: 3Gi}}, containers: [{resources: {requests: {memory: 1Gi}}}]",
                "memory 3Gi, pods 1",
            ),
            // Overhead comes on top, of the pod-level requests too.
            ("overhead: {cpu: 250m}, resources: {requests: {cpu: 2}}, containers: [{}]", "cpu 2250m, pods 1"),
            (
                "containers: [{resources: {requests: {example.com/gpu: 1, hugepages-2Mi: 4Mi}}}]",
                "example.com/gpu 1, hugepages-2Mi 4Mi, pods 1",
            ),
            (
                "containers: [{resources: {requests: {memory: -1}}}]",
                "spec.containers[0].resources.requests.memory: -1 is negative; a resource cannot be",
            ),
        ] {
            assert_eq!(effective(&containers(spec), &[], &[]), expected, "{spec}");
        }
    }

    #[test]
    fn defaults_fill_what_is_missing() {
        let defaults = [("cpu", 100), ("memory", 1 << 20)];
        for (spec, expected) in [
            ("containers: [{}, {}]", "cpu 200m, memory 2Mi, pods 1"),
            ("containers: [{resources: {requests: {cpu: 1}}}]", "cpu 1, memory 1Mi, pods 1"),
            ("containers: [{resources: {limits: {memory: 2Mi}}}]", "cpu 100m, memory 2Mi, pods 1"),
            ("containers: [{}], initContainers: [{restartPolicy: Always}]", "cpu 200m, memory 2Mi, pods 1"),
        ] {
            let pod = format!("{{metadata: {{}}, spec: {{{spec}}}}}");
            assert_eq!(effective(&pod, &defaults, &[]), expected, "{spec}");
        }
    }

    #[test]
    fn the_pods_own_overhead_wins() {
        for (spec, expected) in [
            ("containers: [{}]", "cpu 100m, pods 1"),
            ("overhead: {cpu: 1}, containers: [{}]", "cpu 1, pods 1"),
        ] {
            let pod = format!("{{metadata: {{}}, spec: {{{spec}}}}}");
            assert_eq!(effective(&pod, &[], &[("cpu", 100)]), expected, "{spec}");
        }
    }

    #[test]
    fn a_resize_counts_the_larger_amount_until_it_is_refused() {
        let spec = "spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}";
        for (status, expected) in [
            ("{containerStatuses: [{name: a, allocatedResources: {cpu: 3}}]}", "cpu 3, pods 1"),
            ("{containerStatuses: [{name: a, allocatedResources: {cpu: 1}}]}", "cpu 2, pods 1"),
            (
                "{containerStatuses: [{name: a, allocatedResources: {cpu: 1}, resources: {requests: {cpu: 4}}}]}",
                "cpu 4, pods 1",
            ),
            (
                "{resize: Infeasible, containerStatuses: [{name: a, allocatedResources: {cpu: 1}}]}",
                "cpu 1, pods 1",
            ),
            (
                "{conditions: [{type: PodResizePending, reason: Infeasible}], containerStatuses: [{name: a, allocatedResources: {cpu: 1}}]}",
                "cpu 1, pods 1",
            ),
            (
                "{conditions: [{type: PodResizePending, reason: Deferred}], containerStatuses: [{name: a, allocatedResources: {cpu: 1}}]}",
                "cpu 2, pods 1",
            ),
            ("{containerStatuses: [{name: b, allocatedResources: {cpu: 9}}]}", "cpu 2, pods 1"),
        ] {
            let pod = format!("{{metadata: {{}}, {spec}, status: {status}}}");
            assert_eq!(effective(&pod, &[], &[]), expected, "{status}");
        }
    }
}
