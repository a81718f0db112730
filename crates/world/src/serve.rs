//! The API as a service: for a client in the same process, and behind a socket.

use std::convert::Infallible;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{Router, any};
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use serde_json::Value;

use crate::api::{Answer, Api, Call, Events, user};
use crate::failure::{Failure, Reason};

/// What the API server takes at most.
const BODY_BYTES_MAX: usize = 3 << 20;

pub(crate) fn router(api: Api) -> Router {
    Router::new().fallback(any(answer)).with_state(api)
}

async fn answer(State(api): State<Api>, request: Request) -> Response {
    let (called, warnings) = match read(request).await {
        Ok(call) => api.call(&call).await,
        Err(failure) => (Err(failure), Vec::new()),
    };
    let mut response = match called {
        Ok(Answer::Object(code, object)) => json(code, &object),
        Ok(Answer::As(form, object)) => response(200, form, Body::from(object.to_string())),
        Ok(Answer::Bytes(form, bytes)) => response(200, form, Body::from(bytes)),
        Ok(Answer::Text(text)) => response(200, "text/plain; charset=utf-8", Body::from(text)),
        Ok(Answer::NoPage) => response(404, "text/plain; charset=utf-8", Body::from("404 page not found\n")),
        Ok(Answer::Events(events)) => response(200, "application/json", Body::from_stream(lines(events))),
        Err(failure) => {
            let mut response = json(failure.code(), &failure.to_status());
            if let Some(secs) = failure.details.retry_after_secs {
                response.headers_mut().insert(RETRY_AFTER, secs.into());
            }
            response
        }
    };
    for warning in warnings {
        if let Ok(value) = http::HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// In quotes, without what a header cannot hold.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|letter| !letter.is_control()).collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

async fn read(request: Request) -> Result<Call, Failure> {
    let (parts, body) = request.into_parts();
    let header = |name: http::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| {
        let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
        Failure::new(Reason::RequestEntityTooLarge, message)
    })?;
    Ok(Call {
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header(CONTENT_TYPE),
        accept: header(ACCEPT),
        agent: header(USER_AGENT),
        user: user(&parts.headers),
        body: body.to_vec(),
    })
}

/// Each event on a line of its own.
fn lines(events: Events) -> impl stream::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(events, async |mut events| {
        let event = events.next().await?;
        let mut line = event.to_string();
        line.push('\n');
        Some((Ok(Bytes::from(line)), events))
    })
}

fn json(code: u16, object: &Value) -> Response {
    response(code, "application/json", Body::from(object.to_string()))
}

fn response(code: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
