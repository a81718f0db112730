//! Sets of fields: what a manager owns, and what a write changed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::shape::Node;
use crate::json::{Map, Value};

/// One step of a path. The order is the API server's: names, then keys, then values, then indices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    Field(String),
    /// An item of a list by the fields that identify it, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// An item of a set.
    Value(Scalar),
    Index(i64),
}

impl Element {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// As in `fieldsV1`: `f:spec`, `k:{"name":"web"}`, `v:"a"`.
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Map =
                    fields.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", to_go_json(&Value::Object(fields)))
            }
            Self::Value(value) => format!("v:{}", to_go_json(&value.0)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn decode(text: &str) -> Decoded {
        let Some((kind, rest)) = text.split_at_checked(2) else { return Decoded::Malformed };
        let element = match kind {
            "f:" => Some(Self::field(rest)),
            "v:" => serde_json::from_str(rest).ok().map(|value| Self::Value(Scalar(value))),
            "k:" => serde_json::from_str::<BTreeMap<String, Value>>(rest).ok().map(|fields| {
                Self::Key(fields.into_iter().map(|(name, value)| (name, Scalar(value))).collect())
            }),
            "i:" => rest.parse().ok().map(Self::Index),
            // A newer server may know what it means: it is dropped, as the API server drops it.
            unknown if unknown.ends_with(':') => return Decoded::Unknown,
            _ => None,
        };
        element.map_or(Decoded::Malformed, Decoded::Element)
    }
}

enum Decoded {
    Element(Element),
    Unknown,
    Malformed,
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

pub(super) fn path_text(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// JSON as Go writes it: safe to put into HTML.
pub(super) fn to_go_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A value with an order: numbers by size, then texts, booleans, all else.
#[derive(Clone, Debug)]
pub(super) struct Scalar(pub(super) Value);

impl Scalar {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (a, b) => self.rank().cmp(&other.rank()).then_with(|| a.to_string().cmp(&b.to_string())),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar {}

/// Numbers that differ only in how they are written are equal.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (Value::Number(_), Value::Number(_)) => Scalar(a.clone()) == Scalar(b.clone()),
        _ => a == b,
    }
}

/// What becomes of the fields below one that is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Stays,
    Goes,
}

/// A tree of fields. A field can be a member, have members below it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    members: BTreeSet<Element>,
    /// Without empty sets.
    children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    pub(super) fn of_names(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// The whole object (the empty path) is never a member.
    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(super) fn has_path(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|set| set.has_path(rest)),
        }
    }

    pub(super) fn below(&self, element: &Element) -> Option<&FieldSet> {
        self.children.get(element)
    }

    pub(super) fn union(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    fn add(&mut self, other: Self) {
        self.members.extend(other.members);
        for (element, set) in other.children {
            match self.children.get_mut(&element) {
                Some(own) => own.add(set),
                None => drop(self.children.insert(element, set)),
            }
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, set)| {
            let both = set.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Members of one that are not members of the other; what is below a member of the other stays.
    pub(super) fn difference(mut self, other: &Self) -> Self {
        self.lose(other);
        self
    }

    pub(super) fn lose(&mut self, other: &Self) {
        self.subtract(other, Below::Stays);
    }

    /// Without the other's members and all that is below them.
    pub(super) fn without(mut self, other: &Self) -> Self {
        self.subtract(other, Below::Goes);
        self
    }

    fn subtract(&mut self, other: &Self, below: Below) {
        for member in &other.members {
            self.members.remove(member);
            if below == Below::Goes {
                self.children.remove(member);
            }
        }
        for (element, taken) in &other.children {
            if let Some(set) = self.children.get_mut(element) {
                set.subtract(taken, below);
                if set.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// Fields that have members below them become members too, if the schema names them.
    pub(super) fn with_named_parents(&self, node: Node<'_>) -> Self {
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (element, set) in &self.children {
            let below = match element {
                Element::Field(name) => {
                    let child = node.child(name);
                    if child.named {
                        members.insert(element.clone());
                    }
                    child.node
                }
                _ => node.items(),
            };
            children.insert(element.clone(), set.with_named_parents(below));
        }
        Self { members, children }
    }

    /// Members before what is below them, each in order.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let mut out: Vec<Vec<Element>> = self.members.iter().map(|element| vec![element.clone()]).collect();
        for (element, set) in &self.children {
            out.extend(set.paths().into_iter().map(|rest| {
                let mut path = vec![element.clone()];
                path.extend(rest);
                path
            }));
        }
        out
    }

    /// The `fieldsV1` of an entry of managedFields.
    pub(super) fn to_value(&self) -> Value {
        let mut out = Map::new();
        for element in &self.members {
            out.insert(element.encode(), Value::Object(Map::new()));
        }
        for (element, set) in &self.children {
            let mut below = set.to_value();
            if let (true, Value::Object(below)) = (self.has(element), &mut below) {
                below.insert(".", Value::Object(Map::new()));
            }
            out.insert(element.encode(), below);
        }
        Value::Object(out)
    }

    /// None where a key is not of `fieldsV1`.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, below) in value.as_object()? {
            if key == "." {
                continue;
            }
            let element = match Element::decode(key) {
                Decoded::Element(element) => element,
                Decoded::Unknown => continue,
                Decoded::Malformed => return None,
            };
            let children = Self::from_value(below)?;
            if below.get(".").is_some() || children.is_empty() {
                set.members.insert(element.clone());
            }
            if !children.is_empty() {
                set.children.insert(element, children);
            }
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn set(value: &Value) -> FieldSet {
        FieldSet::from_value(value).expect("fieldsV1")
    }

    #[test]
    fn fields_v1_read_and_written() {
        for value in [
            json!({}),
            json!({ "f:spec": { "f:replicas": {} } }),
            json!({ "f:labels": { ".": {}, "f:a/b": {} } }),
            json!({ "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:name": {} } } }),
            json!({ "f:finalizers": { ".": {}, "v:\"x\"": {}, "v:1": {} } }),
            json!({ "f:env": { "k:{\"name\":\"a\\u0026b\"}": {} } }),
        ] {
            assert_eq!(set(&value).to_value(), value);
        }
        for value in
            [json!(1), json!({ "x": {} }), json!({ "f:a": 1 }), json!({ "k:[]": {} }), json!({ "fa": {} })]
        {
            assert_eq!(FieldSet::from_value(&value), None, "{value}");
        }
        assert_eq!(set(&json!({ "z:a": {}, "f:b": {} })).to_value(), json!({ "f:b": {} }));
    }

    #[test]
    fn algebra() {
        let a = set(&json!({ "f:a": { ".": {}, "f:b": {}, "f:c": {} }, "f:d": {} }));
        let b = set(&json!({ "f:a": { "f:b": {} }, "f:d": {} }));
        let row = |set: FieldSet| set.to_value();
        assert_eq!(row(a.clone().union(b.clone())), row(a.clone()));
        assert_eq!(row(a.intersection(&b)), json!({ "f:a": { "f:b": {} }, "f:d": {} }));
        assert_eq!(row(a.clone().difference(&b)), json!({ "f:a": { ".": {}, "f:c": {} } }));
        assert_eq!(
            row(b.clone().difference(&set(&json!({ "f:a": {} })))),
            json!({ "f:a": { "f:b": {} }, "f:d": {} })
        );
        assert_eq!(row(b.without(&set(&json!({ "f:a": {} })))), json!({ "f:d": {} }));
    }

    #[test]
    fn paths_as_text() {
        let set = set(&json!({
            "f:b": {}, "f:a": { "f:x": {} },
            "f:list": { "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:name": {} }, "v:\"q\"": {} },
        }));
        let paths: Vec<String> = set.paths().iter().map(|path| path_text(path)).collect();
        assert_eq!(
            paths,
            [
                ".b",
                ".a.x",
                ".list[port=80,protocol=\"TCP\"]",
                ".list[=\"q\"]",
                ".list[port=80,protocol=\"TCP\"].name",
            ]
        );
    }
}
