//! What a cluster serves: a kind that is not there is none, one in another version is a reason to stop.

use std::collections::BTreeMap;

use berth_api::Collection;
use http::Request;
use serde::Deserialize;

use crate::cluster::{Cluster, Refused};

/// The versions of resources, by group and plural. `None` of a cluster that is too old to tell at once.
#[derive(Debug)]
pub(crate) struct Served(Option<BTreeMap<(String, String), Vec<String>>>);

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

impl Served {
    pub(crate) async fn by(cluster: &Cluster) -> Result<Self, Refused> {
        let request = Request::get("/apis").header("accept", AGGREGATED).body(Vec::new());
        let text = cluster.ask(request).await?;
        Ok(Self::read(&text))
    }

    fn read(text: &str) -> Self {
        let Ok(list) = serde_json::from_str::<GroupList>(text) else { return Self(None) };
        if list.kind != "APIGroupDiscoveryList" {
            return Self(None);
        }
        let mut served: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for group in list.items {
            for version in group.versions {
                for resource in version.resources {
                    let of = served.entry((group.metadata.name.clone(), resource.resource)).or_default();
                    of.push(version.version.clone());
                }
            }
        }
        Self(Some(served))
    }

    /// In which versions objects are served, none if in none; `None` if that is not known.
    pub(crate) fn versions_of(&self, collection: &Collection) -> Option<Vec<&str>> {
        // The core group is elsewhere, and the same everywhere.
        let served = self.0.as_ref().filter(|_| !collection.group.is_empty())?;
        let of = served.get(&(collection.group.to_owned(), collection.plural.to_owned()));
        Some(of.into_iter().flatten().map(String::as_str).collect())
    }
}

#[derive(Deserialize)]
struct GroupList {
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct GroupMetadata {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    resource: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_served_in_versions() {
        let served = Served::read(
            r#"{"kind": "APIGroupDiscoveryList", "items": [
                {"metadata": {"name": "karpenter.sh"}, "versions": [
                    {"version": "v1", "resources": [{"resource": "nodepools"}]},
                    {"version": "v1beta1", "resources": [{"resource": "nodepools"}, {"resource": "nodeclaims"}]}]},
                {"metadata": {"name": "empty.example.com"}}]}"#,
        );
        let of = |plural| berth_api::collections().find(|known| known.plural == plural).unwrap();
        for (plural, versions) in [
            ("nodepools", Some(vec!["v1", "v1beta1"])),
            ("nodeclaims", Some(vec!["v1beta1"])),
            ("nodeoverlays", Some(vec![])),
            ("poddisruptionbudgets", Some(vec![])),
            ("pods", None),
        ] {
            assert_eq!(served.versions_of(&of(plural)), versions, "{plural}");
        }
        for old in [r#"{"kind": "APIGroupList", "groups": []}"#, "{}", "no"] {
            assert_eq!(Served::read(old).versions_of(&of("nodepools")), None, "{old}");
        }
    }
}
