//! One copy of what a cluster repeats: names, label values, owners, pod shapes.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use berth_core::names::Text;
use rustc_hash::FxBuildHasher;

use crate::pods::{Owner, PodShape};

#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: HashSet<Text, FxBuildHasher>,
    owners: HashSet<Arc<Owner>, FxBuildHasher>,
    shapes: HashSet<Arc<PodShape>, FxBuildHasher>,
}

impl Interner {
    pub(crate) fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text = Text::from(text);
        self.texts.insert(text.clone());
        text
    }

    /// Drops what only this knows.
    pub(crate) fn forget_unused(&mut self) {
        self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        self.owners.retain(|owner| Arc::strong_count(owner) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    pub(crate) fn owner(&mut self, owner: Owner) -> Arc<Owner> {
        one_copy(&mut self.owners, owner)
    }

    pub(crate) fn shape(&mut self, shape: PodShape) -> Arc<PodShape> {
        one_copy(&mut self.shapes, shape)
    }
}

fn one_copy<T: Eq + Hash>(copies: &mut HashSet<Arc<T>, FxBuildHasher>, value: T) -> Arc<T> {
    if let Some(known) = copies.get(&value) {
        return known.clone();
    }
    let value = Arc::new(value);
    copies.insert(value.clone());
    value
}
