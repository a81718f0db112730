//! The paths of resources: which operations there are, and on which kind.

use super::schemas::{Dialect, reference};
use crate::discovery::served::{Gvk, Served, Version};
use crate::json::{Map, Value, json};
use crate::kinds::Scope;

/// `prefix` is `/api/v1`, or `/apis/<group>/<version>`.
pub(super) fn of_version(prefix: &str, version: &Version) -> Map {
    version.resources.iter().flat_map(|served| of_resource(prefix, served)).collect()
}

fn of_resource(prefix: &str, served: &Served) -> Vec<(String, Value)> {
    let Served { plural, kind, verbs, .. } = served;
    let (all, name) = match served.scope {
        Scope::Cluster => (format!("{prefix}/{plural}"), vec!["name"]),
        Scope::Namespaced => {
            (format!("{prefix}/namespaces/{{namespace}}/{plural}"), vec!["name", "namespace"])
        }
    };
    let one = format!("{all}/{{name}}");
    let mut paths = vec![
        (all, path(&name[1..], verbs, kind, &[Action::List, Action::Create, Action::DeleteCollection])),
        (
            one.clone(),
            path(&name, verbs, kind, &[Action::Get, Action::Update, Action::Patch, Action::Delete]),
        ),
    ];
    if served.scope == Scope::Namespaced {
        paths.push((format!("{prefix}/{plural}"), path(&[], verbs, kind, &[Action::List])));
    }
    for subresource in served.subresources.iter().filter(|subresource| subresource.has_objects()) {
        let actions = [Action::Get, Action::Create, Action::Update, Action::Patch];
        let path = path(&name, subresource.verbs, &subresource.kind, &actions);
        paths.push((format!("{one}/{}", subresource.name), path));
    }
    paths.retain(|(_, path)| path.as_object().is_some_and(|path| path.keys().any(|key| key != "parameters")));
    paths
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    List,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Get | Self::List => "get",
            Self::Create => "post",
            Self::Update => "put",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }

    /// The action as OpenAPI names it: by the method, except where that would be ambiguous.
    fn name(self) -> &'static str {
        match self {
            Self::List | Self::DeleteCollection => self.verb(),
            _ => self.method(),
        }
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Get => &["pretty"],
            Self::List => {
                &["continue", "fieldSelector", "labelSelector", "limit", "pretty", "resourceVersion", "watch"]
            }
            Self::Create | Self::Update => &["dryRun", "fieldManager", "fieldValidation", "pretty"],
            Self::Patch => &["dryRun", "fieldManager", "fieldValidation", "force", "pretty"],
            Self::Delete => &["dryRun", "gracePeriodSeconds", "pretty", "propagationPolicy"],
            Self::DeleteCollection => &[
                "dryRun",
                "fieldSelector",
                "gracePeriodSeconds",
                "labelSelector",
                "pretty",
                "propagationPolicy",
            ],
        }
    }

    /// Strategic merge patches are taken, but not told of: kubectl would then look for merge keys in the schemas,
    /// which do not have them. Without that it takes them from its own types, which do.
    fn consumes(self) -> &'static [&'static str] {
        match self {
            Self::Create | Self::Update => &["*/*"],
            Self::Patch => &[
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ],
            _ => &[],
        }
    }
}

fn path(parameters: &[&str], verbs: &[&str], kind: &Gvk, actions: &[Action]) -> Value {
    let mut path = Map::new();
    for action in actions.iter().filter(|action| verbs.contains(&action.verb())) {
        path.insert(action.method(), operation(*action, kind));
    }
    let in_path =
        |name: &&str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    if !parameters.is_empty() {
        path.insert("parameters", parameters.iter().map(in_path).collect());
    }
    Value::Object(path)
}

fn operation(action: Action, kind: &Gvk) -> Value {
    let schema = reference(kind, Dialect::V3);
    let in_query =
        |name: &&str| json!({ "name": name, "in": "query", "schema": { "type": parameter_type(name) } });
    let mut operation = json!({
        "parameters": action.parameters().iter().map(in_query).collect::<Vec<_>>(),
        "responses": { "200": { "description": "OK", "content": { "application/json": { "schema": schema } } } },
        "x-kubernetes-action": action.name(),
        "x-kubernetes-group-version-kind": { "group": kind.group, "kind": kind.kind, "version": kind.version },
    });
    let content = |media_type: &&str| ((*media_type).to_owned(), json!({ "schema": schema }));
    let consumes = action.consumes();
    if !consumes.is_empty() {
        let content: Map = consumes.iter().map(content).collect();
        operation["requestBody"] = json!({ "content": content, "required": true });
    }
    operation
}

fn parameter_type(name: &str) -> &'static str {
    match name {
        "limit" | "gracePeriodSeconds" => "integer",
        "watch" | "force" => "boolean",
        _ => "string",
    }
}
