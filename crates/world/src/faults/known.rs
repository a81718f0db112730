//! Whether anybody serves what a fault is about.

use crate::discovery::served::{self, Served};
use crate::kinds::Kinds;

/// Nobody serves a resource of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What may have been meant.
    pub near: Option<String>,
}

/// Whether it is so of a resource as plans name it: `pods`, `pods/eviction`, `deployments.apps/scale`, or a path.
pub(crate) fn unknown(kinds: &Kinds, resource: &str) -> Option<Unknown> {
    if resource.starts_with('/') {
        return None;
    }
    let (whole, part) = resource.split_once('/').unwrap_or((resource, ""));
    let all: Vec<Served> = served::all(kinds).collect();
    let has_part = |served: &Served| part.is_empty() || served.subresources.iter().any(|of| of.name == part);
    if all.iter().any(|served| served.qualified() == whole && has_part(served)) {
        return None;
    }
    let word = whole.split('.').next().unwrap_or_default().to_lowercase();
    let is_meant = |served: &&Served| {
        let short = served.short_names.iter().map(String::as_str);
        let mut names = [&*served.plural, &*served.singular].into_iter().chain(short);
        names.any(|name| name == word) && has_part(served)
    };
    let near = all.iter().find(is_meant).map(|served| match part {
        "" => served.qualified(),
        part => format!("{}/{part}", served.qualified()),
    });
    Some(Unknown { near })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_serves_is_known_and_what_may_have_been_meant() {
        let kinds = Kinds::built_in();
        let near = |name: &str| Some(Unknown { near: Some(name.to_owned()) });
        for (resource, expected) in [
            ("pods", None),
            ("pods/eviction", None),
            ("deployments.apps/scale", None),
            ("nodes.metrics.k8s.io", None),
            ("selfsubjectaccessreviews.authorization.k8s.io", None),
            ("/version", None),
            ("pod", near("pods")),
            ("Pod", near("pods")),
            ("po/eviction", near("pods/eviction")),
            ("deployments", near("deployments.apps")),
            ("deploy/scale", near("deployments.apps/scale")),
            ("pods/scale", Some(Unknown { near: None })),
            ("nodeclaims.karpenter.sh", Some(Unknown { near: None })),
        ] {
            assert_eq!(unknown(&kinds, resource), expected, "{resource}");
        }
    }
}
