//! Texts that are shared: names of fields, of which there are few, and values.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::{LazyLock, Mutex, PoisonError};

use arcstr::ArcStr;
use rustc_hash::FxHashSet;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(ArcStr);

/// Names of fields and words that have been seen. Some are made up by whoever writes, so there is an end to it.
static KNOWN: LazyLock<Mutex<FxHashSet<ArcStr>>> = LazyLock::new(Mutex::default);
const KNOWN_MAX: usize = 1 << 14;

impl Text {
    /// A name of a field: the same text each time, so that it costs no room of its own.
    pub(super) fn name(text: &str) -> Self {
        // Those of lists' items, in sets of fields, are made of values and come once.
        if text.starts_with("k:") || text.starts_with("v:") { Self(text.into()) } else { Self::known(text) }
    }

    fn known(text: &str) -> Self {
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(text) {
            return Self(known.clone());
        }
        let new = ArcStr::from(text);
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(new.clone());
        Self(new)
    }

    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        ArcStr::ptr_eq(&self.0, &other.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Single words are kinds, reasons, phases and the like, of which there are few as well.
fn is_word(text: &str) -> bool {
    text.len() <= 24 && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if is_word(text) { Self::known(text) } else { Self(text.into()) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&Self> for Text {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}
