//! A text split into objects: YAML and JSON, several documents, lists.
//!
//! JSON is streamed: the items of a list are handed on one by one as slices of the text, so that a
//! list of a hundred thousand pods costs no more than its text. A YAML document becomes a tree.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

use crate::source::newlines;
use crate::tree::{Tree, YAML_BYTES_MAX, YamlError};

/// One object as it stands in its text `'t`. A tree lives only as long as it is visited.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'t, 'v> {
    Json(&'t str),
    Yaml(&'v Tree<'v>),
}

/// One object, with what is known of it before it is read.
#[derive(Debug)]
pub(crate) struct Document<'t, 'v> {
    pub(crate) body: Body<'t, 'v>,
    /// Where the object begins.
    pub(crate) line: usize,
    /// What to add to a line within the body to get a line of the text.
    pub(crate) line_offset: usize,
    pub(crate) header: Header,
}

/// What an object says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) api_version: Option<String>,
    pub(crate) kind: Option<String>,
}

/// Something in a text that is no object at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Hands on every object of the text. What is malformed ends its own document and no other.
pub(crate) fn for_each_document<'t>(
    text: &'t str,
    visit: &mut dyn FnMut(Document<'t, '_>),
    refuse: &mut dyn FnMut(Malformed),
) {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while !rest.is_empty() {
        let object = without_marker(rest).trim_start();
        let used = if object.starts_with('{') {
            let skipped = rest.len() - object.len();
            line += newlines(&rest.as_bytes()[..skipped]);
            rest = object;
            json_document(object, line, visit, refuse)
        } else {
            let part = first_document(rest);
            yaml_document(part, line, visit, refuse);
            part.len()
        };
        line += newlines(&rest.as_bytes()[..used]);
        rest = &rest[used..];
    }
}

/// The text up to the next line that begins with `---`.
///
/// Neither a JSON string nor a YAML block can contain such a line, so no parser is needed.
fn first_document(text: &str) -> &str {
    let mut from = 0;
    while let Some(found) = text[from..].find("\n---") {
        let marker = from + found + 1;
        if text.as_bytes().get(marker + 3).is_none_or(u8::is_ascii_whitespace) {
            return &text[..marker];
        }
        from = marker + 3;
    }
    text
}

/// Without a first line that is only `---` and perhaps a comment.
fn without_marker(part: &str) -> &str {
    let Some(after) = part.strip_prefix("---") else { return part };
    let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') { rest } else { part }
}

fn yaml_document<'t>(
    text: &'t str,
    line: usize,
    visit: &mut dyn FnMut(Document<'t, '_>),
    refuse: &mut dyn FnMut(Malformed),
) {
    match Tree::parse(text) {
        Err(YamlError { line: inner, message }) => {
            refuse(Malformed { line: line + inner.unwrap_or(1).saturating_sub(1), message });
        }
        Ok(tree) if tree.is_null() => {}
        Ok(tree) => tree_document(&tree, line, visit, refuse),
    }
}

fn tree_document<'t>(
    tree: &Tree<'_>,
    line: usize,
    visit: &mut dyn FnMut(Document<'t, '_>),
    refuse: &mut dyn FnMut(Malformed),
) {
    let offset = line - 1;
    let header = header_of_tree(tree);
    if !tree.is_map() {
        let message =
            "is not an object; a manifest is a mapping with apiVersion, kind and metadata".to_owned();
        return refuse(Malformed { line: offset + tree.line(), message });
    }
    let Some(list) = list_of(&header) else {
        return visit(Document {
            body: Body::Yaml(tree),
            line: offset + tree.line(),
            line_offset: offset,
            header,
        });
    };
    let Some(items) = tree.get("items").filter(|items| !items.is_null()) else { return };
    let Some(items) = items.list() else {
        let message = "the items of a list must be a list".to_owned();
        return refuse(Malformed { line: offset + items.line(), message });
    };
    for item in items {
        if item.is_map() {
            visit(Document {
                body: Body::Yaml(item),
                line: offset + item.line(),
                line_offset: offset,
                header: list.header_for(header_of_tree(item)),
            });
        } else {
            let message = "an item of a list must be an object".to_owned();
            refuse(Malformed { line: offset + item.line(), message });
        }
    }
}

fn header_of_tree(tree: &Tree<'_>) -> Header {
    let text = |key| tree.get(key).and_then(Tree::text).map(str::to_owned);
    Header { api_version: text("apiVersion"), kind: text("kind") }
}

/// What a list says about its items, which may leave it out.
#[derive(Debug, Default)]
struct ListHeader {
    api_version: Option<String>,
    /// `Pod` of a `PodList`, nothing of a mere `List`.
    kind: Option<String>,
}

impl ListHeader {
    fn header_for(&self, own: Header) -> Header {
        if own.kind.is_some() || self.kind.is_none() {
            return own;
        }
        Header { api_version: own.api_version.or_else(|| self.api_version.clone()), kind: self.kind.clone() }
    }
}

fn list_of(header: &Header) -> Option<ListHeader> {
    let item_kind = header.kind.as_deref()?.strip_suffix("List")?;
    let kind = (!item_kind.is_empty()).then(|| item_kind.to_owned());
    Some(ListHeader { api_version: header.api_version.clone(), kind })
}

/// The JSON object that the text begins with. Returns how many bytes it took.
fn json_document<'t>(
    text: &'t str,
    line: usize,
    visit: &mut dyn FnMut(Document<'t, '_>),
    refuse: &mut dyn FnMut(Malformed),
) -> usize {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut list = JsonList::new(text, line, visit, refuse);
    let outcome = list.read(&mut deserializer);
    let (header, had_items, handed_on) = list.finish();
    if let Err(error) = outcome {
        // The parser may have run into the next document; what is wrong is what is wrong without it.
        let broken = first_document(text);
        let error = serde_json::from_str::<IgnoredAny>(broken).err().unwrap_or(error);
        broken_json(broken, line, &error, handed_on, visit, refuse);
        return broken.len();
    }
    let used = deserializer.into_iter::<IgnoredAny>().byte_offset().clamp(1, text.len());
    if !had_items && list_of(&header).is_none() {
        visit(Document { body: Body::Json(&text[..used]), line, line_offset: line - 1, header });
    }
    used
}

/// A text that begins like JSON may still be YAML in its flow style, unless part of it was taken.
fn broken_json<'t>(
    text: &'t str,
    line: usize,
    error: &serde_json::Error,
    handed_on: bool,
    visit: &mut dyn FnMut(Document<'t, '_>),
    refuse: &mut dyn FnMut(Malformed),
) {
    if !handed_on && text.len() <= YAML_BYTES_MAX {
        match Tree::parse(text) {
            Ok(tree) => return tree_document(&tree, line, visit, refuse),
            Err(yaml) if yaml.message.contains("nested") => {
                let line = line + yaml.line.unwrap_or(1).saturating_sub(1);
                return refuse(Malformed { line, message: yaml.message });
            }
            Err(_) => {}
        }
    }
    refuse(Malformed {
        line: line + error.line().saturating_sub(1),
        message: format!("not valid JSON: {}", without_position(error)),
    });
}

/// The message without its own line and column, which the problem carries already.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned()
}

/// A JSON document that may turn out to be a list: its items are handed on as they come.
struct JsonList<'a, 'v> {
    text: &'a str,
    /// How far lines have been counted, and the line there.
    counted: (usize, usize),
    header: Header,
    had_items: bool,
    handed_on: bool,
    /// Items without a kind of their own that came before the list's: `items` sorts before `kind`.
    waiting: Vec<(&'a str, usize)>,
    visit: &'v mut dyn FnMut(Document<'a, '_>),
    refuse: &'v mut dyn FnMut(Malformed),
}

impl<'a, 'v> JsonList<'a, 'v> {
    fn new(
        text: &'a str,
        line: usize,
        visit: &'v mut dyn FnMut(Document<'a, '_>),
        refuse: &'v mut dyn FnMut(Malformed),
    ) -> Self {
        Self {
            text,
            counted: (0, line),
            header: Header::default(),
            had_items: false,
            handed_on: false,
            waiting: Vec::new(),
            visit,
            refuse,
        }
    }

    fn read(
        &mut self,
        deserializer: &mut serde_json::Deserializer<serde_json::de::StrRead<'a>>,
    ) -> Result<(), serde_json::Error> {
        (&mut *self).deserialize(deserializer)
    }

    fn finish(mut self) -> (Header, bool, bool) {
        let list = list_of(&self.header).unwrap_or_default();
        for (item, line) in std::mem::take(&mut self.waiting) {
            self.hand_on(item, line, list.header_for(header_of_json(item)));
        }
        (self.header, self.had_items, self.handed_on)
    }

    fn item(&mut self, raw: &'a RawValue) {
        let item = raw.get();
        let line = self.line_of(item);
        if !item.starts_with('{') {
            let message = "an item of a list must be an object".to_owned();
            return (self.refuse)(Malformed { line, message });
        }
        let own = header_of_json(item);
        if self.header.kind.is_none() && own.kind.is_none() {
            return self.waiting.push((item, line));
        }
        let list = list_of(&self.header).unwrap_or_default();
        self.hand_on(item, line, list.header_for(own));
    }

    fn hand_on(&mut self, item: &'a str, line: usize, header: Header) {
        self.handed_on = true;
        (self.visit)(Document { body: Body::Json(item), line, line_offset: line - 1, header });
    }

    /// Items are slices of the text, in its order, so that lines are counted only once.
    fn line_of(&mut self, item: &str) -> usize {
        let offset =
            (item.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len());
        let (from, line) = self.counted;
        let line = line + newlines(&self.text.as_bytes()[from.min(offset)..offset]);
        self.counted = (offset, line);
        line
    }
}

impl<'de> DeserializeSeed<'de> for &mut JsonList<'de, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut JsonList<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<std::borrow::Cow<'de, str>>()? {
            match &*key {
                "apiVersion" => self.header.api_version = text_of(access.next_value()?),
                "kind" => self.header.kind = text_of(access.next_value()?),
                "items" => access.next_value_seed(JsonItems(self))?,
                _ => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

fn text_of(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

struct JsonItems<'l, 'a, 'v>(&'l mut JsonList<'a, 'v>);

impl<'de> DeserializeSeed<'de> for JsonItems<'_, 'de, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonItems<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        self.0.had_items = true;
        while let Some(raw) = access.next_element::<&'de RawValue>()? {
            self.0.item(raw);
        }
        Ok(())
    }
}

/// Reads no further than the kind, which usually stands at the start.
fn header_of_json(text: &str) -> Header {
    struct HeaderVisitor<'h>(&'h mut Header);
    impl<'de> Visitor<'de> for HeaderVisitor<'_> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
            while let Some(key) = access.next_key::<std::borrow::Cow<'de, str>>()? {
                match &*key {
                    "apiVersion" => self.0.api_version = text_of(access.next_value()?),
                    "kind" => self.0.kind = text_of(access.next_value()?),
                    _ => {
                        access.next_value::<IgnoredAny>()?;
                    }
                }
                if self.0.api_version.is_some() && self.0.kind.is_some() {
                    return Err(A::Error::custom("all is known"));
                }
            }
            Ok(())
        }
    }
    let mut header = Header::default();
    // The early return above is an error to serde and not to us; a broken object is found when it is read.
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(HeaderVisitor(&mut header));
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `line kind apiVersion` of each object, and `line: message` of what is malformed.
    fn found(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut objects, mut malformed) = (Vec::new(), Vec::new());
        for_each_document(
            text,
            &mut |document| {
                let Header { api_version, kind } = document.header;
                objects.push(format!(
                    "{} {} {}",
                    document.line,
                    kind.unwrap_or_default(),
                    api_version.unwrap_or_default()
                ));
            },
            &mut |refused| malformed.push(format!("{}: {}", refused.line, refused.message)),
        );
        (objects, malformed)
    }

    #[test]
    fn objects_are_found_with_their_lines() {
        for (text, expected) in [
            ("", &[][..]),
            ("---\n---\n# nothing\n", &[]),
            ("kind: A\napiVersion: v1\n", &["1 A v1"]),
            ("# x\n---\nkind: A\n--- # more\nkind: B\n---\n", &["3 A ", "5 B "]),
            ("kind: A\nd: |\n  x\n  ---\n  y\n---\r\nkind: B\n", &["1 A ", "7 B "]),
            ("\u{feff}kind: A\n", &["1 A "]),
            ("kind: A\n---x: 1\n", &["1 A "]),
            ("{\"kind\":\"A\"}\n\n{\"kind\":\"B\"}", &["1 A ", "3 B "]),
            ("{\"kind\":\"A\"}\n---\n\n{kind: B}\n", &["1 A ", "4 B "]),
            ("kind: List\nitems:\n- kind: A\n  apiVersion: v1\n- kind: B\n", &["3 A v1", "5 B "]),
            ("kind: PodList\napiVersion: v1\nitems:\n- metadata: {}\n- kind: X\n", &["4 Pod v1", "5 X "]),
            ("kind: PodList\nitems: null\n", &[]),
            (
                "{\"apiVersion\":\"v1\",\n\"items\":[\n{\"metadata\":{}},\n{\"kind\":\"B\",\"apiVersion\":\"b\"}],\"kind\":\"PodList\"}",
                &["4 B b", "3 Pod v1"],
            ),
            ("{\"kind\":\"NodeList\",\"items\":null}", &[]),
            ("{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":[{}, {}]}", &["1 Node v1", "1 Node v1"]),
        ] {
            let (objects, malformed) = found(text);
            assert_eq!(objects, expected, "{text}");
            assert!(malformed.is_empty() || text.contains("---x"), "{text}: {malformed:?}");
        }
    }

    #[test]
    fn what_is_malformed_spoils_only_its_own_document() {
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        for (text, objects, message) in [
            ("kind: A\n---\na: [\n---\nkind: B\n", &["1 A ", "5 B "][..], "not valid YAML"),
            ("kind: A\n---\n- 1\n---\nkind: B\n", &["1 A ", "5 B "], "3: is not an object"),
            ("{\"kind\":\"A\"}\n{\"kind\":\n---\nkind: B\n", &["1 A ", "4 B "], "3: not valid JSON: EOF"),
            (
                "{\"kind\":\"List\",\"items\":[3,\n{\"kind\":\"A\"}]}",
                &["2 A "],
                "1: an item of a list must be an object",
            ),
            (
                "{\"kind\":\"List\",\"items\":[{\"kind\":\"A\"},\n{\"kind\":}]}",
                &["1 A "],
                "2: not valid JSON: expected value",
            ),
            ("kind: List\nitems:\n  a: b\n", &[], "the items of a list must be a list"),
            ("kind: List\nitems:\n- 3\n", &[], "3: an item of a list must be an object"),
            (&deep, &[], "1: nested more than 64 levels deep"),
            ("a\0b: 1", &[], "1: not valid YAML"),
        ] {
            let (found_objects, malformed) = found(text);
            assert_eq!(found_objects, objects, "{text}");
            assert_eq!(malformed.len(), 1, "{malformed:?}");
            assert!(malformed[0].contains(message), "{malformed:?}");
        }
    }
}
