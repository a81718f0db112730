//! The API as a service: for a client in the same process, and behind a socket.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{Router, any};
use futures::{StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};

use crate::api::{Answer, Api, Call, Events, Peer, Warnings};
use crate::failure::{Failure, Reason};
use crate::faults::{self, HarmedEvents, Lost, Served};
use crate::json::Value;

/// What the API server takes at most.
const BODY_BYTES_MAX: usize = 3 << 20;
/// So much more is read, and thrown away.
const REST_BYTES_MAX: usize = 1 << 30;

pub(crate) fn router(served: Served) -> Router {
    Router::new().fallback(any(answer)).with_state(served)
}

/// Behind a socket, a client is the program that it says it is.
async fn answer(State(served): State<Served>, request: Request) -> Response {
    let call = match read(&served.api, request).await {
        Ok(call) => call,
        Err(failure) => return refuse(&failure),
    };
    let client = call.agent.split('/').next().unwrap_or_default().to_owned();
    match faults::answer(&served, &client, call).await {
        Ok(response) => response,
        Err(lost) => broken(lost),
    }
}

/// An answer that breaks off is as near to a broken connection as a handler comes: who holds the connection sees
/// by the mark that it is to break instead.
fn broken(lost: Lost) -> Response {
    let mut response = Response::new(Body::from_stream(stream::iter([Err::<Bytes, Lost>(lost)])));
    response.extensions_mut().insert(lost);
    response
}

/// Whether the client is not to hear this, but that its connection breaks.
pub(crate) fn is_lost(response: &Response) -> bool {
    response.extensions().get::<Lost>().is_some()
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
        Ok(Answer::Nothing) => nothing(),
        Ok(Answer::NoPage) => response(404, "text/plain; charset=utf-8", Body::from("404 page not found\n")),
        Ok(Answer::Events(events)) => {
            response(200, "application/json", Body::from_stream(lines(listener(*events))))
        }
        Err(failure) => refuse(&failure),
    }
}

/// An answer with what is said beside it.
pub(crate) fn warned(mut response: Response, warnings: &Warnings) -> Response {
    for text in warnings.all() {
        // Without what a header cannot hold.
        let plain: String = text.chars().filter(|letter| !letter.is_control()).collect();
        let quoted = plain.replace('\\', r"\\").replace('"', "\\\"");
        if let Ok(value) = http::HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

pub(crate) fn refuse(failure: &Failure) -> Response {
    let mut response = json(failure.code(), &failure.to_status());
    if let Some(secs) = failure.details.retry_after_secs {
        response.headers_mut().insert(RETRY_AFTER, secs.into());
    }
    response
}

/// What a gateway says that does not reach its server, in its own form.
pub(crate) fn bad_gateway() -> Response {
    let page = "<html>\n<head><title>502 Bad Gateway</title></head>\n<body>502 Bad Gateway</body>\n</html>\n";
    response(502, "text/html", Body::from(page))
}

pub(crate) async fn read(api: &Api, request: Request) -> Result<Call, Failure> {
    let (parts, body) = request.into_parts();
    let header = |name: http::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let user = api.user(&parts.headers, parts.extensions.get::<Peer>());
    let asks_only = matches!(parts.method, http::Method::GET | http::Method::HEAD);
    // Whatever the answer, the body is let run out first: clients have trouble with one that comes before its end.
    let body = whole(body).await;
    let user = user?;
    let body = if asks_only { Vec::new() } else { body? };
    Ok(Call {
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header(CONTENT_TYPE),
        accept: header(ACCEPT),
        agent: header(USER_AGENT),
        user,
        body,
        warnings: Warnings::default(),
    })
}

/// A body, if it is not too large. The rest of a larger one is read and thrown away.
async fn whole(body: Body) -> Result<Vec<u8>, Failure> {
    let mut chunks = body.into_data_stream();
    let (mut whole, mut read) = (Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        // Who leaves in the middle hears no answer.
        let chunk = chunk.map_err(|error| Failure::bad_request(error.to_string()))?;
        read = read.saturating_add(chunk.len());
        if read <= BODY_BYTES_MAX {
            whole.extend_from_slice(&chunk);
        } else if read > REST_BYTES_MAX {
            break;
        }
    }
    if read <= BODY_BYTES_MAX {
        return Ok(whole);
    }
    let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
    Err(Failure::new(Reason::RequestEntityTooLarge, message))
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

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = http::StatusCode::NO_CONTENT;
    response
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
