//! Applying an object that says itself where it belongs.

use http::Method;

use super::access::admin;
use super::{Answer, Api, Call, Warnings};
use crate::failure::{Failure, Reason};
use crate::json::Value;
use crate::object;

/// Where objects are that do not say so.
const NAMESPACE: &str = "default";

impl Api {
    pub(crate) async fn apply(&self, manager: &str, object: &Value) -> Result<Value, Failure> {
        let call = Call {
            method: Method::PATCH,
            path: self.path_of(object)?,
            query: format!("force=true&fieldManager={manager}"),
            content_type: "application/apply-patch+yaml".to_owned(),
            accept: String::new(),
            agent: String::new(),
            user: admin(),
            body: object.to_string().into_bytes(),
            warnings: Warnings::default(),
        };
        match self.call(&call).await? {
            Answer::Object(_, applied) => Ok(applied),
            _ => Err(Failure::new(Reason::NotFound, "404 page not found")),
        }
    }

    fn path_of(&self, object: &Value) -> Result<String, Failure> {
        let (api_version, kind) = (object::text(object, &["apiVersion"]), object::text(object, &["kind"]));
        let Some(resource) = self.state().kinds.find_kind(api_version, kind).cloned() else {
            // As clients say it, who find out before they ask.
            let message = format!("no matches for kind {kind:?} in version {api_version:?}");
            return Err(Failure::new(Reason::NotFound, message));
        };
        let (api_version, plural, name) = (resource.api_version(), &resource.plural, object::name(object));
        if name.is_empty() {
            return Err(Failure::bad_request("name is required"));
        }
        let root = if resource.group.is_empty() { "api" } else { "apis" };
        let namespace = match object::namespace(object) {
            _ if !resource.is_namespaced() => String::new(),
            "" => format!("namespaces/{NAMESPACE}/"),
            named => format!("namespaces/{named}/"),
        };
        Ok(format!("/{root}/{api_version}/{namespace}{plural}/{name}"))
    }
}
