//! Scale: how many of something there are to be, in the same form for all kinds that can be counted.

use super::admit::matter;
use super::bodies::{patch_of, resource_of};
use super::meant::{check_uid, expect_name, expect_namespace};
use super::write::{PatchKind, Writer, manager};
use super::{Call, State};
use crate::admission::{Matter, Operation};
use crate::body::says_version;
use crate::crd;
use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::object;
use crate::patch::{self, Rescaled};
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

    /// Of a custom resource that does not say how many, only for those who say it in turn.
    fn scale_of(&self, object: &Value) -> Value {
        let fields = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let metadata: crate::json::Map = fields
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
        let wanted = if self.is_unsaid(object) { UNSAID } else { count(&self.wanted) };
        // None is said by saying nothing.
        let spec = if wanted == 0 { json!({}) } else { json!({ "replicas": wanted }) };
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
        })
    }

    /// Built-in kinds always say how many they want.
    fn is_unsaid(&self, object: &Value) -> bool {
        self.is_custom && object.pointer(&self.wanted).is_none_or(Value::is_null)
    }

    /// As the definition has it.
    fn wanted_told(&self) -> String {
        self.wanted.replace('/', ".")
    }

    fn set(&self, object: &mut Value, replicas: i64) -> Result<(), Failure> {
        let mut at = object;
        let mut told = String::new();
        for word in self.wanted.split('/').skip(1) {
            if !at.is_object() && !at.is_null() {
                let message = format!("value cannot be set because {told} is not a map[string]interface{{}}");
                return Err(Failure::new(Reason::Unknown, message));
            }
            told.extend([".", word]);
            at = &mut at[word];
        }
        *at = json!(replicas);
        Ok(())
    }
}

/// Stands for a number that nobody has said.
const UNSAID: i64 = -2_147_483_648;

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
            Verb::Get => {
                let (_, object) = self.existing(place)?;
                if paths.is_unsaid(&object) {
                    let why = format!("the spec replicas field {:?} does not exist", paths.wanted_told());
                    return Err(Failure::internal(&why));
                }
                Ok((200, paths.scale_of(&object)))
            }
            Verb::Update => {
                let mut wanted = self.object_of(&scale_kind(), query, call)?;
                expect_namespace(place, &mut wanted)?;
                let is_told = !paths.is_custom || says_version(&call.content_type, &call.body);
                self.rescale(place, query, call, &paths, &wanted, is_told)
            }
            Verb::Patch => {
                let given = patch_of(query, call)?;
                let scale = paths.scale_of(&self.existing(place)?.1);
                let wanted = match given.kind {
                    PatchKind::Json => patch::json_patch(&scale, &given.body)?,
                    _ => patch::merge_patch(&scale, &given.body)?,
                };
                let wanted = self.patched(&scale_kind(), given, wanted, call)?;
                self.rescale(place, query, call, &paths, &wanted, true)
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
        is_told: bool,
    ) -> Result<(u16, Value), Failure> {
        expect_name(place, wanted)?;
        let (key, old) = self.existing(place)?;
        check_uid(&place.resource, query, &key, wanted, &old)?;
        let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas == UNSAID && paths.is_custom {
            let message = format!("the spec replicas field {:?} cannot be empty", paths.wanted_told());
            return Err(Failure::bad_request(message));
        }
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
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(replicas);
        let mut new = (*old).clone();
        paths.set(&mut new, replicas)?;
        // Who may only refuse is shown the scale that the object would have.
        self.check_admission(&matter, Some(&old_scale), Some(&paths.scale_of(&new)))?;
        self.hearing.is_settled = true;
        let rescaled = match old_scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0) {
            _ if !is_told => Rescaled::Untold,
            same if same == replicas => Rescaled::Kept,
            _ => Rescaled::To(replicas, manager(query, call)),
        };
        patch::record_scale(&mut new, &paths.wanted, &place.resource.api_version(), rescaled);
        object::set(&mut new, "resourceVersion", json!(object::revision(wanted)));
        if object::revision(&new).is_empty() {
            object::set(&mut new, "resourceVersion", json!(object::revision(&old)));
        }
        let whole = Place { subresource: None, ..place.clone() };
        let (code, new) = self.replace(&whole, query, Writer::OnRecord, &key, &old, new)?;
        Ok((code, paths.scale_of(&new)))
    }
}
