//! Selecting objects by fields: the few that the API server knows for each kind.

use std::borrow::Cow;

use crate::failure::Failure;
use crate::json::Value;
use crate::kinds::Resource;
use crate::names::quoted;
use crate::table::JsonPath;

/// A query over fields. All of its terms must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    field: Field,
    is_equal: bool,
    value: String,
}

/// How a field is read from an object.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    Name,
    Namespace,
    /// Text at the first of these pointers that has some.
    Text(&'static [&'static str]),
    /// False where it is not there.
    Flag(&'static str),
    /// 0 where it is not there.
    Count(&'static str),
    PodIp,
    /// Known, but always empty.
    Empty,
    Custom(JsonPath),
}

impl FieldSelector {
    /// From a query such as `a=b,c!=d`. `selectable` are the paths of a custom resource's selectable fields.
    pub fn parse(query: &str, resource: &Resource, selectable: &[String]) -> Result<Self, Failure> {
        let mut parts = split_terms(query);
        parts.sort_unstable();
        let mut read = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((label, is_equal, value)) = split_term(part) else {
                let why = format!("invalid selector: '{query}'; can't understand '{part}'");
                return Err(Failure::bad_request(why));
            };
            read.push((label, is_equal, unescaped(value).map_err(Failure::bad_request)?));
        }
        // An empty field that is to have an empty value says nothing.
        read.retain(|(label, _, value)| !label.is_empty() || !value.is_empty());
        let term = |(label, is_equal, value)| {
            let field = field(label, resource, selectable).map_err(Failure::bad_request)?;
            Ok(Term { field, is_equal, value })
        };
        Ok(Self { terms: read.into_iter().map(term).collect::<Result<_, Failure>>()? })
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| (term.field.read(object) == term.value) == term.is_equal)
    }

    /// The only name that can be selected, if there is one.
    pub fn name(&self) -> Option<&str> {
        let mut names = self.terms.iter().filter(|term| term.field == Field::Name && term.is_equal);
        names.next().map(|term| &*term.value)
    }
}

/// The only name that a query can select, whatever is listed: roles that are for names are asked about it.
pub(crate) fn name_selected(query: &str) -> Option<String> {
    let mut terms = split_terms(query).into_iter().filter_map(split_term);
    let (_, _, name) = terms.find(|(label, is_equal, _)| *label == "metadata.name" && *is_equal)?;
    let is_segment = |name: &String| !matches!(&**name, "" | "." | "..") && !name.contains(['/', '%']);
    unescaped(name).ok().filter(is_segment)
}

impl Field {
    fn read<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::Name => text("/metadata/name").into(),
            Self::Namespace => text("/metadata/namespace").into(),
            Self::Text(pointers) => {
                let found = pointers.iter().map(|pointer| text(pointer)).find(|text| !text.is_empty());
                found.unwrap_or_default().into()
            }
            Self::Flag(pointer) => {
                let is_set = object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default();
                if is_set { "true".into() } else { "false".into() }
            }
            Self::Count(pointer) => {
                object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default().to_string().into()
            }
            Self::PodIp => match text("/status/podIPs/0/ip") {
                "" => text("/status/podIP").into(),
                ip => ip.into(),
            },
            Self::Empty => "".into(),
            Self::Custom(path) => match path.find(object).unwrap_or_default().first().copied() {
                None | Some(Value::Null) => "".into(),
                Some(Value::String(text)) => text.as_str().into(),
                Some(other) => other.to_string().into(),
            },
        }
    }
}

/// The field that a label names, or what the API server says of labels that it does not know.
fn field(label: &str, resource: &Resource, selectable: &[String]) -> Result<Field, String> {
    let unknown = || format!("field label not supported: {label}");
    if resource.is_custom {
        return match label {
            "metadata.name" => Ok(Field::Name),
            "metadata.namespace" if resource.is_namespaced() => Ok(Field::Namespace),
            _ => {
                let is_known = selectable.iter().any(|path| path.strip_prefix('.').unwrap_or(path) == label);
                let path = is_known.then(|| JsonPath::parse(&format!(".{label}"))).flatten();
                path.map(Field::Custom).ok_or_else(unknown)
            }
        };
    }
    if label == "metadata.name" {
        return Ok(Field::Name);
    }
    let Some(known) = of_kind(resource) else {
        // Kinds without fields of their own have both, and another message.
        return if label == "metadata.namespace" {
            Ok(Field::Namespace)
        } else {
            let only = "only \"metadata.name\", \"metadata.namespace\"";
            Err(format!("{} is not a known field selector: {only}", quoted(label)))
        };
    };
    if label == "metadata.namespace" && resource.is_namespaced() {
        return Ok(Field::Namespace);
    }
    match known.iter().find(|(name, _)| *name == label) {
        Some((_, field)) => Ok(field.clone()),
        None if resource.kind == "Job" => Err(format!("field label {} not supported for Job", quoted(label))),
        None => Err(unknown()),
    }
}

/// What kinds have besides name and namespace.
fn of_kind(resource: &Resource) -> Option<&'static [(&'static str, Field)]> {
    Some(match (&*resource.group, &*resource.kind) {
        ("", "Pod") => PODS,
        ("", "Node") => &[("spec.unschedulable", Field::Flag("/spec/unschedulable"))],
        ("", "ReplicationController") => &[("status.replicas", Field::Count("/status/replicas"))],
        ("", "Namespace") => &[("status.phase", Field::Text(&["/status/phase"]))],
        ("", "Secret") => &[("type", Field::Text(&["/type"]))],
        ("", "Service") => &[
            ("spec.clusterIP", Field::Text(&["/spec/clusterIP"])),
            ("spec.type", Field::Text(&["/spec/type"])),
        ],
        ("", "Event") => EVENTS,
        ("events.k8s.io", "Event") => NEW_EVENTS,
        ("batch", "Job") => &[("status.successful", Field::Count("/status/succeeded"))],
        _ => return None,
    })
}

const PODS: &[(&str, Field)] = &[
    ("spec.nodeName", Field::Text(&["/spec/nodeName"])),
    ("spec.host", Field::Text(&["/spec/nodeName"])),
    ("spec.restartPolicy", Field::Text(&["/spec/restartPolicy"])),
    ("spec.schedulerName", Field::Text(&["/spec/schedulerName"])),
    ("spec.serviceAccountName", Field::Text(&["/spec/serviceAccountName"])),
    ("spec.hostNetwork", Field::Flag("/spec/hostNetwork")),
    ("status.phase", Field::Text(&["/status/phase"])),
    ("status.podIP", Field::PodIp),
    ("status.podIPs", Field::Empty),
    ("status.nominatedNodeName", Field::Text(&["/status/nominatedNodeName"])),
];

const EVENTS: &[(&str, Field)] = &[
    ("involvedObject.kind", REGARDING_KIND),
    ("involvedObject.namespace", REGARDING_NAMESPACE),
    ("involvedObject.name", REGARDING_NAME),
    ("involvedObject.uid", REGARDING_UID),
    ("involvedObject.apiVersion", REGARDING_API_VERSION),
    ("involvedObject.resourceVersion", REGARDING_RESOURCE_VERSION),
    ("involvedObject.fieldPath", REGARDING_FIELD_PATH),
    ("reason", Field::Text(&["/reason"])),
    ("reportingComponent", REPORTER),
    ("source", Field::Text(&["/source/component", "/reportingComponent"])),
    ("type", Field::Text(&["/type"])),
];

const NEW_EVENTS: &[(&str, Field)] = &[
    ("regarding.kind", REGARDING_KIND),
    ("regarding.namespace", REGARDING_NAMESPACE),
    ("regarding.name", REGARDING_NAME),
    ("regarding.uid", REGARDING_UID),
    ("regarding.apiVersion", REGARDING_API_VERSION),
    ("regarding.resourceVersion", REGARDING_RESOURCE_VERSION),
    ("regarding.fieldPath", REGARDING_FIELD_PATH),
    ("reason", Field::Text(&["/reason"])),
    ("reportingController", REPORTER),
    ("type", Field::Text(&["/type"])),
];

// Whatever they are called where they are asked for, they are kept under the names of the first form.
const REGARDING_KIND: Field = Field::Text(&["/involvedObject/kind"]);
const REGARDING_NAMESPACE: Field = Field::Text(&["/involvedObject/namespace"]);
const REGARDING_NAME: Field = Field::Text(&["/involvedObject/name"]);
const REGARDING_UID: Field = Field::Text(&["/involvedObject/uid"]);
const REGARDING_API_VERSION: Field = Field::Text(&["/involvedObject/apiVersion"]);
const REGARDING_RESOURCE_VERSION: Field = Field::Text(&["/involvedObject/resourceVersion"]);
const REGARDING_FIELD_PATH: Field = Field::Text(&["/involvedObject/fieldPath"]);
const REPORTER: Field = Field::Text(&["/reportingComponent"]);

/// At the commas, except those after a backslash, which stays.
fn split_terms(query: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut is_escaped) = (0, false);
    for (index, letter) in query.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&query[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&query[start..]);
    terms
}

/// At the first operator: the field, whether it is to be equal, and the value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().map(|(index, _)| index).find(|index| {
        let rest = &term[*index..];
        rest.starts_with('=') || rest.starts_with("!=")
    })?;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    Some((field, true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?))
}

fn unescaped(value: &str) -> Result<String, String> {
    let invalid = |sequence: &str| format!("invalid field selector: invalid escape sequence: {sequence}");
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(invalid(&format!("\\{other}"))),
                None => return Err(invalid("\\")),
            },
            // The API server tells the code of the character, not the character.
            ',' | '=' => {
                let code = u32::from(letter);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            _ => plain.push(letter),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::kinds::{Kinds, Scope};

    fn resource(group: &str, plural: &str) -> Resource {
        let kinds = Kinds::built_in();
        if let Some(found) = kinds.find(group, "v1", plural) {
            return (**found).clone();
        }
        let pod = (**kinds.find("", "v1", "pods").unwrap()).clone();
        let scope = if plural == "globals" { Scope::Cluster } else { Scope::Namespaced };
        Resource {
            group: group.into(),
            plural: plural.into(),
            kind: "Widget".into(),
            scope,
            is_custom: true,
            ..pod
        }
    }

    fn selectable() -> Vec<String> {
        vec![".spec.color".to_owned(), "spec.size".to_owned()]
    }

    #[test]
    fn fields_select_objects() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"nodeName": "n", "restartPolicy": "Always", "schedulerName": "s", "serviceAccountName": "x"},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
        });
        let event = json!({
            "metadata": {"name": "a", "namespace": "b"}, "involvedObject": {"kind": "Pod", "name": "p"},
            "reason": "Killing", "reportingComponent": "kubelet", "type": "Normal",
        });
        let widget =
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"color": "a,b=c\\", "size": 5}});
        for (group, plural, object, query, selected) in [
            ("", "pods", &pod, "", true),
            ("", "pods", &pod, ",", true),
            ("", "pods", &pod, "=", true),
            ("", "pods", &pod, "metadata.name=a", true),
            ("", "pods", &pod, "metadata.name==a,metadata.namespace!=c", true),
            ("", "pods", &pod, "metadata.name=a,metadata.namespace!=b", false),
            ("", "pods", &pod, "spec.nodeName=", false),
            ("", "pods", &pod, "spec.nodeName!=", true),
            ("", "pods", &pod, "spec.host=n", true),
            ("", "pods", &pod, "spec.hostNetwork=false,spec.restartPolicy=Always", true),
            ("", "pods", &pod, "spec.schedulerName=s,spec.serviceAccountName=x", true),
            ("", "pods", &pod, "status.phase=Running,status.podIP=10.0.0.1", true),
            ("", "pods", &pod, "status.nominatedNodeName=,status.podIPs=", true),
            ("", "nodes", &json!({"spec": {"unschedulable": true}}), "spec.unschedulable=true", true),
            ("", "nodes", &json!({}), "spec.unschedulable=true", false),
            ("", "events", &event, "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.uid=", true),
            (
                "",
                "events",
                &event,
                "reason=Killing,source=kubelet,reportingComponent=kubelet,type=Normal",
                true,
            ),
            ("events.k8s.io", "events", &event, "regarding.kind=Pod,reportingController=kubelet", true),
            ("", "namespaces", &json!({"status": {"phase": "Active"}}), "status.phase=Active", true),
            ("", "secrets", &json!({"type": "Opaque"}), "type=Opaque", true),
            ("", "services", &json!({"spec": {"type": "ClusterIP"}}), "spec.type!=ClusterIP", false),
            ("", "replicationcontrollers", &json!({}), "status.replicas=0", true),
            ("batch", "jobs", &json!({"status": {"succeeded": 2}}), "status.successful=2", true),
            ("apps", "deployments", &pod, "metadata.namespace=b", true),
            ("storage.k8s.io", "storageclasses", &json!({}), "metadata.namespace=", true),
            ("example.com", "widgets", &widget, "spec.size=5,metadata.namespace=b", true),
            ("example.com", "widgets", &widget, r"spec.color=a\,b\=c\\", true),
            ("example.com", "widgets", &json!({}), "spec.color=", true),
        ] {
            let selector = FieldSelector::parse(query, &resource(group, plural), &selectable()).unwrap();
            assert_eq!(selector.matches(object), selected, "{plural} {query}");
        }
    }

    #[test]
    fn one_name_can_be_told() {
        for (query, name) in [("", None), ("metadata.name=a", Some("a")), ("metadata.name!=a", None)] {
            let selector = FieldSelector::parse(query, &resource("", "pods"), &[]).unwrap();
            assert_eq!((selector.name(), selector.is_empty()), (name, query.is_empty()));
        }
    }

    #[test]
    fn wrong_queries_are_refused() {
        for (group, plural, query, why) in [
            ("", "pods", "a", "invalid selector: 'a'; can't understand 'a'"),
            ("", "pods", "z=1,a", "invalid selector: 'z=1,a'; can't understand 'a'"),
            ("", "pods", r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            ("", "pods", r"a=\", r"invalid field selector: invalid escape sequence: \"),
            ("", "pods", "a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("", "pods", "=a", "field label not supported: "),
            ("", "pods", "spec.x=1", "field label not supported: spec.x"),
            ("", "pods", "z=1,a=1", "field label not supported: a"),
            ("", "nodes", "metadata.namespace=a", "field label not supported: metadata.namespace"),
            ("", "events", "regarding.kind=Pod", "field label not supported: regarding.kind"),
            ("batch", "jobs", "x=1", "field label \"x\" not supported for Job"),
            (
                "apps",
                "deployments",
                "x=1",
                "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            ("example.com", "widgets", "spec.other=1", "field label not supported: spec.other"),
            (
                "example.com",
                "globals",
                "metadata.namespace=",
                "field label not supported: metadata.namespace",
            ),
        ] {
            let failure = FieldSelector::parse(query, &resource(group, plural), &selectable()).unwrap_err();
            assert_eq!((failure.code(), &*failure.message), (400, why), "{plural} {query}");
        }
    }
}
