//! The kinds that Berth reads.

use std::fmt;

use crate::documents::Header;

macro_rules! kinds {
    ($($name:ident: $group:literal, $version:literal, $kind:literal, $plural:literal, $scope:ident;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Kind {
            $($name,)+
        }

        impl Kind {
            const ALL: &'static [Self] = &[$(Self::$name,)+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $kind,)+
                }
            }

            fn group(self) -> &'static str {
                match self {
                    $(Self::$name => $group,)+
                }
            }

            fn version(self) -> &'static str {
                match self {
                    $(Self::$name => $version,)+
                }
            }

            fn plural(self) -> &'static str {
                match self {
                    $(Self::$name => $plural,)+
                }
            }

            pub(crate) fn is_namespaced(self) -> bool {
                match self {
                    $(Self::$name => Scope::$scope == Scope::Namespaced,)+
                }
            }
        }
    };
}

#[derive(PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}

kinds! {
    Pod: "", "v1", "Pod", "pods", Namespaced;
    PodTemplate: "", "v1", "PodTemplate", "podtemplates", Namespaced;
    Service: "", "v1", "Service", "services", Namespaced;
    Node: "", "v1", "Node", "nodes", Cluster;
    Namespace: "", "v1", "Namespace", "namespaces", Cluster;
    LimitRange: "", "v1", "LimitRange", "limitranges", Namespaced;
    PersistentVolumeClaim: "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Namespaced;
    PersistentVolume: "", "v1", "PersistentVolume", "persistentvolumes", Cluster;
    Deployment: "apps", "v1", "Deployment", "deployments", Namespaced;
    ReplicaSet: "apps", "v1", "ReplicaSet", "replicasets", Namespaced;
    StatefulSet: "apps", "v1", "StatefulSet", "statefulsets", Namespaced;
    DaemonSet: "apps", "v1", "DaemonSet", "daemonsets", Namespaced;
    Job: "batch", "v1", "Job", "jobs", Namespaced;
    CronJob: "batch", "v1", "CronJob", "cronjobs", Namespaced;
    StorageClass: "storage.k8s.io", "v1", "StorageClass", "storageclasses", Cluster;
    CsiNode: "storage.k8s.io", "v1", "CSINode", "csinodes", Cluster;
    PodDisruptionBudget: "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespaced;
    PriorityClass: "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", Cluster;
    RuntimeClass: "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", Cluster;
    NodePool: "karpenter.sh", "v1", "NodePool", "nodepools", Cluster;
    NodeClaim: "karpenter.sh", "v1", "NodeClaim", "nodeclaims", Cluster;
    NodeOverlay: "karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays", Cluster;
    Ec2NodeClass: "karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses", Cluster;
    KwokNodeClass: "karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses", Cluster;
    VpsieNodeClass: "berth.dev", "v1alpha1", "VPSieNodeClass", "vpsienodeclasses", Cluster;
    CapacityBuffer: "autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers", Namespaced;
    NodeGroup: "autoscaler.vpsie.com", "v1alpha1", "NodeGroup", "nodegroups", Namespaced;
    VpsieNode: "autoscaler.vpsie.com", "v1alpha1", "VPSieNode", "vpsienodes", Namespaced;
    AutoscalerConfig: "autoscaler.vpsie.com", "v1alpha1", "AutoscalerConfig", "autoscalerconfigs", Cluster;
    ScalingConstraint: "sa.gardener.cloud", "v1alpha1", "ScalingConstraint", "scalingconstraints", Namespaced;
    ScalingFeedback: "sa.gardener.cloud", "v1alpha1", "ScalingFeedback", "scalingfeedbacks", Namespaced;
}

/// Where an API serves the objects of a kind that Berth reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    pub(crate) kind: Kind,
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
}

/// Those of a cluster that are read for what runs in it. A CronJob is a plan for a run at its time, not a run; and
/// Services matter only to who spreads pods by them.
pub fn collections() -> impl Iterator<Item = Collection> {
    let all = Kind::ALL.iter().filter(|kind| ![Kind::CronJob, Kind::Service].contains(kind));
    all.map(|kind| Collection::of(*kind))
}

pub fn services() -> Collection {
    Collection::of(Kind::Service)
}

impl Collection {
    fn of(kind: Kind) -> Self {
        Self { kind, group: kind.group(), version: kind.version(), plural: kind.plural() }
    }

    /// The kind of its objects.
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// Where one of them is that has a namespace.
    pub fn path_of(&self, namespace: &str, name: &str) -> String {
        let Self { group, version, plural, .. } = self;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}")
    }

    pub fn path(&self) -> String {
        let Self { group, version, plural, .. } = self;
        if group.is_empty() {
            format!("/api/{version}/{plural}")
        } else {
            format!("/apis/{group}/{version}/{plural}")
        }
    }
}

/// As Kubernetes names it: `pods`, `nodepools.karpenter.sh`.
impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{separator}{}", self.plural, self.group)
    }
}

/// What an object's `apiVersion` and `kind` mean here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Known(Kind),
    /// Somebody else's; the name to count it under.
    Foreign(String),
    /// Cannot be told, or ours in a version that is not read: the field and what would be right.
    Unclear(&'static str, String),
}

pub(crate) fn meaning(header: &Header) -> Meaning {
    let Some(kind) = header.kind.as_deref().filter(|kind| !kind.is_empty()) else {
        return Meaning::Unclear(
            "kind",
            "is missing; an object has apiVersion, kind and metadata".to_owned(),
        );
    };
    let Some(api_version) = header.api_version.as_deref().filter(|version| !version.is_empty()) else {
        let right = Kind::ALL.iter().find(|known| known.name() == kind);
        let right =
            right.map_or(String::new(), |known| format!("; for a {kind} it is {}", known.api_version()));
        return Meaning::Unclear("apiVersion", format!("is missing{right}"));
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(known) = Kind::ALL.iter().copied().find(|known| known.name() == kind && known.has_group(group))
    else {
        let meant =
            Kind::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(kind) && known.name() != kind);
        return match meant.filter(|known| known.has_group(group)) {
            Some(known) => {
                Meaning::Unclear("kind", format!("`{kind}` is not a kind; write it as {}", known.name()))
            }
            None => Meaning::Foreign(kind.to_owned()),
        };
    };
    if version != known.version() || group != known.group() {
        let message = format!("`{api_version}` is not read; write the {kind} as {}", known.api_version());
        return Meaning::Unclear("apiVersion", message);
    }
    Meaning::Known(known)
}

impl Kind {
    fn api_version(self) -> String {
        let separator = if self.group().is_empty() { "" } else { "/" };
        format!("{}{separator}{}", self.group(), self.version())
    }

    /// Deployments and their like once lived in `extensions`.
    fn has_group(self, group: &str) -> bool {
        group == self.group() || (group == "extensions" && self.group() == "apps")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_group_and_version() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", "Known(Pod)"),
            ("apps/v1", "Deployment", "Known(Deployment)"),
            ("karpenter.sh/v1", "NodePool", "Known(NodePool)"),
            ("karpenter.k8s.aws/v1", "EC2NodeClass", "Known(Ec2NodeClass)"),
            ("berth.dev/v1alpha1", "VPSieNodeClass", "Known(VpsieNodeClass)"),
            ("v1", "ConfigMap", "Foreign(\"ConfigMap\")"),
            ("v1", "pod", "`pod` is not a kind; write it as Pod"),
            ("container.example.com/v1", "NodePool", "Foreign(\"NodePool\")"),
            (
                "karpenter.sh/v1beta1",
                "NodePool",
                "`karpenter.sh/v1beta1` is not read; write the NodePool as karpenter.sh/v1",
            ),
            ("extensions/v1beta1", "Deployment", "write the Deployment as apps/v1"),
            ("v2", "Pod", "write the Pod as v1"),
            ("", "Pod", "(\"apiVersion\", \"is missing; for a Pod it is v1\")"),
            ("", "Thing", "(\"apiVersion\", \"is missing\")"),
            ("v1", "", "(\"kind\", \"is missing"),
        ] {
            let header = Header { api_version: Some(api_version.into()), kind: Some(kind.into()) };
            let actual = format!("{:?}", meaning(&header));
            assert!(actual.contains(expected), "{api_version} {kind}: {actual}");
        }
    }

    #[test]
    fn collections_are_where_the_api_serves_them() {
        let all: Vec<(String, String)> = collections().map(|of| (of.to_string(), of.path())).collect();
        for (name, path) in [
            ("pods", "/api/v1/pods"),
            ("csinodes.storage.k8s.io", "/apis/storage.k8s.io/v1/csinodes"),
            ("poddisruptionbudgets.policy", "/apis/policy/v1/poddisruptionbudgets"),
            ("nodepools.karpenter.sh", "/apis/karpenter.sh/v1/nodepools"),
            ("vpsienodes.autoscaler.vpsie.com", "/apis/autoscaler.vpsie.com/v1alpha1/vpsienodes"),
        ] {
            assert!(all.contains(&(name.to_owned(), path.to_owned())), "{name}: {all:?}");
        }
        assert!(!all.iter().any(|(name, _)| name == "cronjobs.batch"));
    }
}
