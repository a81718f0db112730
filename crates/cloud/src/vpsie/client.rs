//! Requests with all that surrounds them: credentials, turns, the breaker, repetitions, and who is told.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderValue, Method, Request, header};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::breaker::{Breaker, Change, Phase};
use super::credentials::{Credentials, Secret};
use super::envelope::Envelope;
use super::error::{ApiError, Fault};
use super::limiter::{Lane, Limiter};
use super::note::number_of_text;
use super::observer::{Event, Observer, Outcome};
use super::session::Session;
use super::settings::ClientSettings;
use super::transport::{BODY_BYTES_MAX, Lost, Transport};
use crate::USER_AGENT;

/// A message that is longer is somebody else's page.
const MESSAGE_CHARS_MAX: usize = 300;
const REQUEST_ID: &str = "x-request-id";
/// After these a request that can be repeated is.
const REPEATED_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400)];
/// Whoever is told to wait longer than this passes it on rather than wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// One request, as far as it does not depend on who sends it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Encoded, with a slash before it.
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) body: Body,
    pub(super) lane: Lane,
    /// Done twice is the same as done once.
    pub(super) repeatable: bool,
    pub(super) departure: Option<Departure>,
}

/// Of a call that is made once, and known to be made or not.
#[derive(Clone, Debug)]
pub(super) struct Departure {
    /// Not sent from then on.
    pub(super) before: Instant,
    /// It is on its way. Until then, whoever gives it up knows that nothing came of it.
    pub(super) has_left: Arc<AtomicBool>,
}

impl Departure {
    pub(super) fn new(before: Instant) -> Self {
        Self { before, has_left: Arc::default() }
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    None,
    Json(Value),
    /// Encoded already.
    Form(Secret),
}

impl Call {
    pub(super) fn new(method: Method, path: impl Into<String>, lane: Lane) -> Self {
        let (path, query, body) = (path.into(), None, Body::None);
        Self { method, path, query, body, lane, repeatable: false, departure: None }
    }
}

#[derive(Debug)]
pub(super) struct Answered {
    pub(super) envelope: Envelope,
    /// The id of the request.
    pub(super) request: String,
}

/// A client of VPSie's API. It must be asked where tokio runs.
pub struct Client {
    settings: ClientSettings,
    transport: Arc<dyn Transport>,
    observer: Arc<dyn Observer>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    began_at: Timestamp,
    session: RwLock<Arc<Session>>,
    limiter: Limiter,
    breaker: Breaker,
    requests: AtomicU64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("settings", &self.settings)
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}

impl Client {
    pub fn new(
        settings: ClientSettings,
        credentials: Credentials,
        transport: Arc<dyn Transport>,
        observer: Arc<dyn Observer>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings,
            transport,
            observer,
            began_at: now(),
            now: Box::new(now),
            session: RwLock::new(Arc::new(Session::new(credentials))),
            limiter: Limiter::default(),
            breaker: Breaker::default(),
            requests: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Which process this is, among those that work for the same cluster one after or beside the other.
    pub(super) fn maker(&self) -> u64 {
        number_of_text(&format!("{}-{}", self.settings.process, self.began_at.as_millisecond()))
    }

    pub(super) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_session(&self, session: Arc<Session>) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = session;
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        self.observer.observe(event);
    }

    /// Asks as whoever Berth is now.
    pub(super) async fn ask(&self, call: &Call) -> Result<Answered, ApiError> {
        let answered = self.ask_signed_in(call).await;
        match &answered {
            Ok(_) => self.observe(&Event::Recognized { accepted: true }),
            Err(ApiError { fault: Fault::Unauthorized { .. }, .. }) => {
                self.observe(&Event::Recognized { accepted: false });
            }
            // Whoever says nothing of it has nothing against it.
            Err(_) => {}
        }
        answered
    }

    /// A token that is not accepted is replaced by another once.
    async fn ask_signed_in(&self, call: &Call) -> Result<Answered, ApiError> {
        let session = self.session();
        let token = self.token(&session).await?;
        let refused = match self.repeat(&session.credentials, call, Some(&token)).await {
            Err(error) if matches!(error.fault, Fault::Unauthorized { .. }) => error,
            other => return other,
        };
        let can_renew = session.discard(&token).await;
        let current = self.session();
        if !can_renew && Arc::ptr_eq(&session, &current) {
            return Err(refused);
        }
        let token = self.token(&current).await?;
        self.repeat(&current.credentials, call, Some(&token)).await
    }

    /// Asks again what can be asked again and may do better then.
    pub(super) async fn repeat(
        &self,
        credentials: &Credentials,
        call: &Call,
        token: Option<&Secret>,
    ) -> Result<Answered, ApiError> {
        for pause in REPEATED_AFTER {
            let error = match self.once(credentials, call, token).await {
                Err(error) if call.repeatable && error.fault.may_pass() => error,
                other => return other,
            };
            let pause = match error.fault {
                Fault::Throttled { retry_after: Some(told) } if told > PATIENCE => return Err(error),
                Fault::Throttled { retry_after: Some(told) } => pause.max(told),
                _ => pause,
            };
            sleep(pause).await;
        }
        self.once(credentials, call, token).await
    }

    async fn once(
        &self,
        credentials: &Credentials,
        call: &Call,
        token: Option<&Secret>,
    ) -> Result<Answered, ApiError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let request = format!("{}-{:x}-{number}", self.settings.process, self.began_at.as_millisecond());
        let answered = self.exchange(credentials, call, token, &request).await;
        let envelope = answered.map_err(|fault| {
            let scrub = |words: &str| token.map_or_else(|| words.to_owned(), |token| token.scrub(words));
            let fault = scrubbed(fault, &|words| credentials.scrub(&scrub(words)));
            self.error(call, &request, fault)
        })?;
        Ok(Answered { envelope, request })
    }

    async fn exchange(
        &self,
        credentials: &Credentials,
        call: &Call,
        token: Option<&Secret>,
        request_id: &str,
    ) -> Result<Envelope, Fault> {
        let method = call.method.as_str();
        let began = Instant::now();
        let permit = self.limiter.acquire(call.lane).await;
        if permit.has_waited() {
            self.observe(&Event::Waited { method, lane: call.lane, took: began.elapsed() });
        }
        if call.departure.as_ref().is_some_and(|departure| Instant::now() >= departure.before) {
            permit.give_back();
            return Err(Fault::Late);
        }
        let passage = match self.breaker.admit() {
            Ok((passage, change)) => {
                self.tell(change);
                passage
            }
            Err(probe_in) => {
                permit.give_back();
                self.observe(&Event::Withheld { method, probe_in });
                return Err(Fault::Withheld { probe_in });
            }
        };
        let request = request(credentials, call, token, request_id)?;
        if let Some(departure) = &call.departure {
            departure.has_left.store(true, Ordering::Relaxed);
        }
        let began = Instant::now();
        let limit = self.settings.timeout;
        let answer = match timeout(limit, self.transport.send(request)).await {
            Ok(Ok(response)) if response.body().len() > BODY_BYTES_MAX => Err(Lost::TooLarge),
            Ok(answer) => answer,
            Err(_) => Err(Lost::Timeout(limit)),
        };
        drop(permit);
        let outcome = match &answer {
            Ok(response) => Outcome::Status(response.status().as_u16()),
            Err(lost) => Outcome::Lost(lost.kind()),
        };
        let took = began.elapsed();
        self.observe(&Event::Called { method, outcome, took });
        let duration = took.as_secs_f64();
        tracing::debug!(method, path = call.path, requestID = request_id, ?outcome, duration, "asked VPSie");
        let envelope = answer.map_err(Fault::Lost).and_then(|response| Envelope::read(&response));
        self.tell(passage.end(envelope.as_ref().is_err_and(Fault::is_outage)));
        envelope
    }

    fn tell(&self, change: Option<Change>) {
        let Some((from, to)) = change else { return };
        self.observe(&Event::Breaker { from, to });
        match to {
            Phase::Open => tracing::warn!("VPSie fails too often and is not asked for a while"),
            Phase::Probing => tracing::info!("VPSie is asked again, once"),
            Phase::Closed => tracing::info!("VPSie answers again"),
        }
    }

    /// Asks, and reads the answer.
    pub(super) async fn ask_for<T>(
        &self,
        call: &Call,
        read: impl FnOnce(&Envelope) -> Result<T, Fault>,
    ) -> Result<T, ApiError> {
        let answered = self.ask(call).await?;
        read(&answered.envelope).map_err(|fault| self.error(call, &answered.request, fault))
    }

    pub(super) fn error(&self, call: &Call, request: &str, fault: Fault) -> ApiError {
        let credentials = &self.session().credentials;
        let fault = scrubbed(fault, &|words| credentials.scrub(words));
        ApiError { method: call.method.clone(), path: call.path.clone(), request: request.to_owned(), fault }
    }
}

fn request(
    credentials: &Credentials,
    call: &Call,
    token: Option<&Secret>,
    request_id: &str,
) -> Result<Request<Bytes>, Fault> {
    let query = call.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
    let uri = credentials.base.at(&format!("{}{query}", call.path));
    let (content_type, body) = match &call.body {
        Body::None => (None, Bytes::new()),
        Body::Json(value) => (Some("application/json"), value.to_string().into()),
        Body::Form(form) => (Some("application/x-www-form-urlencoded"), form.expose().to_owned().into()),
    };
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(uri)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "application/json")
        .header(REQUEST_ID, request_id);
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    let unsendable =
        |_| Fault::Refused { code: 0, message: "the request cannot be written as HTTP".to_owned() };
    if let Some(token) = token {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|error| unsendable(error.into()))?;
        bearer.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, bearer);
    }
    request.body(body).map_err(unsendable)
}

/// What a server says may repeat what it was sent, and at length. Only what is clean is cut: half of a secret would not be
/// known for one.
fn scrubbed(fault: Fault, clean: &dyn Fn(&str) -> String) -> Fault {
    let scrub = |words: &str| clean(words).chars().take(MESSAGE_CHARS_MAX).collect::<String>();
    match fault {
        Fault::Unauthorized { message } => Fault::Unauthorized { message: scrub(&message) },
        Fault::Quota { message, breadth } => Fault::Quota { message: scrub(&message), breadth },
        Fault::SoldOut { message } => Fault::SoldOut { message: scrub(&message) },
        Fault::NotFound { message } => Fault::NotFound { message: scrub(&message) },
        Fault::Refused { code, message } => Fault::Refused { code, message: scrub(&message) },
        Fault::Failed { code, message } => Fault::Failed { code, message: scrub(&message) },
        Fault::Malformed { problem } => Fault::Malformed { problem: scrub(&problem) },
        Fault::NotJson { bytes, content_type } => {
            Fault::NotJson { bytes, content_type: scrub(&content_type) }
        }
        Fault::Lost(Lost::Connection(words)) => Fault::Lost(Lost::Connection(scrub(&words))),
        Fault::Lost(Lost::Broken(words)) => Fault::Lost(Lost::Broken(scrub(&words))),
        other @ (Fault::Lost(_)
        | Fault::Withheld { .. }
        | Fault::Late
        | Fault::Throttled { .. }
        | Fault::Redirected { .. }) => other,
    }
}

#[cfg(test)]
mod tests;
