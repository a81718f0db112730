//! The API as a service: for a client in the same process, and behind a socket.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{Router, any};
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use serde_json::Value;

use crate::api::{Answer, Call, Events, user};
use crate::failure::{Failure, Reason};
use crate::faults::{self, HarmedEvents, Lost, Served};

/// What the API server takes at most.
const BODY_BYTES_MAX: usize = 3 << 20;

pub(crate) fn router(served: Served) -> Router {
    Router::new().fallback(any(answer)).with_state(served)
}

/// Behind a socket, a client is the program that it says it is.
async fn answer(State(served): State<Served>, request: Request) -> Response {
    let call = match read(request).await {
        Ok(call) => call,
        Err(failure) => return refuse(&failure),
    };
    let client = call.agent.split('/').next().unwrap_or_default().to_owned();
    match faults::answer(&served, &client, call).await {
        Ok(response) => response,
        // An answer that breaks off is as near to a broken connection as a handler comes.
        Err(lost) => Response::new(Body::from_stream(stream::iter([Err::<Bytes, Lost>(lost)]))),
    }
}

/// What goes back to a client, who hears events as `listener` lets them through.
pub(crate) fn respond(
    answered: Result<Answer, Failure>,
    listener: impl FnOnce(Events) -> HarmedEvents,
) -> Response {
    match answered {
        Ok(Answer::Object(code, object)) => json(code, &object),
        Ok(Answer::As(form, object)) => response(200, form, Body::from(object.to_string())),
        Ok(Answer::Bytes(form, bytes)) => response(200, form, Body::from(bytes)),
        Ok(Answer::Text(text)) => response(200, "text/plain; charset=utf-8", Body::from(text)),
        Ok(Answer::NoPage) => response(404, "text/plain; charset=utf-8", Body::from("404 page not found\n")),
        Ok(Answer::Events(events)) => {
            response(200, "application/json", Body::from_stream(lines(listener(events))))
        }
        Err(failure) => refuse(&failure),
    }
}

pub(crate) fn refuse(failure: &Failure) -> Response {
    let mut response = json(failure.code(), &failure.to_status());
    if let Some(secs) = failure.details.retry_after_secs {
        response.headers_mut().insert(RETRY_AFTER, secs.into());
    }
    response
}

pub(crate) async fn read(request: Request) -> Result<Call, Failure> {
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
fn lines(events: HarmedEvents) -> impl stream::Stream<Item = Result<Bytes, Lost>> {
    stream::unfold(events, async |mut events| {
        let event = events.next().await?;
        let line = event.map(|event| {
            let mut line = event.to_string();
            line.push('\n');
            Bytes::from(line)
        });
        Some((line, events))
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
