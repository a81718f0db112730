//! Discovery: what the API serves, told as clients ask for it, by group or all at once.

pub(crate) mod served;

use crate::json::{Value, json};
use crate::kinds::{Kinds, Scope};
use served::{Group, Gvk, Origin, Served, ServedSubresource, groups};

/// What clients name in `Accept` to get all groups with all resources at once, and what such an answer is.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether the first media type in `Accept` that is understood is the aggregated one.
pub fn wants_aggregated(accept: &str) -> bool {
    let is_one_of =
        |part: &str, names: &[&str]| names.iter().any(|name| part.trim().eq_ignore_ascii_case(name));
    for media_type in accept.split(',') {
        let mut parts = media_type.split(';');
        let is_json =
            parts.next().is_some_and(|kind| is_one_of(kind, &["application/json", "application/*", "*/*"]));
        let asked: Vec<&str> = parts.map(str::trim).filter(|part| !part.starts_with("q=")).collect();
        let has = |parameter: &str| asked.contains(&parameter);
        if is_json && has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList") {
            return true;
        }
        if is_json && !asked.iter().any(|part| part.starts_with("as=")) {
            return false;
        }
    }
    false
}

/// `/api`. `address` is the server's own, as host and port.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

/// `/apis`.
pub fn group_list(kinds: &Kinds) -> Value {
    let named = groups(kinds).into_iter().filter(|group| !group.name.is_empty());
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": named.map(|group| group_entry(&group)).collect::<Vec<_>>() })
}

/// `/apis/<group>`, if it is served.
pub fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    let group = groups(kinds).into_iter().find(|group| !name.is_empty() && group.name == name)?;
    let mut entry = group_entry(&group);
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

/// Whether anything of a group is not a definition's.
pub(crate) fn has_built_in(kinds: &Kinds, group: &str) -> bool {
    served::all(kinds).any(|served| served.kind.group == group && served.origin != Origin::Custom)
}

/// `/api/v1`, or `/apis/<group>/<version>`, if it is served.
pub fn resource_list(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let group = groups(kinds).into_iter().find(|of| of.name == group)?;
    let version = group.versions.iter().find(|of| of.name == version)?;
    let resources: Vec<Value> = version.resources.iter().flat_map(resource_entries).collect();
    let mut list = json!({ "kind": "APIResourceList", "resources": resources });
    list["groupVersion"] = json!(group_version(&group.name, &version.name));
    if !group.name.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// `/api`, aggregated.
pub fn aggregated_core(kinds: &Kinds) -> Value {
    aggregated(groups(kinds).iter().filter(|group| group.name.is_empty()))
}

/// `/apis`, aggregated.
pub fn aggregated_groups(kinds: &Kinds) -> Value {
    aggregated(groups(kinds).iter().filter(|group| !group.name.is_empty()))
}

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    })
}

/// The Kubernetes whose behaviour this one has.
pub(crate) const GIT_VERSION: &str = "v1.36.4+berth";

fn group_entry(group: &Group) -> Value {
    let entry =
        |version: &str| json!({ "groupVersion": group_version(&group.name, version), "version": version });
    let versions: Vec<Value> = group.versions.iter().map(|version| entry(&version.name)).collect();
    json!({ "name": group.name, "preferredVersion": versions.first(), "versions": versions })
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The resource, then its subresources.
fn resource_entries(served: &Served) -> Vec<Value> {
    let is_namespaced = served.scope == Scope::Namespaced;
    let mut resource = json!({
        "name": served.plural, "singularName": served.singular, "namespaced": is_namespaced,
        "kind": served.kind.kind, "verbs": served.verbs,
    });
    add_names(&mut resource, served);
    let of_subresource = |subresource: &ServedSubresource| {
        let Gvk { group, version, kind } = &subresource.kind;
        let mut entry = json!({
            "name": format!("{}/{}", served.plural, subresource.name), "singularName": "",
            "namespaced": is_namespaced, "kind": kind, "verbs": subresource.verbs,
        });
        if (group, version) != (&served.kind.group, &served.kind.version) {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        entry
    };
    let mut entries = vec![resource];
    entries.extend(served.subresources.iter().map(of_subresource));
    entries
}

fn aggregated<'a>(groups: impl Iterator<Item = &'a Group>) -> Value {
    let items: Vec<Value> = groups
        .map(|group| {
            let versions = group.versions.iter().map(|version| {
                let resources: Vec<Value> = version.resources.iter().map(aggregated_resource).collect();
                json!({ "version": version.name, "resources": resources, "freshness": "Current" })
            });
            let mut metadata = json!({});
            if !group.name.is_empty() {
                metadata["name"] = json!(group.name);
            }
            json!({ "metadata": metadata, "versions": versions.collect::<Vec<_>>() })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_resource(served: &Served) -> Value {
    let scope = if served.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
    let mut resource = json!({
        "resource": served.plural, "responseKind": response_kind(&served.kind, served), "scope": scope,
        "singularResource": served.singular, "verbs": served.verbs,
    });
    add_names(&mut resource, served);
    let of_subresource = |subresource: &ServedSubresource| {
        json!({
            "subresource": subresource.name, "responseKind": response_kind(&subresource.kind, served),
            "verbs": subresource.verbs,
        })
    };
    if !served.subresources.is_empty() {
        resource["subresources"] = served.subresources.iter().map(of_subresource).collect();
    }
    resource
}

/// The API server leaves out the group and version of its own kinds where they are those of the list.
fn response_kind(kind: &Gvk, served: &Served) -> Value {
    let Gvk { group, version, .. } = &served.kind;
    if served.origin == Origin::BuiltIn && (group, version) == (&kind.group, &kind.version) {
        return json!({ "group": "", "version": "", "kind": kind.kind });
    }
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
}

fn add_names(entry: &mut Value, served: &Served) {
    for (key, names) in [("shortNames", &served.short_names), ("categories", &served.categories)] {
        if !names.is_empty() {
            entry[key] = json!(names);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kinds::{Resource, Subresource};

    fn kinds() -> Kinds {
        let mut kinds = Kinds::built_in();
        for version in ["v1beta1", "v1"] {
            kinds.add(Arc::new(Resource {
                group: "shop.example.com".to_owned(),
                version: version.to_owned(),
                kind: "Cart".to_owned(),
                plural: "carts".to_owned(),
                singular: "cart".to_owned(),
                short_names: vec!["ca".to_owned()],
                categories: vec!["all".to_owned()],
                scope: Scope::Namespaced,
                subresources: vec![Subresource::Status, Subresource::Scale],
                is_custom: true,
            }));
        }
        kinds
    }

    #[test]
    fn who_wants_it_aggregated() {
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let rows = [
            (AGGREGATED.to_owned(), true),
            (format!("{AGGREGATED},{beta},application/json"), true),
            (format!("{beta}, {AGGREGATED}, application/json"), true),
            (format!("application/json, {AGGREGATED}"), false),
            (format!("{beta},application/json"), false),
            ("application/json;v=v2;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;q=0.9".to_owned(), true),
            ("application/json".to_owned(), false),
            ("*/*".to_owned(), false),
            (String::new(), false),
            (";;,=,".to_owned(), false),
        ];
        for (accept, expected) in rows {
            assert_eq!(wants_aggregated(&accept), expected, "{accept}");
        }
    }

    #[test]
    fn groups_and_versions() {
        let kinds = kinds();
        assert_eq!(
            core_versions("127.0.0.1:1")["serverAddressByClientCIDRs"][0]["serverAddress"],
            "127.0.0.1:1"
        );
        let list = group_list(&kinds);
        let names: Vec<&Value> =
            list["groups"].as_array().into_iter().flatten().map(|group| &group["name"]).collect();
        assert_eq!((names[0], names[names.len() - 1]), (&json!("apps"), &json!("shop.example.com")));
        let (v1, beta) = (
            json!({ "groupVersion": "shop.example.com/v1", "version": "v1" }),
            json!({ "groupVersion": "shop.example.com/v1beta1", "version": "v1beta1" }),
        );
        let expected = json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "shop.example.com",
            "versions": [v1, beta], "preferredVersion": v1,
        });
        assert_eq!(group(&kinds, "shop.example.com"), Some(expected));
        for missing in ["", "nothing"] {
            assert_eq!(group(&kinds, missing), None);
        }
        for (group, version) in [("", "v2"), ("apps", "v1beta1"), ("nothing", "v1"), ("", "")] {
            assert_eq!(resource_list(&kinds, group, version), None, "{group}/{version}");
        }
    }

    #[test]
    fn resources() {
        let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let custom = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        let change = ["get", "patch", "update"];
        let rows = [
            (
                "",
                "v1",
                json!({ "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": all, "shortNames": ["po"], "categories": ["all"] }),
            ),
            (
                "",
                "v1",
                json!({ "name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": change }),
            ),
            (
                "",
                "v1",
                json!({ "name": "pods/binding", "singularName": "", "namespaced": true, "kind": "Binding", "verbs": ["create"] }),
            ),
            (
                "",
                "v1",
                json!({ "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"] }),
            ),
            (
                "",
                "v1",
                json!({ "name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding", "verbs": ["create"] }),
            ),
            (
                "",
                "v1",
                json!({ "name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace", "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"], "shortNames": ["ns"] }),
            ),
            (
                "apps",
                "v1",
                json!({ "name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": change }),
            ),
            (
                "shop.example.com",
                "v1",
                json!({ "name": "carts", "singularName": "cart", "namespaced": true, "kind": "Cart", "verbs": custom, "shortNames": ["ca"], "categories": ["all"] }),
            ),
            (
                "shop.example.com",
                "v1beta1",
                json!({ "name": "carts/status", "singularName": "", "namespaced": true, "kind": "Cart", "verbs": change }),
            ),
            (
                "metrics.k8s.io",
                "v1beta1",
                json!({ "name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"] }),
            ),
        ];
        for (group, version, expected) in rows {
            let list = resource_list(&kinds(), group, version).unwrap_or_default();
            let found =
                list["resources"].as_array().into_iter().flatten().find(|r| r["name"] == expected["name"]);
            assert_eq!(found, Some(&expected));
        }
    }

    #[test]
    fn all_at_once() {
        let (core, groups) = (aggregated_core(&kinds()), aggregated_groups(&kinds()));
        let find = |group: &str, resource: &str| {
            let lists = [&core["items"], &groups["items"]];
            let mut items = lists.into_iter().filter_map(Value::as_array).flatten();
            let found = items.find(|item| item["metadata"].get("name").unwrap_or(&json!("")) == group)?;
            let mut resources = found["versions"][0]["resources"].as_array()?.iter();
            resources.find(|entry| entry["resource"] == resource).cloned()
        };
        let change = ["get", "patch", "update"];
        let cart = json!({ "group": "shop.example.com", "version": "v1", "kind": "Cart" });
        let scale = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
        let own = |kind: &str| json!({ "group": "", "version": "", "kind": kind });
        let rows = [
            (
                "shop.example.com",
                json!({
                    "resource": "carts", "responseKind": cart, "scope": "Namespaced", "singularResource": "cart",
                    "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
                    "shortNames": ["ca"], "categories": ["all"],
                    "subresources": [
                        { "subresource": "status", "responseKind": cart, "verbs": change },
                        { "subresource": "scale", "responseKind": scale, "verbs": change },
                    ],
                }),
            ),
            (
                "apps",
                json!({
                    "resource": "deployments", "responseKind": own("Deployment"), "scope": "Namespaced",
                    "singularResource": "deployment",
                    "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                    "shortNames": ["deploy"], "categories": ["all"],
                    "subresources": [
                        { "subresource": "scale", "responseKind": scale, "verbs": change },
                        { "subresource": "status", "responseKind": own("Deployment"), "verbs": change },
                    ],
                }),
            ),
            (
                "",
                json!({
                    "resource": "bindings", "responseKind": own("Binding"), "scope": "Namespaced",
                    "singularResource": "binding", "verbs": ["create"],
                }),
            ),
        ];
        for (group, expected) in rows {
            let resource = expected["resource"].as_str().unwrap_or_default();
            assert_eq!(find(group, resource), Some(expected.clone()));
        }
    }
}
