//! One copy of what a cluster repeats: names, label values, pod shapes.

use std::collections::HashSet;
use std::sync::Arc;

use berth_core::names::Text;
use rustc_hash::FxBuildHasher;

use crate::pods::PodShape;

#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: HashSet<Text, FxBuildHasher>,
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

    pub(crate) fn shape(&mut self, shape: PodShape) -> Arc<PodShape> {
        if let Some(known) = self.shapes.get(&shape) {
            return known.clone();
        }
        let shape = Arc::new(shape);
        self.shapes.insert(shape.clone());
        shape
    }
}
