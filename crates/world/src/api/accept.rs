//! In which form a client wants its answers: the first that it names in `Accept` and that there is.

use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::object;
use crate::request::Verb;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Objects,
    Table,
    /// Of objects no more than their metadata, in this version.
    Metadata {
        of_list: bool,
        version: &'static str,
    },
}

/// There are others in Kubernetes: its own form of messages, and YAML.
const ACCEPTED: &str = "application/json";

impl Form {
    pub(super) fn of(accept: &str) -> Result<Self, Failure> {
        if accept.trim().is_empty() {
            return Ok(Self::Objects);
        }
        let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
        // Those that are as welcome stay in their order.
        clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
        clauses.iter().find_map(Clause::form).ok_or_else(|| {
            // Those are two who refuse: one knows what is written how, the other what becomes of objects.
            if clauses.iter().any(Clause::is_json) {
                not_acceptable(&format!("only the following media types are accepted: {ACCEPTED}"))
            } else {
                let message = format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}");
                Failure::unhandled(Reason::NotAcceptable, &message)
            }
        })
    }

    /// An answer to a request, in this form. Tables are made where the objects are.
    pub(super) fn put(self, resource: &Resource, verb: Verb, answer: Value) -> Result<Value, Failure> {
        let Self::Metadata { of_list, version } = self else { return Ok(answer) };
        let kind = object::text(&answer, &["kind"]);
        if kind == "Status" {
            return Ok(answer);
        }
        let is_list = matches!(verb, Verb::List | Verb::DeleteCollection);
        if is_list != of_list {
            let (asked, is) = if of_list {
                ("PartialObjectMetadataList", "not a list")
            } else {
                ("PartialObjectMetadata", "a list")
            };
            return Err(not_acceptable(&format!(
                "you requested {asked}, but the requested object is {is} ({})",
                in_go(resource, kind)
            )));
        }
        Ok(if is_list {
            let items = answer["items"].as_array().into_iter().flatten();
            let said =
                answer["metadata"].as_object().into_iter().flatten().filter(|(_, value)| **value != "");
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": group_version(version),
                "metadata": said.map(|(name, value)| (name, value.clone())).collect::<Value>(),
                "items": items.map(|item| metadata(item, version)).collect::<Vec<_>>(),
            })
        } else {
            metadata(&answer, version)
        })
    }

    /// An object that a watch tells of, in this form.
    pub(super) fn put_event(self, object: Value) -> Value {
        match self {
            Self::Metadata { version, .. } => metadata(&object, version),
            Self::Objects | Self::Table => object,
        }
    }
}

pub(super) fn wants_table(accept: &str) -> bool {
    Form::of(accept) == Ok(Form::Table)
}

/// The type that a kind has in the server.
fn in_go(resource: &Resource, kind: &str) -> String {
    if resource.is_custom {
        let list = if kind.ends_with("List") { "List" } else { "" };
        return format!("*unstructured.Unstructured{list}");
    }
    let group = resource.group.split('.').next().filter(|group| !group.is_empty());
    format!("*{}.{kind}", group.unwrap_or("core"))
}

fn not_acceptable(why: &str) -> Failure {
    Failure::new(Reason::NotAcceptable, why)
}

fn group_version(version: &str) -> String {
    format!("meta.k8s.io/{version}")
}

fn metadata(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": group_version(version), "metadata": object["metadata"],
    })
}

/// One of the forms that a client names.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// How welcome it is, up to 1.
    quality: f64,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let quality =
            parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, value)| value.parse().ok());
        Self { media_type, parameters, quality: quality.unwrap_or(1.0) }
    }

    fn is_json(&self) -> bool {
        ["application/json", "application/*", "*/*"].contains(&self.media_type)
    }

    fn form(&self) -> Option<Form> {
        let named = |name: &str| self.parameters.iter().find(|(of, _)| *of == name).map(|(_, value)| *value);
        if !self.is_json() || named("stream").is_some_and(|stream| stream != "watch") {
            return None;
        }
        let version = match (named("g"), named("v")) {
            (Some("meta.k8s.io"), Some("v1")) => Some("v1"),
            (Some("meta.k8s.io"), Some("v1beta1")) => Some("v1beta1"),
            (None, None) if named("as").is_none() => return Some(Form::Objects),
            _ => None,
        };
        match (named("as")?, version?) {
            ("Table", "v1") => Some(Form::Table),
            ("PartialObjectMetadata", version) => Some(Form::Metadata { of_list: false, version }),
            ("PartialObjectMetadataList", version) => Some(Form::Metadata { of_list: true, version }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures::StreamExt;

    use super::super::ask::{answer, ask, world};
    use super::*;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

    #[test]
    fn the_first_form_that_there_is_counts() {
        let metadata = |of_list| Ok(Form::Metadata { of_list, version: "v1" });
        let old = Ok(Form::Metadata { of_list: false, version: "v1beta1" });
        let refused = Err(406);
        for (accept, expected) in [
            ("", Ok(Form::Objects)),
            ("application/json", Ok(Form::Objects)),
            ("application/*", Ok(Form::Objects)),
            ("text/html, */*;q=0.8", Ok(Form::Objects)),
            ("application/vnd.kubernetes.protobuf, */*", Ok(Form::Objects)),
            ("application/json;stream=watch", Ok(Form::Objects)),
            (TABLE, Ok(Form::Table)),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Ok(Form::Objects)),
            ("application/json, application/json;as=Table;v=v1;g=meta.k8s.io", Ok(Form::Objects)),
            ("application/json;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io", Ok(Form::Table)),
            (METADATA, metadata(false)),
            (METADATA_LIST, metadata(true)),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1", old),
            ("application/vnd.kubernetes.protobuf", refused),
            ("text/html", refused),
            ("application/json;as=Table;v=v1;g=example.com", refused),
            ("application/json;as=Picture;v=v1;g=meta.k8s.io", refused),
            ("application/json;as=Table", refused),
            ("application/json;stream=radio", refused),
            (";;,=,", refused),
        ] {
            assert_eq!(Form::of(accept).map_err(|failure| failure.code()), expected, "{accept}");
        }
    }

    async fn read(path: &str, method: &str, accept: &str, body: Value) -> (u16, Value) {
        let world = world();
        let map = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
        ask(&world, "POST", MAPS, map).await;
        let told = answer(&world, method, path, &[("accept", accept)], &body).await;
        let code = told.status().as_u16();
        let bytes = to_bytes(told.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    #[tokio::test]
    async fn objects_are_told_in_the_form_that_is_asked_for() {
        let one = format!("{MAPS}/a");
        let label = json!({"metadata": {"labels": {"x": "z"}}});
        let (not_list, list) = (
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        );
        for (path, method, accept, body, code, kind, message) in [
            (&*one, "GET", METADATA, Value::Null, 200, "PartialObjectMetadata", ""),
            (&*one, "PATCH", METADATA, label, 200, "PartialObjectMetadata", ""),
            (&*one, "DELETE", METADATA, Value::Null, 200, "Status", ""),
            (MAPS, "GET", METADATA_LIST, Value::Null, 200, "PartialObjectMetadataList", ""),
            (&*one, "GET", METADATA_LIST, Value::Null, 406, "Status", not_list),
            (MAPS, "GET", METADATA, Value::Null, 406, "Status", list),
            (
                &*one,
                "GET",
                "text/html",
                Value::Null,
                406,
                "Status",
                "406: Not Acceptable\n\nAvailable representations: application/json",
            ),
            (&*one, "GET", TABLE, Value::Null, 200, "Table", ""),
        ] {
            let (status, told) = read(path, method, accept, body).await;
            let words =
                [&told["kind"], &told["message"]].map(|word| word.as_str().unwrap_or_default().to_owned());
            assert_eq!((status, &*words[0], &*words[1]), (code, kind, message), "{method} {path} {accept}");
            let told = if path == MAPS { told["items"][0].clone() } else { told };
            if kind.starts_with("Partial") {
                assert_eq!((&told["apiVersion"], &told["data"]), (&json!("meta.k8s.io/v1"), &Value::Null));
                assert_eq!(
                    (&told["kind"], &told["metadata"]["name"]),
                    (&json!("PartialObjectMetadata"), &json!("a"))
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watches_tell_what_is_asked_for_and_columns_once() {
        for (accept, expected) in [
            (TABLE, &["Table 3 a", "Table 0 b", "BOOKMARK"][..]),
            (METADATA, &["PartialObjectMetadata 0 a", "PartialObjectMetadata 0 b", "BOOKMARK"]),
            ("application/json", &["ConfigMap 0 a", "ConfigMap 0 b", "BOOKMARK"]),
        ] {
            let world = world();
            let map = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}});
            let path = format!("{MAPS}?watch=true&resourceVersion={}&timeoutSeconds=9", world.revision());
            let path = format!("{path}&allowWatchBookmarks=true");
            let watch = answer(&world, "GET", &path, &[("accept", accept)], &Value::Null).await;
            for name in ["a", "b"] {
                assert_eq!(ask(&world, "POST", MAPS, map(name)).await.0, 201);
            }
            let mut lines = watch.into_body().into_data_stream();
            let mut told = Vec::new();
            while let Some(line) = lines.next().await {
                let event: Value = serde_json::from_slice(&line.unwrap()).unwrap();
                let object = &event["object"];
                if event["type"] == "BOOKMARK" {
                    let is_metadata = object["kind"] == "PartialObjectMetadata";
                    assert_eq!(is_metadata, accept == METADATA);
                    told.push("BOOKMARK".to_owned());
                    continue;
                }
                let columns = object["columnDefinitions"].as_array().map_or(0, Vec::len);
                let of_row = &object["rows"][0]["object"];
                let about = if of_row.is_null() { object } else { of_row };
                let word = |of: &Value| of.as_str().unwrap_or_default().to_owned();
                told.push(format!(
                    "{} {columns} {}",
                    word(&object["kind"]),
                    word(&about["metadata"]["name"])
                ));
                assert_eq!(about["data"].is_null(), accept != "application/json");
            }
            assert_eq!(told, expected, "{accept}");
        }
    }
}
