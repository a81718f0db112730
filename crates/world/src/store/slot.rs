//! Where one object is, as it was under one revision: open, or packed.
//!
//! An object as a tree takes about six times the room of its text. So only what was written of late is kept open; the
//! rest is read again from its text whenever it is asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// Clones are the same place.
#[derive(Clone, Debug)]
pub(super) struct Slot(Arc<Mutex<Form>>);

#[derive(Debug)]
enum Form {
    Open(Arc<Value>),
    Packed(Box<str>),
}

impl Slot {
    pub(super) fn open(&self) -> Arc<Value> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Form::Open(object) => object.clone(),
            // It was written from an object, and reads as one.
            Form::Packed(text) => Arc::new(serde_json::from_str(text).unwrap_or_default()),
        }
    }

    fn pack(&self) {
        let mut form = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Form::Open(object) = &*form
            && let Ok(text) = serde_json::to_string(&**object)
        {
            *form = Form::Packed(text.into());
        }
    }
}

/// So many of the last objects that were written stay open: all of a small cluster.
const OPEN_MAX: usize = 8_192;

/// What is open, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Slots(VecDeque<Slot>);

impl Slots {
    pub(super) fn keep(&mut self, object: Arc<Value>) -> Slot {
        let slot = Slot(Arc::new(Mutex::new(Form::Open(object))));
        self.0.push_back(slot.clone());
        if self.0.len() > OPEN_MAX
            && let Some(oldest) = self.0.pop_front()
            // What nobody else holds is about to go anyway.
            && Arc::strong_count(&oldest.0) > 1
        {
            oldest.pack();
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_packed_opens_as_it_was() {
        let mut slots = Slots::default();
        let object =
            json!({"a": [1, 2.5, -3, null, true, "ü\n"], "b": {"c": 18_446_744_073_709_551_615_u64}});
        let first = slots.keep(Arc::new(object.clone()));
        assert_eq!(*first.open(), object);
        for number in 0..OPEN_MAX {
            slots.keep(Arc::new(json!(number)));
        }
        assert!(matches!(&*first.0.lock().unwrap(), Form::Packed(_)));
        assert_eq!(*first.open(), object);
    }
}
