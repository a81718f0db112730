//! The pods of a snapshot: those that are there, and those that workloads and buffers ask for.

use std::sync::Arc;

use berth_core::pod::{Pod, PodOrigin};
use berth_core::snapshot::DaemonSet;

use super::Assembly;
use crate::budgets::Census;
use crate::buffers;
use crate::kinds::Kind;
use crate::manifests::{Kept, Origin};
use crate::pods::{Dangling, Finisher, PodObject};
use crate::spreading::{Spreading, replicates};
use crate::workloads::{self, EXPANDED_PODS_MAX, Workload};

impl Assembly<'_> {
    pub(super) fn pods(&mut self) -> (Vec<Pod>, Vec<DaemonSet>, Census) {
        let policies = std::mem::take(&mut self.manifests.policies);
        let (config, services) =
            (std::mem::take(&mut self.manifests.scheduler), std::mem::take(&mut self.manifests.services));
        if !config.needs_services() && !services.is_empty() {
            self.manifests.skipped.insert(Kind::Service.name().to_owned(), services.len());
        }
        let spreading = Spreading { config: &config, services: &services };
        let mut finisher = Finisher::new(&policies, spreading);
        let mut census = Census::default();
        let daemon_sets = self.daemon_sets(&mut finisher);
        let mut pods = self.expanded_workloads(&mut finisher);
        for pod in pods.iter().filter(|pod| pod.origin == PodOrigin::Workload) {
            census.count(&pod.namespace, &pod.spec, false);
        }
        pods.extend(self.given_pods(&mut finisher, &mut census));
        (pods, daemon_sets, census)
    }

    fn daemon_sets(&mut self, finisher: &mut Finisher<'_>) -> Vec<DaemonSet> {
        let mut daemon_sets = Vec::new();
        for kept in std::mem::take(&mut self.manifests.daemon_sets) {
            match finisher.finish(&kept.object.shape, &kept.namespace, false) {
                Ok(spec) => {
                    let Kept { namespace, name, .. } = kept;
                    let spec = Arc::new(workloads::daemon_spec(&spec));
                    daemon_sets.push(DaemonSet { namespace, name, spec });
                }
                Err(dangling) => self.blame_template(&kept, dangling),
            }
        }
        daemon_sets
    }

    /// Keeps the first of pods with one name.
    pub(super) fn drop_repeated_pods(&mut self) {
        let mut pods = std::mem::take(&mut self.manifests.pods);
        pods.sort_by(|a, b| {
            (&a.namespace, &a.name, a.source, a.line).cmp(&(&b.namespace, &b.name, b.source, b.line))
        });
        let (mut repeated, listed) = (Vec::new(), &self.manifests.listed);
        pods.dedup_by(|later, first| {
            let same = later.namespace == first.namespace && later.name == first.name;
            if same && !listed.contains(&later.source) {
                repeated.push((
                    pod_origin(later),
                    later.namespace.clone(),
                    later.name.clone(),
                    pod_origin(first),
                ));
            }
            same
        });
        self.is_partial |= !repeated.is_empty();
        for (origin, namespace, name, first) in repeated {
            let place = format!("{}:{}", self.source(first), first.line);
            let message = format!("there is another pod of this name at {place}; remove one");
            self.blame_at(origin, &namespace, &name, "metadata.name", message);
        }
        self.manifests.pods = pods;
    }

    fn given_pods(&mut self, finisher: &mut Finisher<'_>, census: &mut Census) -> Vec<Pod> {
        let objects = std::mem::take(&mut self.manifests.pods);
        let mut pods = Vec::with_capacity(objects.len());
        for object in objects {
            let is_replicated = object.owner.as_ref().is_some_and(|owner| replicates(&owner.kind));
            let how = (object.node.is_some(), is_replicated);
            match finisher.finish_spread(&object.shape, &object.namespace, how) {
                Ok(spec) => {
                    if object.is_active() && !object.deleting {
                        census.count(&object.namespace, &spec, object.life.healthy);
                    }
                    pods.push(Arc::unwrap_or_clone(object).into_core(spec, self.context.now));
                }
                Err(Dangling { field, message }) => {
                    self.is_partial = true;
                    let field = format!("spec.{field}");
                    let origin = pod_origin(&object);
                    self.blame_at(origin, &object.namespace, &object.name, &field, message);
                }
            }
        }
        pods
    }

    /// Pods of workloads and buffers; claims that StatefulSets will make go to the storage. In a cluster workloads have
    /// made the pods that they want, or will.
    fn expanded_workloads(&mut self, finisher: &mut Finisher<'_>) -> Vec<Pod> {
        let kept = std::mem::take(&mut self.manifests.workloads);
        let workloads: Vec<Workload> = kept.iter().map(|kept| kept.object.clone()).collect();
        let to_expand = if self.manifests.is_whole { &[][..] } else { &workloads };
        let expanded = workloads::expand(to_expand, &self.manifests.pods, finisher);
        for (index, dangling) in expanded.dangling {
            self.blame_template(&kept[index], dangling);
        }
        for index in expanded.crowded {
            let message = format!("brings the input to more than {EXPANDED_PODS_MAX} pods; lower it");
            self.blame(&kept[index], "spec.replicas", message);
        }
        for (id, claim) in expanded.claims {
            self.manifests.storage.claims.entry(id).or_insert(claim);
        }
        let mut pods = expanded.pods;
        for kept in std::mem::take(&mut self.manifests.buffers) {
            match buffers::pods_of(&kept.object, &self.manifests.pod_templates, &workloads, finisher) {
                Ok(buffered) => pods.extend(buffered),
                Err(Dangling { field, message }) => self.blame(&kept, &format!("spec.{field}"), message),
            }
        }
        pods
    }
}

pub(super) fn pod_origin(pod: &PodObject) -> Origin {
    Origin { kind: Kind::Pod, source: pod.source, line: pod.line }
}
