//! Where a client sits: between it and the API, what the plan says goes wrong.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use http::header::InvalidHeaderValue;
use http::{HeaderName, HeaderValue, Request, Response};
use tokio::time::sleep;
use tower_service::Service;

use super::{Deed, Faults, Harm, HarmedEvents, Side};
use crate::api::{Answer, Api, Call};
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::request::{Query, Target, Verb};
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
pub(crate) async fn answer(served: &Served, client: &str, mut call: Call) -> Result<Response<Body>, Lost> {
    let Served { api, faults } = served;
    if faults.of(client).has_crashed {
        pending::<()>().await;
    }
    let asked = deed(api, &call);
    let mut most = usize::MAX;
    if let Some((_, deed)) = &asked {
        for harm in faults.strike(client, Side::Before, deed) {
            match harm {
                Harm::Status { code, retry_after_secs } => {
                    let revision = api.state().store.revision();
                    let stale_secs = faults.stale_secs(client, api.state().now());
                    faults.note(|| deed.asked(client, code, (revision, revision), stale_secs));
                    return Ok(serve::refuse(&failure(code, retry_after_secs)));
                }
                Harm::Partial(count) => most = count,
                harm => suffer(served, client, harm).await?,
            }
        }
    }
    let frozen = faults.frozen(client, api.state().now());
    if let (Some((Verb::List, _)), Some(frozen)) = (&asked, frozen)
        && !call.query.contains("continue=")
    {
        let then = format!("resourceVersion={}&resourceVersionMatch=Exact", frozen.revision);
        call.query = [&*call.query, &*then].join("&");
    }
    let before = api.state().store.revision();
    let mut answered = api.call(&call).await;
    if let Some((_, deed)) = &asked {
        let status = match &answered {
            Ok(Answer::Object(code, _)) => *code,
            Ok(_) => 200,
            Err(failure) => failure.code(),
        };
        let after = api.state().store.revision();
        let stale_secs = faults.stale_secs(client, api.state().now());
        faults.note(|| deed.asked(client, status, (before, after), stale_secs));
        for harm in faults.strike(client, Side::After, deed) {
            suffer(served, client, harm).await?;
        }
    }
    if let Ok(Answer::Object(200, list)) = &mut answered {
        cut(list, most);
    }
    let response = serve::respond(answered, |events| HarmedEvents::new(api, faults, client, events));
    Ok(serve::warned(response, &call.warnings))
}

/// What a request asks, if it is one for resources.
fn deed(api: &Api, call: &Call) -> Option<(Verb, Deed)> {
    let query = Query::parse(&call.query).ok()?;
    let Ok(Target::Resource(place)) = Target::parse(&call.path, &api.state().kinds) else { return None };
    let verb = place.verb(&call.method, query.watch).ok()?;
    Some((verb, Deed::request(verb, &place)))
}

/// What happens to the client around its request, whatever the answer is.
async fn suffer(served: &Served, client: &str, harm: Harm) -> Result<(), Lost> {
    let Served { api, faults } = served;
    match harm {
        Harm::Crash => {
            faults.crash(client);
            pending::<()>().await;
        }
        Harm::Lost => return Err(Lost),
        Harm::Delay(wait) => sleep(wait).await,
        Harm::Freeze(length) => {
            let (revision, now) = {
                let state = api.state();
                (state.store.revision(), state.now())
            };
            faults.freeze(client, revision, now, length);
        }
        Harm::Clock(by) => faults.set_clock(client, by),
        Harm::Status { .. } | Harm::Partial(_) | Harm::Drop | Harm::Repeat | Harm::Silence => {}
    }
    Ok(())
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
