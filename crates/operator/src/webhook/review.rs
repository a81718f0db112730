//! An AdmissionReview over HTTP, in and out.

use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::judging::{Deed, Guarded, Verdict, judge};
use crate::metrics::{Metrics, table};

/// More than any object of these kinds that a person wrote, with what it was before.
pub(super) const REVIEW_BYTES_MAX: usize = 128 << 10;
/// An API server waits no longer.
const READING_TAKES: Duration = Duration::from_secs(10);
const API_VERSION: &str = "admission.k8s.io/v1";

pub(super) fn router(metrics: &Metrics) -> Router {
    Guarded::ALL.into_iter().fold(Router::new(), |router, guarded| {
        let metrics = metrics.clone();
        router.route(
            guarded.path(),
            post(async move |request: Request| answer(guarded, &metrics, request).await),
        )
    })
}

async fn answer(guarded: Guarded, metrics: &Metrics, request: Request) -> Response {
    let began = Instant::now();
    let (operation, result, response) = match reviewed(guarded, request).await {
        Ok(Reviewed { operation, uid, verdict }) => {
            (operation.name(), result(&verdict), reply(&uid, &verdict))
        }
        Err((status, why)) => ("none", "error", plain(status, &why)),
    };
    metrics.took(table::WEBHOOK_VALIDATION, [guarded.plural(), operation, result], began.elapsed());
    response
}

/// What was asked, and the answer.
struct Reviewed {
    operation: Operation,
    uid: String,
    verdict: Verdict,
}

async fn reviewed(guarded: Guarded, request: Request) -> Result<Reviewed, (StatusCode, String)> {
    let form = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if form.and_then(|form| form.split(';').next()).is_none_or(|form| form.trim() != "application/json") {
        let why = "send an AdmissionReview as application/json".to_owned();
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let reading = timeout(READING_TAKES, to_bytes(request.into_body(), REVIEW_BYTES_MAX));
    let body = match reading.await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let why = format!("an AdmissionReview takes at most {REVIEW_BYTES_MAX} bytes here");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        Err(_) => {
            return Err((StatusCode::REQUEST_TIMEOUT, "the request did not come to its end".to_owned()));
        }
    };
    let asked = asked(guarded, &body).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let verdict = asked.deed.map_or(Verdict::Allowed, |deed| judge(guarded, deed));
    Ok(Reviewed { operation: asked.operation, uid: asked.uid.to_owned(), verdict })
}

/// What is asked, if it is something that can be.
struct Asked<'a> {
    uid: &'a str,
    operation: Operation,
    /// `None` for what is not of the object itself, such as its status.
    deed: Option<Deed<'a>>,
}

fn asked(guarded: Guarded, body: &[u8]) -> Result<Asked<'_>, String> {
    let review: Review<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("this is not an AdmissionReview of {API_VERSION}: {error}"))?;
    if review.kind != "AdmissionReview" || review.api_version != API_VERSION {
        let (kind, version) = (review.kind, review.api_version);
        return Err(format!("this is a {kind} of {version}; send an AdmissionReview of {API_VERSION}"));
    }
    let Some(request) = review.request else { return Err("request: is missing".to_owned()) };
    let resource = &request.resource;
    if resource.resource != guarded.plural() || resource.group != guarded.group() {
        let (path, plural) = (guarded.path(), guarded.plural());
        return Err(format!("request.resource: {path} judges {plural}, not {}", resource.resource));
    }
    let operation = request.operation;
    let deed = match operation {
        _ if request.sub_resource.is_some_and(|part| !part.is_empty()) => None,
        Operation::Create => Some(Deed::Create { object: needed(request.object, "object")? }),
        Operation::Update => Some(Deed::Update {
            old: needed(request.old_object, "oldObject")?,
            object: needed(request.object, "object")?,
        }),
        Operation::Delete => Some(Deed::Delete { old: needed(request.old_object, "oldObject")? }),
        Operation::Connect => None,
    };
    Ok(Asked { uid: request.uid, operation, deed })
}

fn needed<'a>(object: Option<&'a RawValue>, field: &str) -> Result<&'a str, String> {
    object.map(RawValue::get).ok_or_else(|| format!("request.{field}: is missing"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(default)]
    api_version: &'a str,
    #[serde(default)]
    kind: &'a str,
    #[serde(borrow)]
    request: Option<AskedFor<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskedFor<'a> {
    uid: &'a str,
    resource: Resource<'a>,
    sub_resource: Option<&'a str>,
    operation: Operation,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(default)]
    group: &'a str,
    resource: &'a str,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

fn result(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allowed => "allowed",
        Verdict::Invalid(_) | Verdict::Forbidden(_) => "denied",
    }
}

fn reply(uid: &str, verdict: &Verdict) -> Response {
    let denied = |code: StatusCode, reason: &str, message: &str| {
        json!({
            "uid": uid, "allowed": false,
            "status": { "status": "Failure", "code": code.as_u16(), "reason": reason, "message": message },
        })
    };
    let response = match verdict {
        Verdict::Allowed => json!({ "uid": uid, "allowed": true }),
        Verdict::Invalid(why) => denied(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", why),
        Verdict::Forbidden(why) => denied(StatusCode::FORBIDDEN, "Forbidden", why),
    };
    let review = json!({ "apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response });
    ([(header::CONTENT_TYPE, "application/json")], review.to_string()).into_response()
}

fn plain(status: StatusCode, why: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{why}\n")).into_response()
}
