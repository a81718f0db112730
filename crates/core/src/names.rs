//! The label, annotation and taint names that mean something to Berth, and what makes a name legal.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A name or a value. Shared, because a cluster repeats the same few over and over.
pub type Text = Arc<str>;

pub type Labels = BTreeMap<Text, Text>;

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// On a node: its taints are not for the claim to give.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Every namespace has this label, with its own name as the value.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";

pub const TAINT_DISRUPTED: &str = "karpenter.sh/disrupted";
pub const TAINT_UNREGISTERED: &str = "karpenter.sh/unregistered";
pub const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const TAINT_UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
pub const TAINT_CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
pub const TAINT_READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Keys that every node gets from its instance type or its offering, so that a pod may ask for them
/// although no pool names them.
pub const WELL_KNOWN: [&str; 8] =
    [NODEPOOL, CAPACITY_TYPE, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, WINDOWS_BUILD];

/// Other names of well-known keys: those of before Kubernetes 1.17 (1.14 for arch and os), and those under
/// which storage drivers speak of zones.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("topology.ebs.csi.aws.com/zone", ZONE),
    ("topology.gke.io/zone", ZONE),
    ("topology.disk.csi.azure.com/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// The well-known name of a label key.
pub fn normalized_key(key: &str) -> &str {
    OTHER_NAMES.iter().find(|(other, _)| *other == key).map_or(key, |(_, stable)| stable)
}

/// Whether a pool or a pod must not set this label: it belongs to Berth or to the kubelet.
///
/// The reason is part of the answer because the person who set it needs to know.
pub fn restriction(key: &str) -> Option<&'static str> {
    if WELL_KNOWN.contains(&key) {
        return None;
    }
    if key == HOSTNAME {
        return Some("each node has its own hostname, set by its kubelet");
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    if domain == KARPENTER_DOMAIN || domain.ends_with(".karpenter.sh") {
        return Some("the domain karpenter.sh belongs to the autoscaler");
    }
    None
}

/// Why `key` is not a legal label key, or `None` if it is.
pub fn label_key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|p| !is_dns_subdomain(p)) {
        return Some("the part before the slash must be a DNS name of at most 253 lower-case characters");
    }
    if !is_qualified_part(name) {
        return Some(
            "a label key is at most 63 letters, digits, `-`, `_` or `.`, and starts and ends with a letter or digit",
        );
    }
    None
}

/// Why `value` is not a legal label value, or `None` if it is.
pub fn label_value_problem(value: &str) -> Option<&'static str> {
    if value.is_empty() || is_qualified_part(value) {
        return None;
    }
    Some(
        "a label value is at most 63 letters, digits, `-`, `_` or `.`, and starts and ends with a letter or digit",
    )
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

pub fn is_dns_subdomain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|part| {
            let bytes = part.as_bytes();
            let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys() {
        for key in ["a", "app.kubernetes.io/name", "A_b-c.9", "0"] {
            assert_eq!(label_key_problem(key), None, "{key}");
        }
        for key in ["", "/a", "a/", "-a", "a-", "a/b/c", "A.com/x", "a b", &"x".repeat(64)] {
            assert!(label_key_problem(key).is_some(), "{key}");
        }
    }

    #[test]
    fn restricted_labels() {
        for key in [HOSTNAME, "karpenter.sh/anything", INITIALIZED] {
            assert!(restriction(key).is_some(), "{key}");
        }
        for key in
            [NODEPOOL, CAPACITY_TYPE, ZONE, "karpenter.kwok.sh/instance-cpu", "team", "node.kubernetes.io/x"]
        {
            assert!(restriction(key).is_none(), "{key}");
        }
    }

    #[test]
    fn other_names_are_read_as_the_well_known() {
        assert_eq!(normalized_key("topology.ebs.csi.aws.com/zone"), ZONE);
        assert_eq!(normalized_key("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(normalized_key("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(normalized_key("team"), "team");
    }
}
