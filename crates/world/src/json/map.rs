//! Objects: fields in the order of their names, copied when they are changed.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::{Common, Text, Value};

/// Most have few fields, and those that have many are found by halves.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Map(Arc<Vec<(Text, Value)>>);

/// Many stay empty, and need no room of their own.
static EMPTY: LazyLock<Map> = LazyLock::new(|| Map(Arc::default()));

impl Default for Map {
    fn default() -> Self {
        EMPTY.clone()
    }
}

impl Map {
    pub fn new() -> Self {
        Self::default()
    }

    /// Fields in any order. Of a name that comes twice, the last counts.
    pub(super) fn of(mut fields: Vec<(Text, Value)>) -> Self {
        if fields.is_empty() {
            return Self::new();
        }
        let is_in_order = fields.is_sorted_by(|(one, _), (other, _)| one < other);
        if !is_in_order {
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            fields.dedup_by(|(later, value), (kept, known)| {
                let is_same = later == kept;
                if is_same {
                    std::mem::swap(value, known);
                }
                is_same
            });
        }
        Self(Arc::new(fields))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a field is, or where it would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    /// Where a field is. Of few, those of another length need no look at their text, which is elsewhere.
    fn known_place(&self, name: &str) -> Option<usize> {
        const FEW: usize = 24;
        if self.0.len() > FEW {
            return self.place(name).ok();
        }
        self.0.iter().position(|(known, _)| known.len() == name.len() && known.as_str() == name)
    }

    fn fields_mut(&mut self) -> &mut Vec<(Text, Value)> {
        Arc::make_mut(&mut self.0)
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        let at = self.known_place(name)?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let at = self.known_place(name)?;
        self.fields_mut().get_mut(at).map(|(_, value)| value)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.known_place(name).is_some()
    }

    /// What was there before.
    pub fn insert(&mut self, name: impl AsRef<str>, value: Value) -> Option<Value> {
        match self.place(name.as_ref()) {
            Ok(at) => self.fields_mut().get_mut(at).map(|(_, known)| std::mem::replace(known, value)),
            Err(at) => {
                self.fields_mut().insert(at, (Text::name(name.as_ref()), value));
                None
            }
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.remove_entry(name).map(|(_, value)| value)
    }

    pub fn remove_entry(&mut self, name: &str) -> Option<(Text, Value)> {
        let at = self.known_place(name)?;
        Some(self.fields_mut().remove(at))
    }

    pub fn retain(&mut self, mut is_kept: impl FnMut(&Text, &mut Value) -> bool) {
        self.fields_mut().retain_mut(|(name, value)| is_kept(name, value));
    }

    /// The field, which is there from then on.
    pub fn entry<'n>(&mut self, name: &'n (impl AsRef<str> + ?Sized)) -> Entry<'_, 'n> {
        let name = name.as_ref();
        Entry { place: self.place(name), map: self, name }
    }

    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How much of it is the same in other fields.
    pub(super) fn common(&self, known: &Self, own: Option<&Self>) -> Common {
        let mut is_all = self.len() == known.len();
        let mut shared: Option<Self> = None;
        for (at, (name, value)) in self.0.iter().enumerate() {
            let own = own.and_then(|own| own.get(name));
            let common = known.get(name).map_or(Common::Nothing, |known| value.common(known, own));
            is_all &= matches!(common, Common::All);
            if let Some(instead) = value.shared(common, || known.get(name)) {
                shared.get_or_insert_with(|| self.clone()).fields_mut()[at].1 = instead;
            }
        }
        Common::of(is_all, shared.map(Value::Object))
    }

    /// Gives back what room is left over.
    pub(super) fn fit(&mut self) {
        if let Some(fields) = Arc::get_mut(&mut self.0) {
            fields.shrink_to_fit();
            for (_, value) in fields.iter_mut() {
                value.fit();
            }
        }
    }

    pub fn iter(&self) -> Iter<'_> {
        self.into_iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Text, &mut Value)> {
        self.fields_mut().iter_mut().map(|(name, value)| (&*name, value))
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> {
        self.0.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> {
        self.fields_mut().iter_mut().map(|(_, value)| value)
    }
}

/// A place for a field.
#[derive(Debug)]
pub struct Entry<'a, 'n> {
    map: &'a mut Map,
    place: Result<usize, usize>,
    name: &'n str,
}

impl<'a> Entry<'a, '_> {
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'a mut Value {
        let fields = self.map.fields_mut();
        let at = match self.place {
            Ok(at) => at,
            Err(at) => {
                fields.insert(at, (Text::name(self.name), make()));
                at
            }
        };
        &mut fields[at].1
    }

    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    pub fn or_default(self) -> &'a mut Value {
        self.or_insert_with(Value::default)
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: AsRef<str>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(fields: I) -> Self {
        Self::of(fields.into_iter().map(|(name, value)| (Text::name(name.as_ref()), value)).collect())
    }
}

impl<K: AsRef<str>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.insert(name, value);
        }
    }
}

type Pair<'a> = fn(&'a (Text, Value)) -> (&'a Text, &'a Value);
pub(super) type Iter<'a> = std::iter::Map<std::slice::Iter<'a, (Text, Value)>, Pair<'a>>;

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Value);
    type IntoIter = std::iter::Map<
        std::slice::IterMut<'a, (Text, Value)>,
        fn(&'a mut (Text, Value)) -> (&'a Text, &'a mut Value),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.fields_mut().iter_mut().map(|(name, value)| (&*name, value))
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}
