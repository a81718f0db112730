//! JSON as the world keeps it: trees that share what they have in common.
//!
//! Every write copies an object, changes a little of it and keeps both. A copy costs nothing here until it is changed,
//! and then only the way to the change is copied; two trees that are one are equal at a glance. So all versions of an
//! object together take little more room than the last.

mod convert;
mod list;
mod macros;
mod map;
mod read;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;
use std::ops::{Index, IndexMut};

pub use convert::{ToValue, written};
pub use list::List;
pub(crate) use macros::json;
pub use map::Map;
pub use serde_json::Number;
pub use text::Text;

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Text),
    Array(List),
    Object(Map),
}

/// How much of a tree is the same in another.
enum Common {
    Nothing,
    /// The tree, with parts of the other in the place of its own.
    Part(Value),
    All,
}

impl Common {
    fn of(is_all: bool, shared: Option<Value>) -> Self {
        match shared {
            _ if is_all => Self::All,
            Some(shared) => Self::Part(shared),
            None => Self::Nothing,
        }
    }
}

/// What is said to be where nothing is.
static NOTHING: Value = Value::Null;

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub fn is_i64(&self) -> bool {
        self.as_number().is_some_and(Number::is_i64)
    }

    pub fn is_f64(&self) -> bool {
        self.as_number().is_some_and(Number::is_f64)
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(is) = self { Some(*is) } else { None }
    }

    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub fn as_text(&self) -> Option<&Text> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    pub fn as_object(&self) -> Option<&Map> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// A field of an object.
    pub fn get(&self, field: impl AsRef<str>) -> Option<&Self> {
        self.as_object()?.get(field.as_ref())
    }

    pub fn get_mut(&mut self, field: impl AsRef<str>) -> Option<&mut Self> {
        self.as_object_mut()?.get_mut(field.as_ref())
    }

    /// Where a JSON pointer leads.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |at, word| match at {
            Self::Array(items) => items.get(index(word)?),
            _ => at.get(unescaped(word)),
        })
    }

    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |at, word| match at {
            Self::Array(items) => items.get_mut(index(word)?),
            _ => at.get_mut(unescaped(word)),
        })
    }

    /// Whether it is the very same tree, without a look at what is in it.
    pub fn is_one_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(one), Self::Object(other)) => one.is_one_with(other),
            (Self::Array(one), Self::Array(other)) => one.is_one_with(other),
            (Self::String(one), Self::String(other)) => one.is_one_with(other),
            _ => false,
        }
    }

    /// Gives back what room is left over in what is not shared.
    pub fn fit(&mut self) {
        match self {
            Self::Object(fields) => fields.fit(),
            Self::Array(items) => items.fit(),
            _ => {}
        }
    }

    /// Shares with a tree that is known already what is the same in both. Whether all of it is.
    pub fn reuse(&mut self, known: &Self) -> bool {
        self.reuse_beside(known, None)
    }

    /// The same, but what is shared with an own past stays shared with that.
    pub fn reuse_beside(&mut self, known: &Self, own: Option<&Self>) -> bool {
        let common = self.common(known, own);
        let is_all = matches!(common, Common::All);
        if let Some(shared) = self.shared(common, || Some(known)) {
            *self = shared;
        }
        is_all
    }

    /// How much of it is the same in a tree that is known. Nothing is copied unless there is something to share.
    fn common(&self, known: &Self, own: Option<&Self>) -> Common {
        if self.is_one_with(known) {
            return Common::All;
        }
        match (self, known) {
            _ if own.is_some_and(|own| own.is_one_with(self)) => Common::Nothing,
            (Self::Object(fields), Self::Object(known)) => {
                fields.common(known, own.and_then(Self::as_object))
            }
            (Self::Array(items), Self::Array(known)) => items.common(known, own.and_then(Self::as_list)),
            (one, other) if one == other => Common::All,
            _ => Common::Nothing,
        }
    }

    /// What takes its place so that what is common is kept once.
    fn shared<'a>(&self, common: Common, known: impl FnOnce() -> Option<&'a Self>) -> Option<Self> {
        let takes_room = matches!(self, Self::String(_) | Self::Array(_) | Self::Object(_));
        match common {
            Common::Nothing => None,
            Common::Part(shared) => Some(shared),
            Common::All => known().filter(|known| takes_room && !self.is_one_with(known)).cloned(),
        }
    }

    fn as_list(&self) -> Option<&List> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    #[must_use = "what was there is gone otherwise"]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

fn index(word: &str) -> Option<usize> {
    let is_written_so =
        word == "0" || (!word.starts_with('0') && word.bytes().all(|byte| byte.is_ascii_digit()));
    is_written_so.then(|| word.parse().ok()).flatten()
}

fn unescaped(word: &str) -> String {
    word.replace("~1", "/").replace("~0", "~")
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Of what is no object, and where there is no such field, it is null.
impl<K: AsRef<str> + ?Sized> Index<&K> for Value {
    type Output = Self;

    fn index(&self, field: &K) -> &Self {
        self.get(field).unwrap_or(&NOTHING)
    }
}

impl Index<usize> for Value {
    type Output = Self;

    fn index(&self, at: usize) -> &Self {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&NOTHING)
    }
}

/// The field is there from then on, in an object that is there from then on, whatever was in its place.
impl<K: AsRef<str> + ?Sized> IndexMut<&K> for Value {
    fn index_mut(&mut self, field: &K) -> &mut Self {
        if !self.is_object() {
            *self = Self::Object(Map::new());
        }
        match self {
            Self::Object(fields) => fields.entry(field.as_ref()).or_default(),
            other => other,
        }
    }
}
