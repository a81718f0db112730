//! All that Berth may do in a cluster, and why it must. Roles and `docs/rbac.md` are written from this table, and
//! a test takes each verb away in turn: without it something does not work.

use serde_json::{Value, json};

/// For what a permission is needed. Each is a role of its own, so that whoever wants less grants less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// To see and to plan: all that `berth run --shadow` needs.
    See,
    /// To carry plans out.
    Act,
    /// To carry out plans on VPSie.
    Vpsie,
    /// To stand in for a cloud where nodes are only simulated.
    Simulate,
}

impl Part {
    pub const ALL: [Self; 4] = [Self::See, Self::Act, Self::Vpsie, Self::Simulate];

    /// What its role's name ends in.
    pub fn name(self) -> &'static str {
        match self {
            Self::See => "see",
            Self::Act => "act",
            Self::Vpsie => "vpsie",
            Self::Simulate => "simulate",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Cluster,
    /// The namespace that Berth runs in.
    OwnNamespace,
}

/// What may be done with one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    pub part: Part,
    pub scope: Scope,
    pub group: &'static str,
    /// With its subresource, if one is meant: `pods/eviction`.
    pub resource: &'static str,
    /// Only objects of these names; all if there are none.
    pub names: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub why: &'static str,
}

impl Permission {
    /// As a role has it.
    pub fn rule(&self) -> Value {
        let mut rule =
            json!({ "apiGroups": [self.group], "resources": [self.resource], "verbs": self.verbs });
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

/// The lease by which replicas know who of them leads.
pub const LEASE: &str = "berth";

const FOLLOW: &[&str] = &["list", "watch"];

const fn see(group: &'static str, resource: &'static str, why: &'static str) -> Permission {
    Permission { part: Part::See, scope: Scope::Cluster, group, resource, names: &[], verbs: FOLLOW, why }
}

/// What a CapacityBuffer refers to is read by its name.
const fn read(group: &'static str, resource: &'static str) -> Permission {
    let why = "A CapacityBuffer may keep room for more of a workload's pods, and say how many by its size.";
    Permission { part: Part::See, scope: Scope::Cluster, group, resource, names: &[], verbs: &["get"], why }
}

const fn act(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Permission {
    Permission { part: Part::Act, scope: Scope::Cluster, group, resource, names: &[], verbs, why }
}

const fn vpsie(resource: &'static str, verbs: &'static [&'static str], why: &'static str) -> Permission {
    let group = "autoscaler.vpsie.com";
    Permission { part: Part::Vpsie, scope: Scope::Cluster, group, resource, names: &[], verbs, why }
}

const fn simulate(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Permission {
    Permission { part: Part::Simulate, scope: Scope::Cluster, group, resource, names: &[], verbs, why }
}

pub const PERMISSIONS: &[Permission] = &[
    see("", "pods", "What waits for a node, and what runs on which."),
    see(
        "",
        "services",
        "Only with --scheduler-config: kube-scheduler spreads pods together that a Service selects.",
    ),
    see("", "podtemplates", "What CapacityBuffers keep room for."),
    see("", "nodes", "The room that there is, and whether it is ready."),
    see("", "namespaces", "Pod affinity may select namespaces by their labels."),
    see("", "limitranges", "Pods that ask for nothing ask for their namespace's default."),
    see("", "persistentvolumeclaims", "Volumes bind pods to zones."),
    see("", "persistentvolumes", "Volumes bind pods to zones."),
    see("apps", "daemonsets", "What runs on every new node, and takes room there."),
    see("storage.k8s.io", "storageclasses", "In which zones a volume can be made."),
    see("storage.k8s.io", "csinodes", "How many volumes can be attached to a node."),
    see("policy", "poddisruptionbudgets", "How many pods may be moved at a time."),
    see("scheduling.k8s.io", "priorityclasses", "Which pods come first where not all find room."),
    see("node.k8s.io", "runtimeclasses", "What a pod takes beyond what it asks for."),
    see("karpenter.sh", "nodepools", "Where nodes may come from, and within which limits."),
    see("karpenter.sh", "nodeclaims", "Nodes that are on their way, there, or leaving."),
    see("karpenter.sh", "nodeoverlays", "Prices and resources that the owner knows better."),
    see("karpenter.k8s.aws", "ec2nodeclasses", "How nodes of a pool are bought on AWS."),
    see("karpenter.kwok.sh", "kwoknodeclasses", "How nodes of a pool are simulated."),
    see("berth.dev", "vpsienodeclasses", "How nodes of a pool are bought from VPSie."),
    see("autoscaling.x-k8s.io", "capacitybuffers", "How much room is kept free for pods to come."),
    read("apps", "deployments"),
    read("apps", "replicasets"),
    read("apps", "statefulsets"),
    read("batch", "jobs"),
    see("autoscaler.vpsie.com", "nodegroups", "Where nodes of VPSie may come from, and how many."),
    see("autoscaler.vpsie.com", "vpsienodes", "Nodes of VPSie that are on their way, there, or leaving."),
    see("autoscaler.vpsie.com", "autoscalerconfigs", "What holds for all groups of VPSie together."),
    act(
        "karpenter.sh",
        "nodepools",
        &["get", "patch"],
        "Its ledger is read as it is and written before anything is bought, so that limits are hard.",
    ),
    act(
        "karpenter.sh",
        "nodeclaims",
        &["create", "patch", "delete"],
        "A claim is made before its machine, labelled with what was bought, and deleted when its node has to go.",
    ),
    act(
        "karpenter.sh",
        "nodepools/status",
        &["patch"],
        "How many nodes a pool has, of what size, and whether it can be bought from.",
    ),
    act(
        "karpenter.sh",
        "nodeoverlays/status",
        &["patch"],
        "Whether an overlay does what it says, or contradicts another.",
    ),
    act(
        "autoscaling.x-k8s.io",
        "capacitybuffers/status",
        &["patch"],
        "How much room a buffer asks for, and whether it is there.",
    ),
    act(
        "karpenter.sh",
        "nodeclaims/status",
        &["patch"],
        "How far a claim has come, for people and for the next leader.",
    ),
    act(
        "",
        "nodes",
        &["patch", "delete"],
        "Nodes get their claim's labels and taints, take no more pods before they go, and go with their machine.",
    ),
    act(
        "",
        "pods/eviction",
        &["create"],
        "Pods leave a node through the API that keeps to disruption budgets.",
    ),
    act(
        "",
        "pods",
        &["delete"],
        "Only where a claim has a terminationGracePeriod, or a group an interruptionGracePeriod: what is still there near its end goes, as its owner asked. And where a node is broken.",
    ),
    act(
        "",
        "pods/status",
        &["patch"],
        "A pod is told for which node it is nominated, so that the room is kept for it.",
    ),
    act(
        "storage.k8s.io",
        "volumeattachments",
        &["list"],
        "A machine is not ended while volumes are attached to it.",
    ),
    act(
        "",
        "events",
        &["create"],
        "Why a pod has no node, and why a node goes, is said on the object itself.",
    ),
    Permission {
        part: Part::Act,
        scope: Scope::Cluster,
        group: "",
        resource: "namespaces",
        names: &["kube-system"],
        verbs: &["get"],
        why: "Its uid is who the cluster is, to clouds that several clusters share.",
    },
    Permission {
        part: Part::Act,
        scope: Scope::OwnNamespace,
        group: "coordination.k8s.io",
        resource: "leases",
        names: &[],
        verbs: &["create"],
        why: "Of several replicas one leads. What is yet to be made cannot be named.",
    },
    Permission {
        part: Part::Act,
        scope: Scope::OwnNamespace,
        group: "coordination.k8s.io",
        resource: "leases",
        names: &[LEASE],
        verbs: &["get", "patch"],
        why: "Whoever leads says so all the time, and the others look whether they still do.",
    },
    Permission {
        part: Part::Act,
        scope: Scope::Cluster,
        group: "coordination.k8s.io",
        resource: "leases",
        names: &["karpenter-leader-election", "cluster-autoscaler", "vpsie-autoscaler-leader"],
        verbs: &["list"],
        why: "Where another autoscaler is at work, Berth does not begin. Its lease may be in any namespace.",
    },
    vpsie(
        "nodegroups",
        &["get", "create", "patch"],
        "Its ledger is read as it is and written before anything is bought, so that maxNodes is hard. For pods that no \
         group fits another is made.",
    ),
    vpsie(
        "vpsienodes",
        &["get", "create", "patch", "delete"],
        "A node's object is made before its machine, read again and completed with its id, and deleted when the node has to \
         go.",
    ),
    Permission {
        part: Part::Vpsie,
        scope: Scope::Cluster,
        group: "metrics.k8s.io",
        resource: "nodes",
        names: &[],
        verbs: &["list"],
        why: "What nodes use, for the thresholds of groups; without it, what their pods ask for counts.",
    },
    vpsie("nodegroups/status", &["patch"], "How many nodes a group has and wants, and how it is."),
    vpsie("autoscalerconfigs/status", &["patch"], "Whether its settings are in use."),
    vpsie(
        "vpsienodes/status",
        &["patch"],
        "In which phase of its life a node is, for people and the next leader.",
    ),
    Permission {
        part: Part::Vpsie,
        scope: Scope::Cluster,
        group: "berth.dev",
        resource: "vpsienodeclasses/status",
        names: &[],
        verbs: &["patch"],
        why: "Whether a class can be bought from, and why not.",
    },
    Permission {
        part: Part::Vpsie,
        scope: Scope::OwnNamespace,
        group: "",
        resource: "secrets",
        names: &["vpsie-secret"],
        verbs: &["get"],
        why: "Who Berth is at VPSie. No other secret is read.",
    },
    simulate("", "nodes", &["get", "create"], "Where no machine joins by itself, its node is made for it."),
    simulate("karpenter.sh", "nodeclaims", &["get"], "A node is made only for a claim that is still there."),
    simulate("karpenter.kwok.sh", "kwoknodeclasses", &["get"], "How long a simulated machine takes to join."),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::operator::WATCHED;

    #[test]
    fn what_is_watched_is_what_may_be_seen() {
        let seen: BTreeSet<(&str, &str)> = PERMISSIONS
            .iter()
            .filter(|permission| permission.verbs == FOLLOW)
            .map(|permission| (permission.group, permission.resource))
            .collect();
        let watched: BTreeSet<(&str, &str)> = berth_api::collections()
            .filter(|collection| WATCHED.contains(&collection.plural))
            .chain([berth_api::services()])
            .map(|collection| (collection.group, collection.plural))
            .collect();
        assert_eq!(seen, watched);
    }

    #[test]
    fn no_permission_is_wider_than_it_must_be() {
        let mut rows = BTreeSet::new();
        for permission in PERMISSIONS {
            let Permission { part, scope, group, resource, names, verbs, why } = *permission;
            let row = format!("{part:?} {group} {resource} {verbs:?}");
            assert!(rows.insert((part, scope, group, resource, names)), "{row}: there are two of it");
            assert!(why.ends_with('.') && why.len() > 20, "{row}: says no reason");
            assert!(!verbs.is_empty(), "{row}: allows nothing");
            let is_own = scope == Scope::OwnNamespace && names == ["vpsie-secret"] && verbs == ["get"];
            assert!(is_own || !resource.starts_with("secrets"), "{row}: secrets are nobody's business");
            assert!(group != "rbac.authorization.k8s.io", "{row}: nobody grants themselves more");
            for verb in verbs {
                let known = ["get", "list", "watch", "create", "update", "patch", "delete"];
                assert!(known.contains(verb), "{row}: {verb} is not for Berth");
                let changes = !["get", "list", "watch"].contains(verb);
                assert!(part != Part::See || !changes, "{row}: who only sees changes nothing");
            }
            for text in [group, resource].iter().chain(names) {
                assert!(!text.contains('*'), "{row}: is for everything");
            }
        }
    }
}
