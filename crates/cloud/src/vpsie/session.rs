//! Being signed in: the token of now, and other credentials in place of these.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{Body, Call, Client};
use super::credentials::{Credentials, Key, Secret};
use super::envelope::malformed;
use super::error::{ApiError, Fault};
use super::limiter::Lane;
use super::observer::Event;
use super::settings::CloudSettings;

const SIGN_IN: &str = "/auth/from/api";
/// A token is not used up to its last moment: a request takes time, and clocks differ.
const RENEWED_BEFORE: Duration = Duration::from_mins(5);
/// How long a token is taken to last that does not say.
const LASTS: Duration = Duration::from_hours(1);
/// The cheapest question that needs credentials.
const TRIAL: &str = "/datacenters";

/// Credentials, and the token that was got for them. Whoever holds one goes on with it when others take its place.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) credentials: Credentials,
    /// Held while a token is fetched, so that all who need one wait for the same.
    grant: Mutex<Option<Grant>>,
}

#[derive(Clone, Debug)]
struct Grant {
    token: Secret,
    renew_at: Instant,
}

/// What came of other credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    Taken,
    /// They are those that are in use.
    Same,
}

impl Session {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self { credentials, grant: Mutex::default() }
    }

    /// Forgets a token that was not accepted. Whether another can be got.
    pub(super) async fn discard(&self, token: &Secret) -> bool {
        let mut grant = self.grant.lock().await;
        // Somebody else may have fetched another meanwhile.
        if grant.as_ref().is_some_and(|grant| grant.token == *token) {
            *grant = None;
        }
        matches!(self.credentials.key, Key::Pair { .. })
    }
}

impl Client {
    /// The token for a request of this session, fetched if there is none that lasts.
    pub(super) async fn token(&self, session: &Session) -> Result<Secret, ApiError> {
        let (id, secret) = match &session.credentials.key {
            Key::Token(token) => return Ok(token.clone()),
            Key::Pair { id, secret } => (id, secret),
        };
        let mut held = session.grant.lock().await;
        if let Some(grant) = held.as_ref().filter(|grant| Instant::now() < grant.renew_at) {
            return Ok(grant.token.clone());
        }
        let grant = self.sign_in(&session.credentials, id, secret).await?;
        *held = Some(grant.clone());
        Ok(grant.token)
    }

    async fn sign_in(
        &self,
        credentials: &Credentials,
        id: &Secret,
        secret: &Secret,
    ) -> Result<Grant, ApiError> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("clientId", id.expose())
            .append_pair("clientSecret", secret.expose())
            .finish();
        let call = Call {
            body: Body::Form(Secret::new(&form)),
            // One token more or less harms nobody.
            repeatable: true,
            ..Call::new(Method::POST, SIGN_IN, Lane::Acting)
        };
        let answered = self.repeat(credentials, &call, None).await?;
        let lacks = |fault| self.error(&call, &answered.request, fault);
        let document = answered.envelope.document();
        let access = document.get("accessToken");
        let token = access.get("token").text("the token").map_err(|error| lacks(malformed(error)))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = "accessToken.token: is no text for a header".to_owned();
            return Err(lacks(Fault::Malformed { problem }));
        }
        let expires = access.get("expires");
        let lasts = if expires.is_present() {
            let text = expires.text("a time as in RFC 3339").map_err(|error| lacks(malformed(error)))?;
            let at: Timestamp = text.parse().map_err(|_| {
                let problem = "accessToken.expires: is no time as in RFC 3339".to_owned();
                lacks(Fault::Malformed { problem })
            })?;
            Duration::try_from(at.duration_since(self.now())).unwrap_or_default()
        } else {
            LASTS
        };
        self.observe(&Event::SignedIn { lasts });
        // One that lasts only minutes is used for half of them, not fetched anew for every request.
        let renewed_after = lasts.saturating_sub(RENEWED_BEFORE.min(lasts / 2));
        Ok(Grant { token: Secret::new(token), renew_at: Instant::now() + renewed_after })
    }

    /// Goes on with other credentials if they work for what is asked there, and else with those that worked so far.
    /// Requests that are under way are not disturbed.
    pub async fn replace(
        &self,
        credentials: Credentials,
        settings: &CloudSettings,
    ) -> Result<Replaced, ApiError> {
        if self.session().credentials == credentials {
            return Ok(Replaced::Same);
        }
        let began = Instant::now();
        let session = Session::new(credentials);
        let tried = self.try_out(&session, settings).await;
        self.observe(&Event::Rotated { accepted: tried.is_ok(), took: began.elapsed() });
        tried?;
        self.set_session(Arc::new(session));
        Ok(Replaced::Taken)
    }

    async fn try_out(&self, session: &Session, settings: &CloudSettings) -> Result<(), ApiError> {
        let token = self.token(session).await?;
        let ask = async |path: &str| {
            let call = Call { repeatable: true, ..Call::new(Method::GET, path, Lane::Acting) };
            self.repeat(&session.credentials, &call, Some(&token)).await.map(drop)
        };
        match ask(TRIAL).await {
            // An installation need not have this path. If it has none of ours, it is none, or the way there is wrong.
            Err(ApiError { fault: Fault::NotFound { .. }, .. }) => ask(&settings.path_of_machines()).await,
            told => told,
        }
    }
}
