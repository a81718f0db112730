//! How the lists and maps of a kind are merged: one lookup for strategic merge patches and for apply.

use std::sync::LazyLock;

use super::fields::{Element, FieldSet, Scalar};
use super::types;
use crate::json::{Map, Value, json};
use crate::kinds::{Resource, Subresource};

/// What is known of one kind.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(super) api_version: String,
    pub(super) kind: String,
    has_status: bool,
    root: Root,
}

#[derive(Clone, Debug)]
enum Root {
    BuiltIn(&'static Type),
    Custom(Value),
}

impl Shape {
    pub fn built_in(resource: &Resource) -> Self {
        Self::new(resource, Root::BuiltIn(types::of_kind(&resource.group, &resource.kind)))
    }

    /// From the schema (`openAPIV3Schema`) of the version that is served.
    pub fn custom(resource: &Resource, schema: Value) -> Self {
        Self::new(resource, Root::Custom(schema))
    }

    fn new(resource: &Resource, root: Root) -> Self {
        Self {
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            has_status: resource.has(Subresource::Status),
            root,
        }
    }

    pub(super) fn root(&self) -> Node<'_> {
        match &self.root {
            Root::BuiltIn(of) => Node::Object(of),
            Root::Custom(schema) => Node::CustomRoot(schema),
        }
    }

    pub(super) fn is_built_in(&self) -> bool {
        matches!(self.root, Root::BuiltIn(_))
    }

    /// What a write to the object or to a subresource cannot change, and so cannot own.
    pub(super) fn out_of_reach(&self, subresource: Option<&str>) -> FieldSet {
        let names: &[&[&str]] = match (subresource, &self.root, &*self.kind) {
            (None, _, _) if self.has_status => &[&["status"]],
            (Some("status"), Root::Custom(_), _) => &[&["metadata"], &["spec"]],
            (Some("status"), Root::BuiltIn(_), "Deployment") => &[&["spec"], &["metadata", "labels"]],
            (Some("status"), Root::BuiltIn(_), "Pod") => {
                &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
            }
            (Some("status"), _, _) => &[&["spec"]],
            _ => &[],
        };
        FieldSet::of_names(names)
    }
}

/// A type of the API. Only fields that need a word are listed: the others hold scalars, lists that are
/// replaced as a whole, and objects of such fields.
#[derive(Debug)]
pub(super) struct Type {
    /// Changed and owned as a whole.
    pub(super) atomic: bool,
    pub(super) fields: &'static [Field],
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) of: Of,
    pub(super) merge: Merge,
    /// Not optional in the API server's own types.
    pub(super) solid: bool,
}

#[derive(Debug)]
pub(super) enum Of {
    Object(&'static Type),
    /// Free keys, scalar values.
    Map,
    /// Anything.
    Any,
    Set,
    Keyed(&'static [Key], &'static Type),
}

/// A field that identifies an item, and what it is where it is missing.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) default: KeyDefault,
}

#[derive(Debug)]
pub(super) enum KeyDefault {
    Missing,
    Text(&'static str),
    Zero,
}

/// What a strategic merge patch does with a field that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// Objects are merged, lists replaced.
    Usual,
    /// Objects are replaced too.
    Replace,
    /// A list of scalars, without repetition.
    Scalars,
    /// A list of objects, by this key.
    By(&'static str),
}

static NOTHING: Value = Value::Null;
static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({}));

impl Field {
    fn filled(&self) -> &'static Value {
        if matches!(self.of, Of::Object(_)) { &EMPTY } else { &NOTHING }
    }

    fn node(&'static self) -> Node<'static> {
        match self.of {
            Of::Object(of) => Node::Object(of),
            Of::Map => Node::Map,
            Of::Any => Node::Any,
            Of::Set | Of::Keyed(..) => Node::List(self),
        }
    }
}

/// A place in a shape.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    Object(&'static Type),
    Map,
    Any,
    List(&'static Field),
    CustomRoot(&'a Value),
    /// `open` below a schema that keeps unknown fields.
    Schema {
        schema: &'a Value,
        open: bool,
    },
}

pub(super) struct Child<'a> {
    pub(super) node: Node<'a>,
    /// The schema names it; a key of a map is not named.
    pub(super) named: bool,
    /// The schema allows it.
    pub(super) declared: bool,
    pub(super) merge: Merge,
}

impl<'a> Child<'a> {
    fn named(node: Node<'a>) -> Self {
        Self { node, named: true, declared: true, merge: Merge::Usual }
    }

    fn key(node: Node<'a>) -> Self {
        Self { named: false, ..Self::named(node) }
    }
}

/// What the schema wants at a place. Scalars are known of custom resources only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Map,
    List,
    Text,
    Number,
    Boolean,
    Unknown,
}

impl<'a> Node<'a> {
    /// The fields that an object here always has in the API server's own types, and what they hold if nothing is said.
    pub(super) fn solid(self) -> impl Iterator<Item = (&'static str, Option<&'static Value>)> {
        let fields = if let Self::Object(of) = self { of.fields } else { &[] };
        fields.iter().filter(|field| field.solid).map(|field| (field.name, Some(field.filled())))
    }

    /// What is in a field of an object here that says nothing of it, if anything.
    pub(super) fn filled(self, key: &str) -> Option<&'static Value> {
        self.solid().find(|(name, _)| *name == key).and_then(|(_, filled)| filled)
    }

    pub(super) fn child(self, key: &str) -> Child<'a> {
        match self {
            Self::Object(of) => match of.fields.iter().find(|field| field.name == key) {
                Some(field) => Child { merge: field.merge, ..Child::named(field.node()) },
                None => Child::named(Self::Object(&types::PLAIN)),
            },
            Self::Map => Child::key(Self::Object(&types::PLAIN)),
            Self::Any | Self::List(_) => Child::key(Self::Any),
            Self::CustomRoot(schema) => match key {
                "metadata" => Child::named(Self::Object(&types::OBJECT_META)),
                "apiVersion" | "kind" => Child::named(Self::Any),
                _ => Self::Schema { schema, open: false }.child(key),
            },
            Self::Schema { schema, open } => {
                let open = open || schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
                let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
                if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
                    return Child::named(Self::Schema { schema, open });
                }
                match &schema["additionalProperties"] {
                    others @ Value::Object(_) => Child::key(Self::Schema { schema: others, open }),
                    Value::Bool(true) => Child::key(Self::Any),
                    Value::Null if open || properties.is_none() => Child::key(Self::Any),
                    _ => Child { declared: false, ..Child::key(Self::Any) },
                }
            }
        }
    }

    pub(super) fn items(self) -> Node<'a> {
        match self {
            Self::List(Field { of: Of::Keyed(_, of), .. }) => Self::Object(of),
            Self::Schema { schema, open } => match &schema["items"] {
                items @ Value::Object(_) => {
                    let open = open || schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
                    Self::Schema { schema: items, open }
                }
                _ => Self::Object(&types::PLAIN),
            },
            _ => Self::Object(&types::PLAIN),
        }
    }

    /// Whether a map here is one thing.
    pub(super) fn is_atomic_map(self) -> bool {
        match self {
            Self::Object(of) => of.atomic,
            Self::Schema { schema, .. } => schema["x-kubernetes-map-type"] == json!("atomic"),
            _ => false,
        }
    }

    /// Whether a list here is one thing.
    pub(super) fn is_atomic_list(self) -> bool {
        match self {
            Self::List(_) => false,
            Self::Schema { schema, .. } => {
                !matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"))
            }
            _ => true,
        }
    }

    pub(super) fn wanted(self) -> Wanted {
        match self {
            Self::List(_) => Wanted::List,
            Self::Map | Self::CustomRoot(_) => Wanted::Map,
            Self::Object(of) if of.atomic || !of.fields.is_empty() => Wanted::Map,
            Self::Schema { schema, .. } => match schema["type"].as_str() {
                Some("object") => Wanted::Map,
                Some("array") => Wanted::List,
                Some("string") if matches!(schema["format"].as_str(), None | Some("" | "byte")) => {
                    Wanted::Text
                }
                Some("integer" | "number") => Wanted::Number,
                Some("boolean") => Wanted::Boolean,
                _ => Wanted::Unknown,
            },
            Self::Object(_) | Self::Any => Wanted::Unknown,
        }
    }

    /// How an item of a list that is not atomic is found again.
    pub(super) fn element(self, item: &Value) -> Result<Element, String> {
        match self {
            Self::List(Field { of: Of::Keyed(keys, _), .. }) => {
                let keys = keys.iter().map(|key| {
                    let default = match key.default {
                        KeyDefault::Missing => None,
                        KeyDefault::Text(text) => Some(json!(text)),
                        KeyDefault::Zero => Some(json!(0)),
                    };
                    (key.name, default)
                });
                by_keys(item, keys.collect())
            }
            Self::Schema { schema, .. } if schema["x-kubernetes-list-type"] == json!("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array();
                let keys = keys.into_iter().flatten().filter_map(Value::as_str).map(|key| {
                    let default = &schema["items"]["properties"][key]["default"];
                    (key, (!default.is_null()).then(|| default.clone()))
                });
                by_keys(item, keys.collect())
            }
            _ => by_value(item),
        }
    }
}

fn by_keys(item: &Value, keys: Vec<(&str, Option<Value>)>) -> Result<Element, String> {
    let item: &Map = match item {
        Value::Object(item) => item,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let names: Vec<String> = keys.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let found = keys.into_iter().filter_map(|(name, default)| {
        let value = item.get(name).cloned().or(default)?;
        Some((name.to_owned(), Scalar(value)))
    });
    let mut found: Vec<(String, Scalar)> = found.collect();
    if found.is_empty() {
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            names.join(" ")
        ));
    }
    found.sort();
    Ok(Element::Key(found))
}

fn by_value(item: &Value) -> Result<Element, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        _ => Ok(Element::Value(Scalar(item.clone()))),
    }
}
