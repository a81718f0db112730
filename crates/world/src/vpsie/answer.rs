//! How VPSie answers: everything in an envelope.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use berth_cloud::provider::{Lack, Refusal};
use http::header;
use http_body::Frame;
use serde_json::{Value, json};

use super::Asked;

/// What VPSie gives at once unless it is told.
const PER_PAGE: usize = 20;
const PER_PAGE_MAX: usize = 100;

pub(super) const OUT_OF_STOCK: &str = "The selected size is out of stock";

pub(super) fn enveloped(data: &Value) -> Response {
    json_of(200, &json!({ "error": false, "code": 200, "message": "success", "data": data }))
}

/// Without an envelope.
pub(super) fn bare(data: &Value) -> Response {
    json_of(200, data)
}

/// An error as most paths give it, with its code as the status too.
pub(super) fn enveloped_error(code: u16, message: &str) -> Response {
    json_of(code, &json!({ "error": true, "code": code, "message": message }))
}

/// An error as the others give it.
pub(super) fn error_with_status_200(code: u16, message: &str) -> Response {
    json_of(200, &json!({ "error": true, "code": code, "message": message }))
}

/// The page that was asked for.
pub(super) fn paged(items: &[Value], asked: &Asked) -> Response {
    let number = |key: &str| asked.query.get(key).and_then(|text| text.parse::<usize>().ok());
    let page = number("page").unwrap_or(1).max(1);
    let per_page = number("per_page").unwrap_or(PER_PAGE).clamp(1, PER_PAGE_MAX);
    let data: Vec<&Value> = items.iter().skip((page - 1) * per_page).take(per_page).collect();
    let pagination = json!({
        "total": items.len(),
        "count": data.len(),
        "per_page": per_page,
        "current_page": page,
        "total_pages": items.len().div_ceil(per_page),
    });
    json_of(200, &json!({ "error": false, "code": 200, "data": data, "pagination": pagination }))
}

/// What the simulated cloud refuses, in VPSie's words.
pub(super) fn refused(refusal: &Refusal) -> Response {
    match refusal {
        Refusal::NotFound(id) => enveloped_error(404, &format!("{id} is not found")),
        Refusal::Invalid(problem) => enveloped_error(400, problem),
        Refusal::Denied(problem) => enveloped_error(403, problem),
        Refusal::Throttled { retry_after } => throttled(retry_after.map_or(1, |wait| wait.as_secs())),
        Refusal::Unknown(_) => broken(),
        Refusal::Unavailable(lacking) => match lacking.first().map(|lacking| &lacking.lack) {
            Some(Lack::Quota(name)) => error_with_status_200(400, &format!("Quota exceeded: {name}")),
            Some(Lack::Stock) => enveloped_error(422, OUT_OF_STOCK),
            Some(Lack::NotOffered) | None => enveloped_error(400, "There is no such offering"),
        },
    }
}

pub(super) fn throttled(retry_after_secs: u64) -> Response {
    let mut response = enveloped_error(429, "Too Many Requests");
    response.headers_mut().insert(header::RETRY_AFTER, retry_after_secs.into());
    response
}

/// What a proxy before VPSie says, or one that has lost its way.
pub(super) fn text_of(status: u16, text: impl Into<Body>) -> Response {
    made(status, "text/html", text.into())
}

/// The head of an answer, and then nothing: the connection ends.
pub(super) fn broken() -> Response {
    made(200, "application/json", Body::new(Broken))
}

fn json_of(status: u16, value: &Value) -> Response {
    made(status, "application/json", Body::from(value.to_string()))
}

fn made(status: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    if let Ok(status) = http::StatusCode::from_u16(status) {
        *response.status_mut() = status;
    }
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

struct Broken;

#[derive(Debug, thiserror::Error)]
#[error("the connection ends")]
struct Ends;

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = Ends;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Ends>>> {
        Poll::Ready(Some(Err(Ends)))
    }
}
