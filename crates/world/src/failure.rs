//! Failures as Kubernetes tells them: a code, a reason, a message in its own words, and causes by field.

use crate::json::{Value, json};
use crate::kinds::Resource;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: Reason,
    pub message: String,
    /// Boxed, because every answer has room for one.
    pub details: Box<Details>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
    /// What the server has no word for.
    Unknown,
}

impl Reason {
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }
}

/// What the failure is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The plural for most failures, the kind for invalid objects: as the API server does.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_secs: Option<u32>,
    /// The server says of some failures that it has nothing more to say.
    pub even_if_empty: bool,
    /// Where a list can be gone on with that is not to be had as it was; empty where it cannot.
    pub continue_token: String,
    /// The whole Status, where somebody whom the server asked has made it: it is passed on as it is.
    pub given: Option<Value>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: CauseReason,
    /// A path such as `spec.containers[0].name`; empty for the whole object.
    pub field: String,
    /// Without the field.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseReason {
    FieldValueRequired,
    FieldValueInvalid,
    FieldValueNotSupported,
    FieldValueDuplicate,
    FieldValueNotFound,
    FieldValueForbidden,
    FieldValueTooLong,
    FieldValueTooMany,
    FieldValueTypeInvalid,
    FieldManagerConflict,
    DisruptionBudget,
    NamespaceTerminating,
    ResourceVersionTooLarge,
    /// There is a message and nothing more.
    Unsaid,
}

impl Failure {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), details: Box::default() }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self { details: Box::new(Details::of(resource, name)), ..Self::new(Reason::NotFound, message) }
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self { details: Box::new(Details::of(resource, name)), ..Self::new(Reason::AlreadyExists, message) }
    }

    /// `why` follows the object's name, if it has one.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let message = format!("{}{named} is forbidden: {why}", resource.qualified());
        Self { details: Box::new(Details::of(resource, name)), ..Self::new(Reason::Forbidden, message) }
    }

    /// `why` follows the object's name.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self { details: Box::new(Details::of(resource, name)), ..Self::new(Reason::Conflict, message) }
    }

    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let kind = match &*resource.group {
            "" => resource.kind.clone(),
            group => format!("{}.{group}", resource.kind),
        };
        let said = told(&causes);
        let details = Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            causes,
            ..Details::default()
        };
        Self {
            details: Box::new(details),
            ..Self::new(Reason::Invalid, format!("{kind} \"{name}\" is invalid: {said}"))
        }
    }

    /// What went wrong on the server's side.
    pub fn internal(why: &str) -> Self {
        let cause = Cause { reason: CauseReason::Unsaid, field: String::new(), message: why.to_owned() };
        let details = Details { causes: vec![cause], ..Details::default() };
        let message = format!("Internal error occurred: {why}");
        Self { details: Box::new(details), ..Self::new(Reason::InternalError, message) }
    }

    /// What is wrong with how something was asked for.
    pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        let group = "meta.k8s.io".to_owned();
        let message = format!("{kind}.{group} \"\" is invalid: {}", told(&causes));
        let details = Details { group, kind: kind.to_owned(), causes, ..Details::default() };
        Self { details: Box::new(details), ..Self::new(Reason::Invalid, message) }
    }

    pub fn no_resource() -> Self {
        Self::unhandled(Reason::NotFound, "the server could not find the requested resource")
    }

    pub fn not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::unhandled(Reason::MethodNotAllowed, message)
    }

    /// What is wrong with what a patch makes of an object, which is shown with it.
    pub fn invalid_patch(patched: &str, why: &str) -> Self {
        let cause = Cause {
            reason: CauseReason::FieldValueInvalid,
            field: "patch".to_owned(),
            message: format!("Invalid value: {patched:?}: {why}"),
        };
        let message = format!(" \"\" is invalid: {cause}");
        let details = Details { causes: vec![cause], ..Details::default() };
        Self { details: Box::new(details), ..Self::new(Reason::Invalid, message) }
    }

    /// What the server says of a request that it has no handler for.
    pub fn unhandled(reason: Reason, message: &str) -> Self {
        let details = Details { even_if_empty: true, ..Details::default() };
        Self { details: Box::new(details), ..Self::new(reason, message) }
    }

    pub fn code(&self) -> u16 {
        let given = self.details.given.as_ref().and_then(|status| status["code"].as_u64());
        given.and_then(|code| u16::try_from(code).ok()).unwrap_or_else(|| self.reason.code())
    }

    /// The Status object.
    pub fn to_status(&self) -> Value {
        if let Some(given) = &self.details.given {
            return given.clone();
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code(),
        });
        if self.reason != Reason::Unknown {
            status["reason"] = json!(format!("{:?}", self.reason));
        }
        if !self.details.continue_token.is_empty() {
            status["metadata"]["continue"] = json!(self.details.continue_token);
        }
        let details = self.details.to_value();
        if self.details.even_if_empty || details != json!({}) {
            status["details"] = details;
        }
        status
    }
}

/// Several in brackets. Checks may find the same twice; it is said once.
fn told(causes: &[Cause]) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in causes.iter().map(ToString::to_string) {
        if !said.contains(&cause) {
            said.push(cause);
        }
    }
    match &said[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

impl Details {
    fn of(resource: &Resource, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.plural.clone(),
            ..Self::default()
        }
    }

    fn to_value(&self) -> Value {
        let mut details = json!({});
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details[key] = json!(text);
            }
        }
        if !self.causes.is_empty() {
            details["causes"] = self
                .causes
                .iter()
                .map(|cause| {
                    let mut value = json!({ "message": cause.message });
                    if cause.reason != CauseReason::Unsaid {
                        value["reason"] = json!(format!("{:?}", cause.reason));
                    }
                    if !cause.field.is_empty() {
                        value["field"] = json!(cause.field);
                    }
                    value
                })
                .collect();
        }
        if let Some(secs) = self.retry_after_secs {
            details["retryAfterSeconds"] = json!(secs);
        }
        details
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
