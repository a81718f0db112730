//! ControllerRevisions: what a set's template has been, and hashes of templates.

use std::sync::Arc;

use super::owned::{Steps, owner_reference};
use super::pods::number;
use crate::api::{Act, Propagation};
use crate::json::{Text, Value, json};
use crate::object;

/// No vowels and nothing that looks alike: what Kubernetes writes hashes in.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short hash of a value, and of how often it has met another one's name. It does not depend on the order of keys.
pub(crate) fn hash(value: &Value, collisions: i64) -> String {
    let mut bytes = Vec::new();
    write_ordered(value, &mut bytes);
    if collisions > 0 {
        bytes.extend(collisions.to_le_bytes());
    }
    let wide = fnv(&bytes);
    let narrow = (wide >> 32) ^ (wide & 0xffff_ffff);
    let letter = |digit: u8| LETTERS.get(usize::from(digit) % LETTERS.len()).map_or('b', |l| char::from(*l));
    narrow.to_string().bytes().map(letter).collect()
}

/// FNV-1a, of 64 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn write_ordered(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            into.push(b'{');
            let mut fields: Vec<(&Text, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            for (key, value) in fields {
                into.extend(key.as_bytes());
                into.push(b':');
                write_ordered(value, into);
            }
            into.push(b'}');
        }
        Value::Array(items) => {
            into.push(b'[');
            for item in items {
                write_ordered(item, into);
                into.push(b',');
            }
            into.push(b']');
        }
        plain => into.extend(plain.to_string().bytes()),
    }
}

pub(crate) const RESOURCE: &str = "controllerrevisions.apps";

/// The most that a set's name gives to the names of its revisions.
const BASE_MAX: usize = 223;

/// How a set writes its revisions down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Book {
    /// Where a revision carries its hash.
    pub(crate) hash_label: &'static str,
}

/// A set's revisions, the oldest first, and the one that its template is now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    pub(crate) known: Vec<Arc<Value>>,
    /// As it is, or as it will be once it is written.
    pub(crate) latest: Value,
    pub(crate) write: Option<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    New,
    /// It was the template before, and is again.
    Again,
}

impl Book {
    pub(crate) fn read(self, owner: &Value, mut known: Vec<Arc<Value>>) -> History {
        known.sort_by_key(|revision| {
            (
                number(revision, "/revision"),
                object::text(revision, &["metadata", "creationTimestamp"]).to_owned(),
            )
        });
        let data = data(owner);
        let last = known.last().map_or(0, |revision| number(revision, "/revision"));
        let same = known.iter().rfind(|revision| revision["data"] == data).cloned();
        let (latest, write) = match same {
            Some(same) if number(&same, "/revision") == last => ((*same).clone(), None),
            Some(same) => {
                let mut again = (*same).clone();
                again["revision"] = json!(last + 1);
                (again, Some(Written::Again))
            }
            None => (self.revision(owner, &data, last + 1), Some(Written::New)),
        };
        History { known, latest, write }
    }

    fn revision(self, owner: &Value, data: &Value, revision: i64) -> Value {
        let hash = hash(data, number(owner, "/status/collisionCount"));
        let mut base = object::name(owner);
        while base.len() > BASE_MAX {
            base = base.get(..base.len() - 1).unwrap_or_default();
        }
        let mut metadata = json!({
            "name": format!("{base}-{hash}"), "namespace": object::namespace(owner),
            "labels": owner["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [owner_reference(owner)],
        });
        object::within(&mut metadata, "labels")[self.hash_label] = json!(hash);
        let annotations = &owner["metadata"]["annotations"];
        if !annotations.is_null() {
            metadata["annotations"] = annotations.clone();
        }
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": metadata, "data": data, "revision": revision,
        })
    }
}

impl History {
    pub(crate) fn write(&self, steps: &mut Steps<'_>) {
        match self.write {
            Some(Written::New) => steps.act(Act::Create(RESOURCE, self.latest.clone())),
            Some(Written::Again) => steps.act(Act::Update(RESOURCE, self.latest.clone())),
            None => {}
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Value>> {
        self.known.iter().find(|revision| object::name(revision) == name)
    }

    /// Those beyond the limit that nobody is of any more, the oldest first.
    fn forgotten(&self, limit: i64, is_live: impl Fn(&Value) -> bool) -> Vec<&Arc<Value>> {
        let latest = object::name(&self.latest);
        let dead: Vec<&Arc<Value>> =
            self.known.iter().filter(|known| object::name(known) != latest && !is_live(known)).collect();
        let limit = usize::try_from(limit).unwrap_or(0);
        let beyond = dead.len().saturating_sub(limit);
        dead.into_iter().take(beyond).collect()
    }

    /// Deletes what need not be remembered.
    pub(crate) fn forget(&self, steps: &mut Steps<'_>, is_live: impl Fn(&Value) -> bool) {
        let limit =
            object::at(&steps.owner, "/spec/revisionHistoryLimit").and_then(Value::as_i64).unwrap_or(10);
        for revision in self.forgotten(limit, is_live) {
            steps.delete(RESOURCE, revision, Propagation::Background);
        }
    }
}

/// What a revision holds: a patch that gives a set this template.
fn data(owner: &Value) -> Value {
    let mut spec = json!({ "template": owner["spec"]["template"] });
    object::within(&mut spec, "template")["$patch"] = json!("replace");
    json!({ "spec": spec })
}

/// The template that a revision holds.
pub(crate) fn template(revision: &Value) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_where_values_do() {
        let one = hash(&json!({"a": 1, "b": [1, 2]}), 0);
        let reordered: Value = serde_json::from_str(r#"{"b": [1, 2], "a": 1}"#).unwrap();
        assert_eq!(one, hash(&reordered, 0));
        for other in [
            hash(&json!({"a": 1, "b": [1, 2]}), 1),
            hash(&json!({"a": 1, "b": [12]}), 0),
            hash(&json!({"a": 1, "b": [2, 1]}), 0),
            hash(&json!(null), 0),
        ] {
            assert_ne!(one, other);
        }
        assert!(one.bytes().all(|letter| LETTERS.contains(&letter)), "{one}");
    }

    #[test]
    fn a_template_is_written_once_and_counted_again_when_it_returns() {
        let book = Book { hash_label: "hash" };
        let owner = |image: &str| {
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "agent", "namespace": "default", "uid": "u"},
                "spec": {"revisionHistoryLimit": 1,
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"image": image}}},
            })
        };
        let mut known: Vec<Arc<Value>> = Vec::new();
        for (image, write, revision) in [
            ("1", Some(Written::New), 1),
            ("1", None, 1),
            ("2", Some(Written::New), 2),
            ("1", Some(Written::Again), 3),
            ("1", None, 3),
            ("3", Some(Written::New), 4),
        ] {
            let history = book.read(&owner(image), known.clone());
            assert_eq!((history.write, &history.latest["revision"]), (write, &json!(revision)), "{image}");
            assert_eq!(template(&history.latest), owner(image)["spec"]["template"]);
            let name = object::name(&history.latest).to_owned();
            known.retain(|known| object::name(known) != name);
            known.push(Arc::new(history.latest));
        }
        let history = book.read(&owner("3"), known);
        let forgotten = |limit, live: i64| -> Vec<i64> {
            let gone = history.forgotten(limit, |revision| revision["revision"] == live);
            gone.into_iter().map(|revision| number(revision, "/revision")).collect()
        };
        assert_eq!(forgotten(10, 0), Vec::<i64>::new());
        assert_eq!(forgotten(1, 0), [2]);
        assert_eq!(forgotten(0, 2), [3]);
        assert_eq!(forgotten(0, 0), [2, 3]);
    }
}
