//! The page: the cluster as Berth sees it, live, in a browser.
//!
//! It is one file without anything from elsewhere. What it shows comes as one JSON document, once at `api/view` and
//! again after each look at `api/stream`.

mod controls;
mod gallery;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use http::header::{self, HeaderName};
use http::uri::Authority;
use http::{HeaderValue, StatusCode};
use tokio::sync::watch;

use crate::report::Report;
use gallery::Gallery;

pub use controls::{Control, Controls, ControlsView, Declined, Wish, Workload};

const PAGE: &str = include_str!("index.html");
/// Scripts and styles of the page itself, and nothing from anywhere else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A wish is a line; whoever sends more means something else.
const WISH_BYTES_MAX: usize = 4096;

/// The page of an operator that listens there, with what can be done to its world where that is a demo.
pub fn router(
    address: SocketAddr,
    reports: watch::Receiver<Arc<Report>>,
    controls: Option<Controls>,
) -> Router {
    let gallery = Arc::new(Gallery::new(reports, controls));
    Router::new()
        .route("/", get(page))
        .route("/api/view", get(view))
        .route("/api/stream", get(stream_of_views))
        .route("/api/control", post(control))
        .with_state(gallery)
        .layer(middleware::from_fn_with_state(address, called_by_its_name))
        .layer(middleware::from_fn(guarded))
}

/// Any site can have its own name stand for this machine, and then ask as that site. Who is meant for this machine alone
/// is called by no such name.
async fn called_by_its_name(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().host()).unwrap_or_default();
    if address.ip().is_loopback() && !is_of_this_machine(host) {
        let message =
            format!("this page is only for this machine, and not for `{host}`: open http://{address}");
        return refused(StatusCode::MISDIRECTED_REQUEST, message);
    }
    next.run(request).await
}

/// `localhost` or an address, with or without a port.
fn is_of_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

async fn guarded(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let guards: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in guards {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn page() -> Response {
    answer(StatusCode::OK, "text/html; charset=utf-8", PAGE)
}

async fn view(State(gallery): State<Arc<Gallery>>) -> Response {
    match gallery.view() {
        Some(view) => answer(StatusCode::OK, "application/json", view.as_bytes().to_vec()),
        None => refused(StatusCode::SERVICE_UNAVAILABLE, "Berth has not looked at the cluster yet"),
    }
}

async fn stream_of_views(State(gallery): State<Arc<Gallery>>) -> Response {
    let events = stream::unfold(gallery.visit(), async |mut visit| {
        let view = visit.next().await?;
        Some((Ok::<Event, Infallible>(Event::default().event("view").data(view)), visit))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

async fn control(State(gallery): State<Arc<Gallery>>, request: Request) -> Response {
    let Some(controls) = gallery.controls() else {
        return refused(StatusCode::NOT_FOUND, "only `berth demo` has something to control");
    };
    // Other sites can have a browser send forms and plain text here, but not this.
    let form = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if form.is_none_or(|form| form.split(';').next() != Some("application/json")) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "what is wanted is sent as application/json");
    }
    let Ok(body) = to_bytes(request.into_body(), WISH_BYTES_MAX).await else {
        let message = format!("what is wanted takes at most {WISH_BYTES_MAX} bytes");
        return refused(StatusCode::PAYLOAD_TOO_LARGE, message);
    };
    match wish(controls, &body).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err((status, message)) => refused(status, message),
    }
}

async fn wish(controls: &Controls, body: &Bytes) -> Result<(), (StatusCode, String)> {
    let wish: Control = serde_json::from_slice(body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("this is not understood: {error}")))?;
    let declined = |declined: Declined| match declined {
        Declined::Refused(why) => (StatusCode::UNPROCESSABLE_ENTITY, why),
        Declined::Gone => (StatusCode::SERVICE_UNAVAILABLE, "the demo is over".to_owned()),
    };
    controls.ask(wish).await.map_err(declined)
}

fn refused(status: StatusCode, message: impl Into<String>) -> Response {
    answer(status, "text/plain; charset=utf-8", message.into())
}

fn answer(status: StatusCode, form: &'static str, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, form)], body.into()).into_response()
}

#[cfg(test)]
mod tests;
