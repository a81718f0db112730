//! An AdmissionReview, and what is made of the one that comes back.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};

use super::{Phase, in_version};
use crate::admission::{Matter, Operation};
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::object;
use crate::patch::go_kind;
use crate::rbac::User;

/// What a webhook is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Review {
    pub(crate) request: Value,
}

impl Review {
    /// `resource` is the matter's own, or the same in the version that the webhook wants.
    pub(crate) fn of(
        matter: &Matter<'_>,
        resource: &Resource,
        user: &User,
        uid: &str,
        old: Option<&Value>,
        object: Option<&Value>,
    ) -> Self {
        let own = &matter.place.resource;
        let kind = |resource: &Resource| match matter.kind {
            Some([group, version, kind]) => json!({ "group": group, "version": version, "kind": kind }),
            None => {
                json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
            }
        };
        let plural = |resource: &Resource| json!({ "group": resource.group, "version": resource.version, "resource": resource.plural });
        let shown = |object: Option<&Value>| match (object, matter.kind) {
            (None, _) => Value::Null,
            (Some(object), Some(_)) => object.clone(),
            (Some(object), None) => in_version(resource, object),
        };
        let name = matter.place.name.as_deref().or_else(|| object.map(object::name)).unwrap_or_default();
        let mut request = json!({
            "uid": uid,
            "kind": kind(resource), "resource": plural(resource),
            "requestKind": kind(own), "requestResource": plural(own),
            "operation": matter.operation.name(),
            "userInfo": user.to_value(),
            "object": shown(object), "oldObject": shown(old),
            "dryRun": matter.dry_run, "options": matter.options,
        });
        let is_namespace = own.group.is_empty() && own.plural == "namespaces";
        let namespace =
            if is_namespace { name } else { matter.place.namespace.as_deref().unwrap_or_default() };
        for (field, text) in [("name", name), ("namespace", namespace)] {
            if !text.is_empty() {
                object::put(&mut request, &[field], json!(text));
            }
        }
        if let Some(part) = matter.place.subresource.map(Subresource::name) {
            object::put(&mut request, &["subResource"], json!(part));
            object::put(&mut request, &["requestSubResource"], json!(part));
        }
        Self { request }
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": self.request })
    }

    fn uid(&self) -> &str {
        object::text(&self.request, &["uid"])
    }

    fn operation(&self) -> &str {
        object::text(&self.request, &["operation"])
    }
}

/// What a webhook has decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Response {
    /// Said even by those that refuse.
    pub(crate) warnings: Vec<String>,
    /// The patch, if it wants one; or why not.
    pub(crate) decision: Result<Option<Value>, Failure>,
}

/// Reads what came back. What cannot be read is a failed call, told as that.
pub(crate) fn judge(phase: Phase, hook: &str, review: &Review, said: &Value) -> Result<Response, String> {
    if said["apiVersion"] == "admission.k8s.io/v1beta1" {
        let why = "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion";
        return Err(format!("failed to call webhook: {why}"));
    }
    let (api_version, kind) = (object::text(said, &["apiVersion"]), object::text(said, &["kind"]));
    let is_known = (api_version, kind) == ("admission.k8s.io/v1", "AdmissionReview");
    if !is_known && !api_version.is_empty() && !kind.is_empty() {
        return Err(format!(
            "failed to call webhook: no kind {kind:?} is registered for version {api_version:?} in scheme \
             \"pkg/runtime/scheme.go:111\""
        ));
    }
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let response = match said.get("response") {
        Some(response) if response.is_object() => response,
        _ => return Err(invalid("webhook response was absent".to_owned())),
    };
    if let Some(other) = response.get("allowed").filter(|allowed| !allowed.is_boolean() && !allowed.is_null())
    {
        return Err(format!(
            "failed to call webhook: json: cannot unmarshal {} into Go struct field AdmissionResponse.response.allowed \
             of type bool",
            go_kind(other)
        ));
    }
    let (uid, expected) = (object::text(response, &["uid"]), review.uid());
    if uid != expected {
        return Err(invalid(format!("expected response.uid={expected:?}, got {uid:?}")));
    }
    if !is_known {
        // As Go writes a version of which nothing is known.
        let api_version = if api_version.is_empty() { "/" } else { api_version };
        return Err(invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        )));
    }
    let (patch, patch_type) = (object::text(response, &["patch"]), response["patchType"].as_str());
    let form = match (phase, patch.is_empty(), patch_type) {
        (Phase::Validating, false, _) => Err("validating webhook may not return response.patch"),
        (Phase::Validating, true, Some(_)) => Err("validating webhook may not return response.patchType"),
        (Phase::Mutating, false, None) => Err("webhook returned response.patch but not response.patchType"),
        (Phase::Mutating, true, Some(_)) => Err("webhook returned response.patchType but not response.patch"),
        _ => Ok(()),
    };
    form.map_err(|why| invalid(why.to_owned()))?;
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    if response["allowed"] != true {
        return Ok(Response { warnings, decision: Err(denial(hook, &response["status"])) });
    }
    let patch = read_patch(patch)?;
    let changes = patch.as_ref().is_some_and(|patch| patch.as_array().is_none_or(|list| !list.is_empty()));
    if let Some(other) = patch_type.filter(|of| changes && *of != "JSONPatch") {
        return Err(format!("unsupported patch type {other:?}"));
    }
    if changes && review.operation() == Operation::Delete.name() {
        let why = format!(
            "admission webhook {hook:?} attempted to modify the object, which is not supported for this operation"
        );
        return Ok(Response { warnings, decision: Err(Failure::internal(&why)) });
    }
    Ok(Response { warnings, decision: Ok(patch.filter(|_| changes)) })
}

fn read_patch(patch: &str) -> Result<Option<Value>, String> {
    if patch.is_empty() {
        return Ok(None);
    }
    let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD.decode(patch).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) => at,
            _ => patch.len(),
        };
        format!("failed to call webhook: illegal base64 data at input byte {at}")
    })?;
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| match bytes.first() {
        Some(first) if error.column() <= 1 => {
            undecodable(format!("invalid character '{}' looking for beginning of value", char::from(*first)))
        }
        _ => undecodable(error.to_string()),
    })?;
    let mistyped = |value: &Value, of: &str| {
        let kind = go_kind(value);
        Err(undecodable(format!("json: cannot unmarshal {kind} into Go value of type jsonpatch.{of}")))
    };
    match &patch {
        Value::Null => {}
        Value::Array(operations) => {
            if let Some(odd) =
                operations.iter().find(|operation| !operation.is_object() && !operation.is_null())
            {
                return mistyped(odd, "Operation");
            }
        }
        other => return mistyped(other, "Patch"),
    }
    Ok(Some(patch))
}

/// A refusal in the webhook's own words, with its own code.
fn denial(hook: &str, status: &Value) -> Failure {
    let denied = format!("admission webhook {hook:?} denied the request");
    let (message, reason) = (object::text(status, &["message"]), object::text(status, &["reason"]));
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let mut given = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure" });
    for field in ["metadata", "reason", "details"] {
        if let Some(value) = status.get(field).filter(|value| !value.is_null()) {
            object::put(&mut given, &[field], value.clone());
        }
    }
    let code = status["code"].as_u64().filter(|code| *code >= 400).unwrap_or(400);
    object::put(&mut given, &["code"], json!(code));
    object::put(&mut given, &["message"], json!(message));
    let mut failure = Failure::new(Reason::Unknown, message);
    failure.details.given = Some(given);
    failure
}
