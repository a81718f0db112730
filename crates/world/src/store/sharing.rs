//! What objects have in common is kept once.
//!
//! An object shares with what it was before whatever did not change. Beyond that, objects of a resource are much alike,
//! such as pods of one template, or those whose kubelets write at the same second; and what somebody owns in one of them
//! is what they own in the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use crate::json::{Text, Value};

#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// What was written last of a resource.
    last: BTreeMap<Arc<str>, Weak<Value>>,
    /// The fields of its objects that somebody owned last, by manager and subresource.
    owned: FxHashMap<(Arc<str>, Text, Option<Text>), Value>,
}

/// Managers can be made up without end.
const OWNED_MAX: usize = 1 << 10;

impl Sharing {
    /// The object as it is kept.
    pub(super) fn keep(&mut self, resource: &str, mut object: Value, before: Option<&Value>) -> Arc<Value> {
        let last = self.last.get(resource).and_then(Weak::upgrade);
        match (before, last) {
            (None, Some(last)) => {
                object.reuse(&last);
            }
            (Some(before), Some(last)) if !object["status"].is_one_with(&before["status"]) => {
                if let Some(status) = object.get_mut("status") {
                    status.reuse_beside(&last["status"], Some(&before["status"]));
                }
            }
            _ => {}
        }
        let resource =
            self.last.get_key_value(resource).map_or_else(|| resource.into(), |(known, _)| known.clone());
        let known = before.map_or(&Value::Null, |before| &before["metadata"]["managedFields"]);
        if !object["metadata"]["managedFields"].is_one_with(known) {
            self.share_owned(&resource, &mut object);
        }
        object.fit();
        let kept = Arc::new(object);
        self.last.insert(resource, Arc::downgrade(&kept));
        kept
    }

    fn share_owned(&mut self, resource: &Arc<str>, object: &mut Value) {
        let managers = object["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
        for at in 0..managers {
            let entry = &object["metadata"]["managedFields"][at];
            let text = |field: &str| entry.get(field).and_then(Value::as_text).cloned();
            let Some(manager) = text("manager") else { continue };
            let writer = (resource.clone(), manager, text("subresource"));
            let last = self.owned.get(&writer);
            // To take hold of it would be to copy what may be shared already.
            if last.is_some_and(|last| entry["fieldsV1"].is_one_with(last)) {
                continue;
            }
            let path = format!("/metadata/managedFields/{at}/fieldsV1");
            let Some(fields) = object.pointer_mut(&path) else { continue };
            let is_known = last.is_some_and(|last| fields.reuse(last));
            fields.fit();
            if is_known {
                continue;
            }
            if self.owned.len() >= OWNED_MAX {
                self.owned.clear();
            }
            self.owned.insert(writer, fields.clone());
        }
    }
}
