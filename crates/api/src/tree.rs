//! A YAML document as a tree that remembers its lines.
//!
//! Every typed object can be read from it, and what goes wrong then carries the field's path and
//! line. Values that are `null` count as absent, as they do for Kubernetes.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_saphyr::Spanned;

use crate::problem::{Path, Step};

#[derive(Debug)]
pub(crate) struct Tree<'a> {
    /// Counted from one, within the text the tree was read from.
    line: usize,
    value: Value<'a>,
}

#[derive(Debug)]
enum Value<'a> {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Tree<'a>>),
    Map(Vec<Entry<'a>>),
}

#[derive(Debug)]
struct Entry<'a> {
    key: Cow<'a, str>,
    /// The key's own line: the value of a block mapping begins on the next.
    line: usize,
    value: Tree<'a>,
}

/// Why a text is not YAML, or not YAML that is safe to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

/// A YAML document is held as a whole while it is read; a larger one belongs into JSON, which is not.
pub(crate) const YAML_BYTES_MAX: usize = 64 << 20;

/// How much aliases may add: plenty for people who share a few settings, too little for a bomb.
const ALIAS_EVENTS_MAX: usize = 200_000;

/// Deeper than any Kubernetes object, shallow enough for every stack.
const DEPTH_MAX: usize = 64;

impl<'a> Tree<'a> {
    /// Reads one document. Aliases and merges are resolved, within bounds; numbers and booleans are
    /// those of YAML 1.1, as kubectl reads them.
    pub(crate) fn parse(text: &'a str) -> Result<Self, YamlError> {
        if text.len() > YAML_BYTES_MAX {
            let message = format!(
                "a YAML document of {} MiB is too large (at most {}); give it as JSON (`kubectl get -o json`), \
                 which is read item by item",
                text.len() >> 20,
                YAML_BYTES_MAX >> 20
            );
            return Err(YamlError { line: None, message });
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: DEPTH_MAX,
                max_documents: 1,
                // A cluster's snapshot has some ten nodes per line; the text's size already bounds them.
                max_nodes: 16_000_000,
                max_events: 48_000_000,
                max_total_scalar_bytes: YAML_BYTES_MAX,
                max_recorded_anchor_events: ALIAS_EVENTS_MAX,
            },
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIAS_EVENTS_MAX },
            legacy_octal_numbers: true,
            with_snippet: false,
            emit_comments: false,
        };
        let root: Spanned<Value<'a>> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| yaml_error(&error, text))?;
        Ok(Self::of(root))
    }

    fn of(spanned: Spanned<Value<'a>>) -> Self {
        Self { line: usize::try_from(spanned.referenced.line()).unwrap_or(1).max(1), value: spanned.value }
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Tree<'a>]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Tree<'a>> {
        self.entry(key).map(|entry| &entry.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The line of the field at `path`, or of the innermost of its parents that is there.
    pub(crate) fn line_of(&self, path: &Path) -> usize {
        let mut tree = self;
        let mut line = self.line;
        for step in &path.0 {
            let next = match step {
                Step::Key(key) => tree.entry(key).map(|entry| (entry.line, &entry.value)),
                Step::Index(index) => tree.list().and_then(|items| items.get(*index)).map(|t| (t.line, t)),
            };
            let Some((next_line, next_tree)) = next else { break };
            (line, tree) = (next_line, next_tree);
        }
        line
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Signed(value) => Unexpected::Signed(*value),
            Value::Unsigned(value) => Unexpected::Unsigned(*value),
            Value::Float(value) => Unexpected::Float(*value),
            Value::Text(text) => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        }
    }
}

fn yaml_error(error: &serde_saphyr::Error, text: &str) -> YamlError {
    let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
    let message = describe(error.without_snippet());
    if !message.contains("tab") {
        return YamlError { line, message };
    }
    let leads_with_tab = |line: &str| line.trim_start_matches(' ').starts_with('\t');
    let from = line.map_or(0, |line| line.saturating_sub(1));
    let tabbed = text.lines().skip(from).position(leads_with_tab).map(|i| from + i + 1);
    YamlError { line: tabbed.or(line), message: "a tab is not allowed here; indent with spaces".to_owned() }
}

fn describe(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    use serde_saphyr::budget::BudgetBreach;
    match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget {
            breach:
                BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } | BudgetBreach::ScalarBytes { .. },
            ..
        } => "holds too many values; split the document, or give it as JSON".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "aliases make this document too large; write the values out instead".to_owned()
        }
        Error::AliasError { error, .. } => describe(error),
        Error::DuplicateMappingKey { key, .. } => {
            format!("the key `{}` is there twice; remove one", key.as_deref().unwrap_or("?"))
        }
        _ => {
            let text = error.to_string();
            // The problem carries the position already.
            let message = text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            if message == "recursion limit exceeded" {
                too_deep()
            } else {
                format!("not valid YAML: {message}")
            }
        }
    }
}

fn too_deep() -> String {
    format!("nested more than {DEPTH_MAX} levels deep; no Kubernetes object is")
}

struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = Value<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            fn visit_unit<E>(self) -> Result<Value<'de>, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
                Ok(Value::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
                Ok(Value::Signed(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
                Ok(i64::try_from(value).map_or(Value::Unsigned(value), Value::Signed))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
                Ok(Value::Float(value))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
                Ok(Value::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
                Ok(Value::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    items.push(Tree::of(item));
                }
                Ok(Value::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = access.next_key::<Spanned<Key<'de>>>()? {
                    let line = usize::try_from(key.referenced.line()).unwrap_or(1).max(1);
                    entries.push(Entry { key: key.value.0, line, value: Tree::of(access.next_value()?) });
                }
                Ok(Value::Map(entries))
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Why an object is not what its kind says, with the way to the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShapeError {
    /// From the field up to the root: each level appends itself while the error passes through.
    steps: Vec<Step>,
    message: String,
}

impl ShapeError {
    pub(crate) fn into_path_and_message(mut self) -> (Path, String) {
        self.steps.reverse();
        (Path(self.steps), self.message)
    }

    fn inside(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ShapeError {}

impl de::Error for ShapeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { steps: Vec::new(), message: message.to_string() }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { steps: vec![Step::Key(field.to_owned())], message: "is missing".to_owned() }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        // YAML reads `yes`, `1.10` and their like as what they look like.
        let quoted = match unexpected {
            Unexpected::Bool(_) | Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_)
                if expected.to_string() == "a string" =>
            {
                "; put it in quotes"
            }
            _ => "",
        };
        Self::custom(format_args!("is {unexpected}, but must be {expected}{quoted}"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("`{variant}` is not known; it is one of {}", expected.join(", ")))
    }
}

impl<'de> Deserializer<'de> for &'de Tree<'_> {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Value::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), current: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match &self.value {
            Value::Text(text) => {
                let variant: StrDeserializer<'_, ShapeError> = (&**text).into_deserializer();
                visitor.visit_enum(variant)
            }
            Value::Map(entries) => visitor
                .visit_enum(MapAccessDeserializer::new(Entries { entries: entries.iter(), current: None })),
            _ => Err(de::Error::invalid_type(self.unexpected(), &"one of several words")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct Items<'de, 'a> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Tree<'a>>>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = ShapeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ShapeError> {
        let Some((index, item)) = self.items.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| error.inside(Step::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'de, 'a> {
    entries: std::slice::Iter<'de, Entry<'a>>,
    current: Option<&'de Entry<'a>>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = ShapeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ShapeError> {
        self.current = self.entries.find(|entry| !entry.value.is_null());
        let Some(entry) = self.current else { return Ok(None) };
        let key: de::value::BorrowedStrDeserializer<'de, ShapeError> =
            de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ShapeError> {
        let Some(entry) = self.current else { return Err(de::Error::custom("a value without its key")) };
        seed.deserialize(&entry.value).map_err(|error| error.inside(Step::Key(entry.key.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use super::*;

    fn error_of<T: serde::de::DeserializeOwned + fmt::Debug>(text: &str) -> (usize, String) {
        let tree = Tree::parse(text).unwrap();
        let (path, message) = T::deserialize(&tree).unwrap_err().into_path_and_message();
        (tree.line_of(&path), format!("{path}: {message}"))
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        #[expect(dead_code, reason = "only its shape is tested")]
        spec: BTreeMap<String, Vec<u32>>,
        #[serde(default)]
        note: Option<String>,
        #[serde(default)]
        flags: Vec<bool>,
    }

    #[test]
    fn errors_know_their_path_and_line() {
        for (text, line, expected) in [
            ("note: x\n", 1, "spec: is missing"),
            ("\nspec:\n  a: [1, 2]\n  b:\n  - 3\n  - x\n", 6, "spec.b[1]: is string \"x\", but must be u32"),
            ("spec:\n  a: 3\n", 2, "spec.a: is integer `3`, but must be a sequence"),
            ("spec: {}\nnote: 3\n", 2, "note: is integer `3`, but must be a string; put it in quotes"),
        ] {
            assert_eq!(error_of::<Sample>(text), (line, expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn null_is_absent_and_old_booleans_are_read() {
        let tree = Tree::parse("spec: {}\nnote: null\nflags: [yes, off, true]\n").unwrap();
        let sample = Sample::deserialize(&tree).unwrap();
        assert_eq!((sample.note, sample.flags), (None, vec![true, false, true]));
        let tree = Tree::parse("spec: {}\nflags: ~\n").unwrap();
        assert!(Sample::deserialize(&tree).unwrap().flags.is_empty());
    }

    #[test]
    fn numbers_are_those_of_kubectl() {
        let tree = Tree::parse("[017, 1_000, 0x10, '12']").unwrap();
        let shown: Vec<_> = tree.list().unwrap().iter().map(|t| t.unexpected().to_string()).collect();
        assert_eq!(shown, ["integer `15`", "integer `1000`", "integer `16`", "string \"12\""]);
    }

    #[test]
    fn unsafe_or_broken_yaml_is_refused_with_its_line() {
        let deep = (0..100).map(|i| " ".repeat(i) + "a:\n").collect::<String>();
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..10 {
            let uses = vec![format!("*a{}", i - 1); 10].join(", ");
            writeln!(bomb, "a{i}: &a{i} [{uses}]").unwrap();
        }
        let flow = "[".repeat(100_000);
        for (text, line, part) in [
            (deep.as_str(), 65, "nested more than 64 levels deep"),
            (&bomb, 6, "aliases make this document too large"),
            (&flow, 1, "nested more than 64 levels deep"),
            ("a: 1\n\tb: 2\n", 2, "a tab is not allowed"),
            ("a:\n\tb: 2\n", 2, "a tab is not allowed"),
            ("a: 1\na: 2\n", 2, "the key `a` is there twice"),
            ("a: [1, 2\nb: 3\n", 2, "not valid YAML"),
            ("a: \"x\0\"\n", 1, "not valid YAML"),
            ("a: *nope\n", 1, "unknown anchor"),
        ] {
            let error = Tree::parse(text).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
            assert_eq!(error.line, Some(line), "{}", error.message);
        }
    }

    #[test]
    fn json_is_read_too() {
        let tree = Tree::parse("{\n\t\"a\": \"x\\/\\u00e9\\ud83d\\ude00\",\n\t\"b\": [1,\n\t2]\n}").unwrap();
        assert_eq!(tree.get("a").and_then(Tree::text), Some("x/é😀"));
        assert_eq!(tree.line_of(&Path(vec![Step::Key("b".into()), Step::Index(1)])), 4);
    }
}
