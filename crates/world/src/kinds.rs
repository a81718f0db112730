//! The resources that the API serves: built in, and added by CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::sync::Arc;

/// One resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub scope: Scope,
    pub subresources: Vec<Subresource>,
    /// Whether a definition serves it. Its group says nothing of that: Kubernetes' own are in many.
    pub is_custom: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    Status,
    Scale,
    Eviction,
    Binding,
    /// What waits for the end of a namespace.
    Finalize,
    Log,
    Exec,
    Attach,
    PortForward,
}

impl Subresource {
    /// Whether it carries objects, and not what a program says.
    pub fn has_objects(self) -> bool {
        !matches!(self, Self::Log | Self::Exec | Self::Attach | Self::PortForward)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }
}

impl Resource {
    /// `pods`, or `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The name under which its objects are kept: those of some resources are the same.
    pub fn kept_as(&self) -> String {
        if self.group == "events.k8s.io" { self.plural.clone() } else { self.qualified() }
    }

    /// `v1`, or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }
}

/// All that is served, by group, version and plural.
#[derive(Clone, Debug)]
pub struct Kinds {
    served: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Kinds {
    pub fn built_in() -> Self {
        let mut kinds = Self { served: BTreeMap::new() };
        for row in BUILT_IN {
            kinds.add(Arc::new(row.resource()));
        }
        kinds
    }

    pub fn add(&mut self, resource: Arc<Resource>) {
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.served.insert(key, resource);
    }

    /// What definitions serve goes; what is built in stays.
    pub fn remove_custom(&mut self) {
        self.served.retain(|_, resource| !resource.is_custom);
    }

    /// Whether a resource is built in, in any version, or its group's version is. What is so is no definition's.
    pub fn has_built_in(&self, group: &str, version: &str, plural: &str) -> bool {
        let mut built_in = self.served.values().filter(|own| !own.is_custom && own.group == group);
        built_in.any(|own| own.version == version || own.plural == plural)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.served.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// By plural and group, in the first version that is served: `pods`, `deployments.apps`.
    pub fn find_qualified(&self, name: &str) -> Option<&Arc<Resource>> {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        let first = (group.to_owned(), String::new(), String::new());
        let of_group = self.served.range(first..).take_while(|((of, _, _), _)| of == group);
        of_group.map(|(_, resource)| resource).find(|resource| resource.plural == plural)
    }

    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.served.values().any(|resource| resource.group == group && resource.version == version)
    }

    /// By the `apiVersion` and `kind` that an object has.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.served.values().find(|r| r.group == group && r.version == version && r.kind == kind)
    }

    /// In the order of group, version and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.served.values()
    }
}

/// A built-in resource in a few words.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    scope: Scope,
    subresources: &'static [Subresource],
}

impl Row {
    fn resource(&self) -> Resource {
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let in_all = matches!(self.group, "apps" | "batch" | "autoscaling")
            || matches!(self.kind, "Pod" | "Service" | "ReplicationController");
        let in_all = in_all && self.kind != "ControllerRevision";
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: strings(self.short_names),
            categories: strings(match (in_all, self.group) {
                (true, _) => &["all"],
                (false, "admissionregistration.k8s.io" | "apiextensions.k8s.io") => &["api-extensions"],
                (false, _) => &[],
            }),
            scope: self.scope,
            subresources: self.subresources.to_vec(),
            is_custom: false,
        }
    }
}

const STATUS: &[Subresource] = &[Subresource::Status];
const STATUS_AND_SCALE: &[Subresource] = &[Subresource::Status, Subresource::Scale];
const OF_NAMESPACES: &[Subresource] = &[Subresource::Finalize, Subresource::Status];
const OF_PODS: &[Subresource] = &[
    Subresource::Status,
    Subresource::Eviction,
    Subresource::Binding,
    Subresource::Log,
    Subresource::Exec,
    Subresource::Attach,
    Subresource::PortForward,
];

macro_rules! rows {
    ($($group:literal $version:literal $kind:literal $plural:literal $short:expr, $scope:ident, $sub:expr;)*) => {
        &[$(Row {
            group: $group, version: $version, kind: $kind, plural: $plural,
            short_names: &$short, scope: Scope::$scope, subresources: $sub,
        }),*]
    };
}

const BUILT_IN: &[Row] = rows! {
    "" "v1" "ConfigMap" "configmaps" ["cm"], Namespaced, &[];
    "" "v1" "Endpoints" "endpoints" ["ep"], Namespaced, &[];
    "" "v1" "Event" "events" ["ev"], Namespaced, &[];
    "" "v1" "LimitRange" "limitranges" ["limits"], Namespaced, &[];
    "" "v1" "Namespace" "namespaces" ["ns"], Cluster, OF_NAMESPACES;
    "" "v1" "Node" "nodes" ["no"], Cluster, STATUS;
    "" "v1" "PersistentVolume" "persistentvolumes" ["pv"], Cluster, STATUS;
    "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" ["pvc"], Namespaced, STATUS;
    "" "v1" "Pod" "pods" ["po"], Namespaced, OF_PODS;
    "" "v1" "PodTemplate" "podtemplates" [], Namespaced, &[];
    "" "v1" "ReplicationController" "replicationcontrollers" ["rc"], Namespaced, STATUS_AND_SCALE;
    "" "v1" "ResourceQuota" "resourcequotas" ["quota"], Namespaced, STATUS;
    "" "v1" "Secret" "secrets" [], Namespaced, &[];
    "" "v1" "Service" "services" ["svc"], Namespaced, STATUS;
    "" "v1" "ServiceAccount" "serviceaccounts" ["sa"], Namespaced, &[];
    "admissionregistration.k8s.io" "v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations" [], Cluster, &[];
    "admissionregistration.k8s.io" "v1" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations" [], Cluster, &[];
    "apiextensions.k8s.io" "v1" "CustomResourceDefinition" "customresourcedefinitions" ["crd", "crds"], Cluster, STATUS;
    "apps" "v1" "ControllerRevision" "controllerrevisions" [], Namespaced, &[];
    "apps" "v1" "DaemonSet" "daemonsets" ["ds"], Namespaced, STATUS;
    "apps" "v1" "Deployment" "deployments" ["deploy"], Namespaced, STATUS_AND_SCALE;
    "apps" "v1" "ReplicaSet" "replicasets" ["rs"], Namespaced, STATUS_AND_SCALE;
    "apps" "v1" "StatefulSet" "statefulsets" ["sts"], Namespaced, STATUS_AND_SCALE;
    "autoscaling" "v2" "HorizontalPodAutoscaler" "horizontalpodautoscalers" ["hpa"], Namespaced, STATUS;
    "batch" "v1" "CronJob" "cronjobs" ["cj"], Namespaced, STATUS;
    "batch" "v1" "Job" "jobs" [], Namespaced, STATUS;
    "coordination.k8s.io" "v1" "Lease" "leases" [], Namespaced, &[];
    "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" [], Namespaced, &[];
    "events.k8s.io" "v1" "Event" "events" ["ev"], Namespaced, &[];
    "networking.k8s.io" "v1" "Ingress" "ingresses" ["ing"], Namespaced, STATUS;
    "networking.k8s.io" "v1" "IngressClass" "ingressclasses" [], Cluster, &[];
    "networking.k8s.io" "v1" "NetworkPolicy" "networkpolicies" ["netpol"], Namespaced, &[];
    "node.k8s.io" "v1" "RuntimeClass" "runtimeclasses" [], Cluster, &[];
    "policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" ["pdb"], Namespaced, STATUS;
    "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" [], Cluster, &[];
    "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings" [], Cluster, &[];
    "rbac.authorization.k8s.io" "v1" "Role" "roles" [], Namespaced, &[];
    "rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings" [], Namespaced, &[];
    "scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses" ["pc"], Cluster, &[];
    "storage.k8s.io" "v1" "CSINode" "csinodes" [], Cluster, &[];
    "storage.k8s.io" "v1" "StorageClass" "storageclasses" ["sc"], Cluster, &[];
    "storage.k8s.io" "v1" "VolumeAttachment" "volumeattachments" [], Cluster, STATUS;
};
