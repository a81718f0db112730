//! Which pods are parts of the control plane: nothing takes their place when their node goes.

use crate::pod::Pod;

const NAMESPACE: &str = "kube-system";

/// As their label `component` and their names call them.
const COMPONENTS: [&str; 5] =
    ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "cloud-controller-manager"];
/// The labels that say it, the first with the value `control-plane`.
pub const TIER: &str = "tier";
pub const COMPONENT: &str = "component";

/// What of a pod says whether it is one.
#[derive(Clone, Copy, Debug)]
pub struct Resident<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// Where it runs.
    pub node: Option<&'a str>,
    /// Its kubelet runs it, and Kubernetes only shows it.
    pub is_mirror: bool,
    pub tier: Option<&'a str>,
    pub component: Option<&'a str>,
}

impl Resident<'_> {
    /// By its labels; one that has none by what it is called, if people or a kubelet call it so and not a workload that is
    /// named after what it looks after, such as a backup of etcd.
    pub fn is_of_control_plane(&self) -> bool {
        let Self { namespace, name, is_mirror, tier, component, .. } = *self;
        if namespace != NAMESPACE {
            return false;
        }
        match (tier, component) {
            (Some("control-plane"), _) => true,
            (_, Some(component)) => COMPONENTS.contains(&component),
            (_, None) if is_mirror => COMPONENTS.iter().any(|part| name.contains(part)),
            (_, None) => COMPONENTS.iter().any(|part| self.is_one_of(part)),
        }
    }

    /// Whether it is called after a component and nothing else: its node, or what Kubernetes makes up.
    fn is_one_of(&self, component: &str) -> bool {
        match self.name.strip_prefix(component) {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix('-')
                .is_some_and(|rest| self.node == Some(rest) || rest.split('-').all(is_made_up)),
            None => false,
        }
    }
}

/// A number, or what Kubernetes makes up: that has no vowels, so that it is no word.
fn is_made_up(part: &str) -> bool {
    !part.is_empty() && !part.contains(['a', 'e', 'i', 'o', 'u', 'y'])
}

impl Pod {
    pub fn is_of_control_plane(&self) -> bool {
        let label = |key: &str| self.spec.labels.get(key).map(|value| &**value);
        let resident = Resident {
            namespace: &self.namespace,
            name: &self.name,
            node: self.node.as_deref(),
            is_mirror: self.mirror,
            tier: label(TIER),
            component: label(COMPONENT),
        };
        resident.is_of_control_plane()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_control_plane() {
        let system = |name| Resident {
            namespace: NAMESPACE,
            name,
            node: Some("n-1"),
            is_mirror: false,
            tier: None,
            component: None,
        };
        let mirror = |name| Resident { is_mirror: true, ..system(name) };
        for (resident, expected) in [
            // As kubeadm labels them.
            (Resident { tier: Some("control-plane"), component: Some("etcd"), ..mirror("etcd-n-1") }, true),
            (
                Resident {
                    component: Some("cloud-controller-manager"),
                    ..mirror("cloud-controller-manager-n-1")
                },
                true,
            ),
            (Resident { tier: Some("control-plane"), ..system("apiserver-xk2c9") }, true),
            (
                Resident { tier: Some("node"), component: Some("kube-proxy"), ..mirror("kube-proxy-n-1") },
                false,
            ),
            (Resident { component: Some("etcd-backup"), ..system("etcd-0") }, false),
            // By their names.
            (mirror("cloud-controller-manager-n-1"), true),
            (mirror("my-etcd-n-1"), true),
            (mirror("nginx-proxy-n-1"), false),
            (system("kube-apiserver"), true),
            (system("kube-apiserver-n-1"), true),
            (system("etcd-0"), true),
            (system("kube-scheduler-7d9f8b6c7-xk2c9"), true),
            (system("etcd-backup-28374650-xk2c9"), false),
            (system("etcd-backup"), false),
            (system("etcd-"), false),
            (system("etcdctl"), false),
            (system("coredns-7d9f8b6c7-xk2c9"), false),
            (Resident { namespace: "default", ..mirror("etcd-n-1") }, false),
        ] {
            assert_eq!(resident.is_of_control_plane(), expected, "{resident:?}");
        }
    }
}
