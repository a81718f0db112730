//! Lists that are copied when they are changed.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{Common, Value};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct List(Arc<Vec<Value>>);

impl List {
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Gives back what room is left over.
    pub(super) fn fit(&mut self) {
        if let Some(items) = Arc::get_mut(&mut self.0) {
            items.shrink_to_fit();
            items.iter_mut().for_each(Value::fit);
        }
    }

    /// How much of it is the same in other items, at the same place.
    pub(super) fn common(&self, known: &Self, own: Option<&Self>) -> Common {
        let mut is_all = self.len() == known.len();
        let mut shared: Option<Self> = None;
        for (at, value) in self.0.iter().enumerate() {
            let own = own.and_then(|own| own.get(at));
            let common = known.get(at).map_or(Common::Nothing, |known| value.common(known, own));
            is_all &= matches!(common, Common::All);
            if let Some(instead) = value.shared(common, || known.get(at)) {
                shared.get_or_insert_with(|| self.clone())[at] = instead;
            }
        }
        Common::of(is_all, shared.map(Value::Array))
    }
}

impl Deref for List {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        &self.0
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self(Arc::new(items))
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self(Arc::new(items.into_iter().collect()))
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut List {
    type Item = &'a mut Value;
    type IntoIter = std::slice::IterMut<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::make_mut(&mut self.0).iter_mut()
    }
}
