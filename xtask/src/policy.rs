//! What may depend on what: the layers, core's purity, licences, sources, and a reason for each.

use std::fs;

use crate::licence;
use crate::metadata::{Kind, Metadata, Package};
use crate::step::StepError;
use berth_control_plane::workspace;

/// The crates from the bottom up. A crate may depend on those of lower layers only.
const LAYERS: [&[&str]; 6] = [
    &["berth-core", "berth-credentials"],
    &["berth-api", "berth-control-plane"],
    &["berth-cloud"],
    &["berth-operator", "berth-world"],
    &["berth-cli"],
    &["xtask"],
];

/// Arrows that only tests may have: the operator is tested in the world.
const ARROWS_OF_TESTS: [(&str, &str); 2] =
    [("berth-operator", "berth-world"), ("berth-operator", "berth-operator")];

/// Whoever links one of these can read a clock, wait, draw lots or talk to somebody: core must not.
const FORBIDDEN_IN_CORE: [&str; 20] = [
    "async-std",
    "axum",
    "chrono",
    "clap",
    "fastrand",
    "futures-util",
    "getrandom",
    "hyper",
    "jiff",
    "k8s-openapi",
    "kube",
    "kube-core",
    "mio",
    "rand",
    "reqwest",
    "rustls",
    "socket2",
    "time",
    "tokio",
    "tracing",
];

/// How cargo marks a package that comes from a registry, not from a repository or a fork.
const REGISTRY: &str = "registry+";

const REASONS: &str = "docs/dependencies.md";

/// One line for each broken rule.
pub(crate) fn violations(metadata: &Metadata) -> Result<Vec<String>, StepError> {
    let path = workspace().join(REASONS);
    let reasons =
        fs::read_to_string(&path).map_err(|source| StepError::File { path: REASONS.to_owned(), source })?;
    let mut found = layering(metadata);
    found.extend(impurities(metadata));
    found.extend(strangers(metadata));
    found.extend(unexplained(metadata, &reasons));
    Ok(found)
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn layering(metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    for member in metadata.members() {
        let Some(layer) = layer_of(&member.name) else {
            found.push(format!("{} has no layer; give it one in xtask/src/policy.rs", member.name));
            continue;
        };
        for dependency in member.dependencies.iter().filter(|dependency| dependency.source.is_none()) {
            let down = layer_of(&dependency.name).is_some_and(|below| below < layer);
            let for_tests = dependency.kind == Some(Kind::Dev)
                && ARROWS_OF_TESTS.contains(&(&*member.name, &*dependency.name));
            if !down && !for_tests {
                found.push(format!(
                    "{} depends on {}; arrows point down only: cli, operator and world, cloud, api, core",
                    member.name, dependency.name
                ));
            }
        }
    }
    found
}

fn impurities(metadata: &Metadata) -> Vec<String> {
    let linked = metadata.linked_into("berth-core");
    FORBIDDEN_IN_CORE
        .iter()
        .filter(|name| linked.contains(*name))
        .map(|name| format!("berth-core links {name}; core is pure"))
        .collect()
}

fn strangers(metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    for Package { name, version, license, source, .. } in &metadata.packages {
        if !license.as_deref().is_some_and(licence::is_allowed) {
            let license = license.as_deref().unwrap_or("no licence");
            found.push(format!("{name} {version} is under {license}, which is not allowed"));
        }
        if source.as_deref().is_some_and(|source| !source.starts_with(REGISTRY)) {
            found.push(format!("{name} {version} does not come from a registry"));
        }
    }
    found
}

/// A dependency that nobody gave a reason for.
fn unexplained(metadata: &Metadata, reasons: &str) -> Vec<String> {
    let mut found: Vec<String> = metadata
        .members()
        .flat_map(|member| &member.dependencies)
        .filter(|dependency| dependency.source.is_some())
        .filter(|dependency| !reasons.contains(&format!("| `{}` |", dependency.name)))
        .map(|dependency| format!("{} has no reason; say why in {REASONS}", dependency.name))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace in short: `berth-core=MIT > serde dev:proptest` is a crate of the workspace with its
    /// licence and dependencies, `serde=MIT` in `others` one of the registry.
    fn workspace(members: &[&str], others: &[&str]) -> Metadata {
        let package = |text: &str, member: bool| {
            let (head, dependencies) = text.split_once(" > ").unwrap_or((text, ""));
            let (name, license) = head.split_once('=').expect("name=licence");
            let names = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let is_member = |name: &str| members.iter().any(|m| m.starts_with(&format!("{name}=")));
            let dependencies: Vec<serde_json::Value> = names(dependencies)
                .iter()
                .map(|word| {
                    let (kind, name) = word.split_once(':').map_or((None, &**word), |(k, n)| (Some(k), n));
                    let source = (!is_member(name)).then_some(REGISTRY);
                    serde_json::json!({"name": name, "kind": kind, "source": source})
                })
                .collect();
            let source = (!member).then_some(if name == "forked" { "git+ssh://elsewhere" } else { REGISTRY });
            let license = (!license.is_empty()).then_some(license);
            let edges: Vec<serde_json::Value> = dependencies
                .iter()
                .map(|d| {
                    // A dependency called `browser-…` stands for one of that platform alone.
                    let browser = d["name"].as_str().is_some_and(|name| name.starts_with("browser-"));
                    let target = browser.then_some("cfg(target_family = \"wasm\")");
                    serde_json::json!({"pkg": d["name"], "dep_kinds": [{"kind": d["kind"], "target": target}]})
                })
                .collect();
            (
                serde_json::json!({"id": name, "name": name, "version": "1.0.0", "license": license,
                    "source": source, "dependencies": dependencies}),
                serde_json::json!({"id": name, "deps": edges}),
            )
        };
        let all: Vec<_> = members
            .iter()
            .map(|text| package(text, true))
            .chain(others.iter().map(|text| package(text, false)))
            .collect();
        let ids: Vec<_> = all[..members.len()].iter().map(|(package, _)| package["id"].clone()).collect();
        let packages: Vec<_> = all.iter().map(|(package, _)| package).collect();
        let nodes: Vec<_> = all.iter().map(|(_, node)| node).collect();
        serde_json::from_value(serde_json::json!({
            "packages": packages, "workspace_members": ids, "resolve": {"nodes": nodes},
        }))
        .expect("well-formed metadata")
    }

    #[test]
    fn arrows_point_down() {
        for (members, broken) in [
            (&["berth-core=MIT", "berth-api=MIT > berth-core"][..], 0),
            (&["berth-core=MIT > berth-api", "berth-api=MIT"], 1),
            (&["berth-core=MIT > dev:berth-api", "berth-api=MIT"], 1),
            (&["berth-api=MIT > berth-cloud", "berth-cloud=MIT > berth-api"], 1),
            (&["berth-operator=MIT > dev:berth-world", "berth-world=MIT"], 0),
            (&["berth-operator=MIT > berth-world", "berth-world=MIT"], 1),
            (&["berth-world=MIT > dev:berth-operator", "berth-operator=MIT"], 1),
            (&["berth-cli=MIT > berth-core berth-world", "berth-core=MIT", "berth-world=MIT"], 0),
            (&["berth-extra=MIT"], 1),
        ] {
            let found = layering(&workspace(members, &[]));
            assert_eq!(found.len(), broken, "{members:?}: {found:?}");
        }
    }

    #[test]
    fn core_is_pure_however_far_down() {
        for (core, broken) in [
            ("berth-core=MIT > serde", 0),
            ("berth-core=MIT > jiff", 1),
            ("berth-core=MIT > dev:jiff", 0),
            ("berth-core=MIT > harmless", 1),
            ("berth-core=MIT > browser-glue", 0),
        ] {
            let others =
                ["serde=MIT", "jiff=MIT", "harmless=MIT > tokio", "browser-glue=MIT > tokio", "tokio=MIT"];
            let metadata = workspace(&[core], &others);
            let found = impurities(&metadata);
            assert_eq!(found.len(), broken, "{core}: {found:?}");
        }
    }

    #[test]
    fn licences_and_sources() {
        for (other, broken) in
            [("serde=MIT OR Apache-2.0", 0), ("copyleft=GPL-3.0-only", 1), ("bare=", 1), ("forked=MIT", 1)]
        {
            let found = strangers(&workspace(&["berth-core=Apache-2.0"], &[other]));
            assert_eq!(found.len(), broken, "{other}: {found:?}");
        }
    }

    #[test]
    fn dependencies_need_a_reason() {
        let metadata = workspace(&["berth-core=MIT > serde dev:proptest"], &["serde=MIT", "proptest=MIT"]);
        assert_eq!(
            unexplained(&metadata, "| `serde` | reads | \n| `proptest` | tests |"),
            Vec::<String>::new()
        );
        assert_eq!(unexplained(&metadata, "| `serde` | reads |").len(), 1);
    }

    #[test]
    fn this_workspace_keeps_the_rules() {
        let metadata = Metadata::of_workspace().expect("cargo metadata works");
        assert_eq!(violations(&metadata).expect("the reasons can be read"), Vec::<String>::new());
    }
}
