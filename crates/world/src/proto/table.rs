//! The messages of Kubernetes' own kinds, as `messages.txt` tells them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(&[MESSAGES, PATCHES].concat()));

const MESSAGES: &str = include_str!("messages.txt");

/// What the server reads JSON patches as: it is never on the wire, so Kubernetes has no message for it.
const PATCHES: &str =
    "message patch.handlers.jsonPatchOp\n0 op string\n0 path string\n0 from string\n0 value JSON\n";

#[derive(Debug)]
pub(crate) struct Table {
    /// By `apiVersion` and `kind`.
    kinds: BTreeMap<(String, String), usize>,
    names: BTreeMap<String, usize>,
    messages: Vec<Message>,
}

#[derive(Debug)]
pub(crate) struct Message {
    /// `core.v1.Pod`.
    name: String,
    pub(crate) fields: Vec<Field>,
    /// Where the fields are, by name.
    by_name: BTreeMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct Field {
    /// On the wire; zero for what is not there.
    pub(crate) number: u32,
    pub(crate) name: String,
    /// In JSON, its fields are those of the message around it.
    pub(crate) is_inline: bool,
    pub(crate) omits_empty: bool,
    pub(crate) omits_zero: bool,
    pub(crate) type_: Type,
}

/// What a value is, as Go's types say it.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Pointer(Box<Type>),
    List(Box<Type>),
    Map {
        /// As Go prints it.
        key: String,
        of: Box<Type>,
    },
    /// A type with a name of its own; `is_message` where a list is wrapped into one on the wire.
    Named {
        name: String,
        of: Box<Type>,
        is_message: bool,
    },
    Message(usize),
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// Any JSON, which is on the wire as its text.
    Raw(&'static str),
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStringArray,
}

impl Table {
    fn parse(text: &str) -> Self {
        let mut table = Self { kinds: BTreeMap::new(), names: BTreeMap::new(), messages: Vec::new() };
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("message ") {
                table.names.insert(name.to_owned(), table.messages.len());
                table.messages.push(Message {
                    name: name.to_owned(),
                    fields: Vec::new(),
                    by_name: BTreeMap::new(),
                });
            }
        }
        let mut message = None;
        for line in text.lines() {
            match line.split(' ').collect::<Vec<&str>>()[..] {
                ["kind", api_version, kind, name] => {
                    if let Some(index) = table.names.get(name) {
                        table.kinds.insert((api_version.to_owned(), kind.to_owned()), *index);
                    }
                }
                ["message", name] => message = table.names.get(name).copied(),
                [number, name, type_] => {
                    let type_ = table.type_of(type_);
                    let field = type_.and_then(|type_| Field::parse(number, name, type_));
                    if let (Some(index), Some(field)) = (message, field)
                        && let Some(message) = table.messages.get_mut(index)
                    {
                        message.by_name.insert(field.name.clone(), message.fields.len());
                        message.fields.push(field);
                    }
                }
                _ => {}
            }
        }
        table
    }

    fn type_of(&self, text: &str) -> Option<Type> {
        let boxed = |text: &str| self.type_of(text).map(Box::new);
        if let Some(of) = text.strip_prefix('*') {
            return Some(Type::Pointer(boxed(of)?));
        }
        if let Some(of) = text.strip_prefix("[]") {
            return Some(Type::List(boxed(of)?));
        }
        if let Some((key, of)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            let key = if key.is_empty() { "string" } else { key };
            return Some(Type::Map { key: key.to_owned(), of: boxed(of)? });
        }
        if let Some((name, of)) = text.split_once(['=', '~']) {
            let is_message = text.contains('~');
            return Some(Type::Named { name: name.to_owned(), of: boxed(of)?, is_message });
        }
        Some(match text {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "float64" => Type::Float64,
            "bytes" => Type::Bytes,
            "Quantity" => Type::Quantity,
            "IntOrString" => Type::IntOrString,
            "Time" => Type::Time,
            "MicroTime" => Type::MicroTime,
            "RawExtension" => Type::Raw("runtime.RawExtension"),
            "FieldsV1" => Type::Raw("v1.FieldsV1"),
            "JSON" => Type::Raw("v1.JSON"),
            "SchemaOrArray" => Type::SchemaOrArray,
            "SchemaOrBool" => Type::SchemaOrBool,
            "SchemaOrStringArray" => Type::SchemaOrStringArray,
            name => Type::Message(*self.names.get(name)?),
        })
    }

    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        self.messages.get(*self.kinds.get(&(api_version.to_owned(), kind.to_owned()))?)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Message> {
        self.messages.get(*self.names.get(name)?)
    }

    pub(crate) fn message(&self, index: usize) -> Option<&Message> {
        self.messages.get(index)
    }

    /// A type as Go prints it.
    pub(crate) fn go_text(&self, type_: &Type) -> String {
        match type_ {
            Type::Pointer(of) => format!("*{}", self.go_text(of)),
            Type::List(of) => format!("[]{}", self.go_text(of)),
            Type::Map { key, of } => format!("map[{key}]{}", self.go_text(of)),
            Type::Named { name, .. } => name.clone(),
            Type::Message(index) => self.message(*index).map(Message::go_text).unwrap_or_default(),
            Type::String => "string".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int32 => "int32".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::Float64 => "float64".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Quantity => "resource.Quantity".to_owned(),
            Type::IntOrString => "intstr.IntOrString".to_owned(),
            Type::Time => "v1.Time".to_owned(),
            Type::MicroTime => "v1.MicroTime".to_owned(),
            Type::Raw(name) => (*name).to_owned(),
            Type::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
            Type::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            Type::SchemaOrStringArray => "v1.JSONSchemaPropsOrStringArray".to_owned(),
        }
    }
}

impl Message {
    /// `Pod`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// `v1.Pod`.
    pub(crate) fn go_text(&self) -> String {
        self.name.split_once('.').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    }

    /// The field that JSON has under a name, with the fields in line that lead to it.
    pub(crate) fn find<'a>(&'a self, table: &'a Table, name: &str) -> Option<(Vec<&'a str>, &'a Field)> {
        if let Some(field) = self.by_name.get(name).and_then(|index| self.fields.get(*index))
            && !field.is_inline
        {
            return Some((Vec::new(), field));
        }
        self.fields.iter().filter(|field| field.is_inline).find_map(|field| {
            let (mut way, found) = field.type_.message(table)?.find(table, name)?;
            way.insert(0, &field.name);
            Some((way, found))
        })
    }

    pub(crate) fn numbered(&self, number: u32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number && number != 0)
    }
}

impl Field {
    fn parse(number: &str, name: &str, type_: Type) -> Option<Self> {
        let bare = name.trim_start_matches('+').trim_end_matches(['?', '!']);
        Some(Self {
            number: number.parse().ok()?,
            name: bare.to_owned(),
            is_inline: name.starts_with('+'),
            omits_empty: name.contains('?'),
            omits_zero: name.contains('!'),
            type_,
        })
    }
}

impl Type {
    pub(crate) fn message<'a>(&self, table: &'a Table) -> Option<&'a Message> {
        match self {
            Self::Message(index) => table.message(*index),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn every_line_is_understood() {
        let lines = MESSAGES.lines().filter(|line| line.split(' ').count() == 3 && !line.starts_with('#'));
        let fields: usize = TABLE.messages.iter().map(|message| message.fields.len()).sum();
        assert_eq!(fields, lines.count() + PATCHES.lines().count() - 1);
        assert_eq!(TABLE.kinds.len(), MESSAGES.lines().filter(|line| line.starts_with("kind ")).count());
    }

    #[test]
    fn every_kind_that_is_served_has_a_message() {
        let mut served: Vec<(String, String)> =
            Kinds::built_in().all().map(|resource| (resource.api_version(), resource.kind.clone())).collect();
        let parts = [("v1", "Binding"), ("policy/v1", "Eviction"), ("autoscaling/v1", "Scale")];
        served.extend(parts.map(|(version, kind)| (version.to_owned(), kind.to_owned())));
        for (api_version, kind) in served {
            assert!(TABLE.of_kind(&api_version, &kind).is_some(), "{api_version} {kind}");
        }
    }
}
