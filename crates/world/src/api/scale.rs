//! Scale: how many of something there are to be, in the same form for all kinds that can be counted.

use serde_json::{Value, json};

use super::admit::matter;
use super::bodies::{patch_of, resource_of};
use super::write::{PatchKind, Writer, check_uid, expect_name, manager};
use super::{Call, State};
use crate::admission::{Matter, Operation};
use crate::crd;
use crate::failure::{Cause, CauseReason, Failure};
use crate::kinds::Resource;
use crate::object;
use crate::patch;
use crate::request::{Place, Query, Verb};
use crate::selector::LabelSelector;

/// Where an object says how many it wants and has.
struct Paths {
    wanted: String,
    there: String,
    /// A text of custom resources, a structure of built-in kinds.
    selector: Option<String>,
    is_custom: bool,
}

impl Paths {
    /// Of paths that begin with a dot.
    fn of(scale: Option<&crd::Scale>) -> Self {
        let pointer = |path: &str| path.replace('.', "/");
        match scale {
            None => Self {
                wanted: "/spec/replicas".to_owned(),
                there: "/status/replicas".to_owned(),
                selector: Some("/spec/selector".to_owned()),
                is_custom: false,
            },
            Some(scale) => Self {
                wanted: pointer(&scale.spec_replicas),
                there: pointer(&scale.status_replicas),
                selector: scale.label_selector.as_deref().map(pointer),
                is_custom: true,
            },
        }
    }

    fn scale_of(&self, object: &Value) -> Value {
        let fields = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let metadata: serde_json::Map<String, Value> = fields
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), object["metadata"].get(field)?.clone())))
            .collect();
        let count = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let mut status = json!({ "replicas": count(&self.there) });
        let selector = self.selector.as_deref().and_then(|path| object.pointer(path));
        match selector {
            Some(Value::String(text)) if self.is_custom && !text.is_empty() => {
                status["selector"] = json!(text);
            }
            Some(selector) if !self.is_custom => {
                if let Ok(selector @ LabelSelector::All(_)) = LabelSelector::from_value(selector) {
                    status["selector"] = json!(selector.to_string());
                }
            }
            _ => {}
        }
        let wanted = count(&self.wanted);
        // None is said by saying nothing.
        let spec = if wanted == 0 { json!({}) } else { json!({ "replicas": wanted }) };
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
        })
    }

    fn set(&self, object: &mut Value, replicas: i64) {
        let mut at = object;
        for word in self.wanted.split('/').skip(1) {
            at = &mut at[word];
        }
        *at = json!(replicas);
    }
}

/// As which it is read, and failures speak of it.
fn scale_kind() -> Resource {
    resource_of("autoscaling/v1", "Scale")
}

impl State {
    pub(super) fn scale(
        &mut self,
        verb: Verb,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        let paths = Paths::of(self.scale_paths(&place.resource));
        match verb {
            Verb::Get => self.existing(place).map(|(_, object)| (200, paths.scale_of(&object))),
            Verb::Update => {
                let wanted = self.object_of(&scale_kind(), query, call)?;
                self.rescale(place, query, call, &paths, &wanted)
            }
            Verb::Patch => {
                let given = patch_of(query, call)?;
                let scale = paths.scale_of(&self.existing(place)?.1);
                let wanted = match given.kind {
                    PatchKind::Json => patch::json_patch(&scale, &given.body)?,
                    _ => patch::merge_patch(&scale, &given.body)?,
                };
                let wanted = self.patched(&scale_kind(), given, wanted, call)?;
                self.rescale(place, query, call, &paths, &wanted)
            }
            _ => Err(Failure::not_allowed()),
        }
    }

    fn rescale(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
        paths: &Paths,
        wanted: &Value,
    ) -> Result<(u16, Value), Failure> {
        expect_name(place, wanted)?;
        let (key, old) = self.existing(place)?;
        check_uid(&place.resource, &key, wanted, &old)?;
        let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 && !paths.is_custom {
            let cause = Cause {
                reason: CauseReason::FieldValueInvalid,
                field: "spec.replicas".to_owned(),
                message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
            };
            return Err(Failure::invalid(&scale_kind(), key.name(), vec![cause]));
        }
        let old_scale = paths.scale_of(&old);
        let mut scale = wanted.clone();
        let matter =
            Matter { kind: Some(["autoscaling", "v1", "Scale"]), ..matter(place, query, Operation::Update) };
        self.admit(&matter, Some(&old_scale), &mut scale)?;
        self.check_admission(&matter, Some(&old_scale), Some(&scale))?;
        self.hearing.is_settled = true;
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(replicas);
        let mut new = (*old).clone();
        paths.set(&mut new, replicas);
        object::set(&mut new, "resourceVersion", json!(object::revision(wanted)));
        if object::revision(&new).is_empty() {
            object::set(&mut new, "resourceVersion", json!(object::revision(&old)));
        }
        let whole = Place { subresource: None, ..place.clone() };
        let (code, new) =
            self.replace(&whole, query, Writer::Update(manager(query, call)), &key, &old, new)?;
        Ok((code, paths.scale_of(&new)))
    }
}
