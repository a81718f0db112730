//! Where a client sits: between it and the API, what the plan says goes wrong.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use http::header::{InvalidHeaderValue, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Request, Response};
use tokio::time::sleep;
use tower_service::Service;

use super::client::Session;
use super::{Deed, Faults, Harm, HarmedEvents, Side};
use crate::api::{Answer, Api, Call};
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::serve;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// The connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by peer")
    }
}

impl std::error::Error for Lost {}

/// The API and what goes wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) api: Api,
    pub(crate) faults: Faults,
}

/// The API as one client has it: a service that a `kube::Client` takes as it is.
#[derive(Clone, Debug)]
pub struct Seat {
    served: Served,
    client: String,
    /// Who asks, if it is not somebody who may do everything.
    user: Option<HeaderValue>,
}

impl Seat {
    pub(crate) fn new(served: Served, client: &str) -> Self {
        Self { served, client: client.to_owned(), user: None }
    }

    /// The same for a user whom the stored roles bind, such as `system:serviceaccount:berth-system:berth`.
    pub fn acting_as(self, user: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(Self { user: Some(HeaderValue::from_str(user)?), ..self })
    }
}

impl<B> Service<Request<B>> for Seat
where
    B: http_body::Body<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<Body>;
    type Error = Lost;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Lost>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { served, client, user } = self.clone();
        if let Some(user) = user {
            request.headers_mut().insert(IMPERSONATE_USER, user);
        }
        Box::pin(async move {
            match serve::read(&served.api, request.map(Body::new)).await {
                Ok(call) => answer(&served, &client, call).await,
                Err(failure) => Ok(serve::refuse(&failure)),
            }
        })
    }
}

/// The answer to a request, if the client gets one.
pub(crate) async fn answer(served: &Served, client: &str, call: Call) -> Result<Response<Body>, Lost> {
    let Some(session) = Session::begin(&served.faults, client) else { return pending().await };
    let answered = served.answer(&session, client, call).await;
    if session.has_crashed() {
        pending::<()>().await;
    }
    answered
}

impl Served {
    async fn answer(&self, session: &Session, client: &str, mut call: Call) -> Result<Response<Body>, Lost> {
        let Self { api, faults } = self;
        let deed = Deed::request(&call.method, &call.path, &call.query);
        let stale_secs = || {
            let state = api.state();
            faults.stale_secs(client, state.now(), |resource| state.store.touched(resource))
        };
        let mut most = usize::MAX;
        for harm in faults.strike(client, Side::Before, &deed) {
            match harm {
                Harm::Status { code, retry_after_secs } => {
                    let revision = api.state().store.revision();
                    let stale_secs = stale_secs();
                    faults.note(|| deed.asked(client, code, (revision, revision), stale_secs));
                    return Ok(refusal(code, retry_after_secs));
                }
                Harm::Partial(count) => most = count,
                harm => self.suffer(session, client, harm).await?,
            }
        }
        let now = api.state().now();
        if deed.verb == "list"
            && !call.query.contains("continue=")
            && let Some(frozen) = faults.frozen(client, &deed.resource, now)
        {
            let then = format!("resourceVersion={}&resourceVersionMatch=Exact", frozen.revision);
            call.query = [&*call.query, &*then].join("&");
        }
        let before = api.state().store.revision();
        let mut answered = api.call(&call).await;
        let status = match &answered {
            Ok(Answer::Object(code, _)) => *code,
            Ok(Answer::NoPage) => 404,
            Ok(_) => 200,
            Err(failure) => failure.code(),
        };
        let after = api.state().store.revision();
        let stale_secs = stale_secs();
        faults.note(|| deed.asked(client, status, (before, after), stale_secs));
        let (mut slow, mut denied) = (Duration::ZERO, None);
        for harm in faults.strike(client, Side::After, &deed) {
            match harm {
                Harm::Slow(length) => slow = slow.saturating_add(length),
                // The server, or whoever is before it, knows no better than that something is wrong.
                Harm::Status { code, retry_after_secs } => denied = Some(refusal(code, retry_after_secs)),
                harm => self.suffer(session, client, harm).await?,
            }
        }
        if let Ok(Answer::Object(200, list)) = &mut answered {
            cut(list, most);
        }
        let listener = |events| HarmedEvents::new(self, session.clone(), client, events, most);
        let response =
            denied.unwrap_or_else(|| serve::warned(serve::respond(answered, listener), &call.warnings));
        Ok(if slow.is_zero() { response } else { slowed(response, slow, session) })
    }

    /// What happens to the client around its request, whatever the answer is.
    async fn suffer(&self, session: &Session, client: &str, harm: Harm) -> Result<(), Lost> {
        match harm {
            Harm::Lost => return Err(Lost),
            Harm::Delay(wait) => sleep(wait).await,
            harm => self.befall(client, harm),
        }
        if session.has_crashed() {
            pending::<()>().await;
        }
        Ok(())
    }

    /// What lasts: how the client is from now on.
    pub(super) fn befall(&self, client: &str, harm: Harm) {
        let behind = if let Harm::Rewind { changes, .. } = harm { changes } else { 0 };
        let (revision, now) = {
            let state = self.api.state();
            let revision = state.store.revision().saturating_sub(behind).max(1);
            // What is forgotten cannot be shown.
            let oldest = state.store.changes_after(revision).err().map(|too_old| too_old.oldest);
            (oldest.unwrap_or(revision), state.now())
        };
        self.faults.change(client, |harmed| match harm {
            Harm::Crash => harmed.crash(),
            Harm::Freeze { length, of } => harmed.freeze(of, revision, now, length),
            Harm::Rewind { length, of, .. } => harmed.rewind(of, revision, now, length),
            Harm::Clock(by) => harmed.clock.set(by),
            Harm::Pace(percent) => harmed.clock.run(percent, now),
            Harm::Status { .. }
            | Harm::Lost
            | Harm::Delay(_)
            | Harm::Slow(_)
            | Harm::Partial(_)
            | Harm::Drop
            | Harm::Repeat
            | Harm::Swap
            | Harm::Silence
            | Harm::End => {}
        });
    }
}

/// So many parts has a body that is slow.
const PARTS: usize = 4;

/// The same with a body that takes so long, in parts: in a watch, each event does.
fn slowed(response: Response<Body>, length: Duration, session: &Session) -> Response<Body> {
    let session = session.clone();
    response.map(|body| {
        let parts = body.into_data_stream().flat_map(move |chunk| {
            let parts = in_parts(chunk);
            let wait = length / u32::try_from(parts.len()).unwrap_or(1).max(1);
            let session = session.clone();
            stream::iter(parts).then(move |part| {
                let session = session.clone();
                async move {
                    sleep(wait).await;
                    if session.has_crashed() {
                        pending::<()>().await;
                    }
                    part
                }
            })
        });
        Body::from_stream(parts)
    })
}

fn in_parts<E>(chunk: Result<Bytes, E>) -> Vec<Result<Bytes, E>> {
    match chunk {
        Ok(bytes) if !bytes.is_empty() => {
            let each = bytes.len().div_ceil(PARTS);
            bytes.chunks(each).map(|part| Ok(Bytes::copy_from_slice(part))).collect()
        }
        whole => vec![whole],
    }
}

/// Leaves out the end of a list, and that there is more.
fn cut(list: &mut Value, most: usize) {
    if most == usize::MAX {
        return;
    }
    for items in ["items", "rows"] {
        if let Some(items) = list.get_mut(items).and_then(Value::as_array_mut) {
            items.truncate(most);
        }
    }
    if let Some(metadata) = list.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("remainingItemCount");
        if metadata.contains_key("continue") {
            metadata.insert("continue", json!(""));
        }
    }
}

/// An answer that says no more than that something is wrong.
fn refusal(code: u16, retry_after_secs: Option<u32>) -> Response<Body> {
    let mut response = match code {
        502 => serve::bad_gateway(),
        code => serve::refuse(&failure(code, retry_after_secs)),
    };
    if let Some(secs) = retry_after_secs {
        response.headers_mut().insert(RETRY_AFTER, secs.into());
    }
    response
}

/// A failure as a server in trouble gives it.
pub(super) fn failure(code: u16, retry_after_secs: Option<u32>) -> Failure {
    let (reason, message) = match code {
        401 => (Reason::Unauthorized, "Unauthorized"),
        403 => (Reason::Forbidden, "forbidden: a fault was planned"),
        409 => (
            Reason::Conflict,
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest \
             version and try again",
        ),
        410 => (Reason::Expired, "too old resource version"),
        429 => (Reason::TooManyRequests, "too many requests, please try again later"),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => (Reason::Timeout, "the request timed out"),
        _ => (Reason::InternalError, "an error on the server has prevented the request from succeeding"),
    };
    let mut failure = Failure::new(reason, message);
    failure.details.retry_after_secs = retry_after_secs;
    failure
}
