//! The way to a cluster: whose API it is, and who asks.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::AsyncBufRead;
use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::pace::Pace;

/// Which cluster is meant. By default it is the one that kubectl would ask, or the one that this program runs in.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Why a cluster cannot be asked anything.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("cannot use {}: {}", path.display(), reason(error))]
    Kubeconfig { path: PathBuf, error: Box<KubeconfigError> },
    #[error("cannot use the context {context}: {}", reason(error))]
    Context { context: String, error: Box<KubeconfigError> },
    #[error(
        "no cluster is known: {0}; name a kubeconfig with --kubeconfig or KUBECONFIG, or run inside a cluster"
    )]
    Nowhere(String),
    #[error("cannot prepare to ask {server}: {message}")]
    Client { server: String, message: String },
    #[error("{server} does not answer: {message}")]
    Silent { server: String, message: String },
    #[error("{server} does not accept the credentials of {whom}: {message}")]
    Stranger { server: String, whom: String, message: String },
    #[error("cannot begin to ask: {0}")]
    Runtime(io::Error),
    #[error("{server} is no Kubernetes API: it says {message}")]
    Foreign { server: String, message: String },
}

/// A cluster that answered.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    server: String,
    pace: Option<Arc<Pace>>,
    /// Until when it wants to be left alone, if it has said so.
    busy: Arc<Mutex<Option<Instant>>>,
    /// How often it is asked again while it has no time.
    repeats: u32,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A cluster that takes longer to be reached is not worth the wait.
const CONNECT_SECS_MAX: u64 = 10;
/// Nor is one that stops in the middle of an answer.
const READ_SECS_MAX: u64 = 60;
/// Nor one that is too busy to say who it is, however often it is asked.
const INTRODUCTION_MAX: Duration = Duration::from_secs(20);
/// Whoever is in no hurry asks so often again, at first after this and then less and less often.
const REPEATS: u32 = 6;
const REPEAT_AFTER: Duration = Duration::from_millis(250);
/// What an API that has no time means where it does not say: its own limiter says so in a header, and always that.
const BUSY: Duration = Duration::from_secs(1);
/// However long it says, nobody is kept waiting for longer.
const BUSY_MAX: Duration = Duration::from_secs(30);

impl Cluster {
    /// One that is at hand, under a name for people.
    pub fn through(client: Client, server: &str) -> Self {
        Self { client, server: server.to_owned(), pace: None, busy: Arc::default(), repeats: 0 }
    }

    /// The same, asked again for a while where it has no time, for those who ask once and want an answer.
    #[must_use]
    pub fn patiently(&self) -> Self {
        Self { repeats: REPEATS, ..self.clone() }
    }

    /// The same, asked so many times a second at most, and so many times at once.
    #[must_use]
    pub fn paced(&self, per_second: f64, at_once: u32) -> Self {
        Self { pace: Some(Arc::new(Pace::new(per_second, at_once))), ..self.clone() }
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// Finds the cluster and asks who it is.
    pub async fn reach(choice: &Choice) -> Result<Self, Unreachable> {
        let mut config = config(choice).await?;
        config.connect_timeout = Some(Duration::from_secs(CONNECT_SECS_MAX));
        config.read_timeout = Some(Duration::from_secs(READ_SECS_MAX));
        // Else the time between two requests counts as well.
        config.reset_reader_on_write = true;
        // Who is told at once that a budget keeps a pod goes on with the others; and nobody asks more often than it is
        // allowed to.
        config.default_retry = false;
        config.headers.push((USER_AGENT, HeaderValue::from_static(berth_cloud::USER_AGENT)));
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config)
            .map_err(|error| Unreachable::Client { server: server.clone(), message: reason(&error) })?;
        let cluster = Self::through(client, &server);
        let whom = choice.context.as_ref().map(|context| format!("the context {context}"));
        cluster.patiently().introduce(whom.unwrap_or_else(|| "whoever asks".to_owned())).await?;
        Ok(cluster)
    }

    /// Whether it is one, and whether it talks to us, before all else is asked. Whoever may not ask this may still
    /// list.
    async fn introduce(&self, whom: String) -> Result<(), Unreachable> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(rename = "gitVersion")]
            _git_version: String,
        }
        let server = || self.server.clone();
        let question = self.ask(Request::get("/version").body(Vec::new()));
        let Ok(answer) = timeout(INTRODUCTION_MAX, question).await else {
            let message = format!("nothing came in {} s", INTRODUCTION_MAX.as_secs());
            return Err(Unreachable::Silent { server: server(), message });
        };
        match answer {
            Err(Refused { code: Some(403), .. }) => Ok(()),
            Err(Refused { code: Some(401), message, .. }) => {
                Err(Unreachable::Stranger { server: server(), whom, message })
            }
            Err(Refused { code: Some(404), message, .. }) => {
                Err(Unreachable::Foreign { server: server(), message })
            }
            Err(Refused { message, .. }) => Err(Unreachable::Silent { server: server(), message }),
            Ok(text) => serde_json::from_str::<Version>(&text)
                .map(drop)
                .map_err(|_| Unreachable::Foreign { server: server(), message: shortened(&text) }),
        }
    }

    /// What the API says to a request.
    pub(crate) async fn ask<E: std::error::Error>(
        &self,
        request: Result<Request<Vec<u8>>, E>,
    ) -> Result<String, Refused> {
        let request = request.map_err(|error| Refused::unsaid(error.to_string()))?;
        let mut repeats = 0;
        loop {
            self.turn().await;
            let answer = self.client.request_text(request.clone()).await.map_err(|error| self.refused(error));
            match answer {
                Err(refused) if refused.is_busy() && repeats < self.repeats => {
                    sleep(REPEAT_AFTER * (1 << repeats)).await;
                    repeats += 1;
                }
                answer => return answer,
            }
        }
    }

    /// What the API goes on saying, a line at a time.
    pub(crate) async fn listen<E: std::error::Error>(
        &self,
        request: Result<Request<Vec<u8>>, E>,
    ) -> Result<impl AsyncBufRead + use<E>, Refused> {
        let request = request.map_err(|error| Refused::unsaid(error.to_string()))?;
        self.turn().await;
        self.client.request_stream(request).await.map_err(|error| self.refused(error))
    }

    /// What came instead of an answer. Whoever is asked for more than it can do is left alone for a while, by all.
    fn refused(&self, error: kube::Error) -> Refused {
        let refused = Refused::from(error);
        if refused.code == Some(429) && !refused.is_of_budget {
            let pause = refused.retry_after.unwrap_or(BUSY).min(BUSY_MAX);
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            *busy = (*busy).max(Some(Instant::now() + pause));
        }
        refused
    }

    async fn turn(&self) {
        let busy = *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = busy {
            sleep_until(until).await;
        }
        if let Some(pace) = &self.pace {
            pace.turn().await;
        }
    }
}

/// Something between us and the API may answer with a whole page.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What the API names as the cause where a PodDisruptionBudget lets no pod go.
const BUDGET_CAUSE: &str = "DisruptionBudget";

/// What came instead of an answer: with a code from the API, without one from the way there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub code: Option<u16>,
    pub message: String,
    /// A PodDisruptionBudget says no. Whoever only has no time answers with the same code.
    pub is_of_budget: bool,
    /// When to ask again, if it says so.
    pub retry_after: Option<Duration>,
}

impl Refused {
    pub(crate) fn unsaid(message: String) -> Self {
        Self { code: None, message, is_of_budget: false, retry_after: None }
    }

    /// It has no time.
    fn is_busy(&self) -> bool {
        matches!(self.code, Some(429 | 503 | 504)) && !self.is_of_budget
    }

    /// It is not there.
    pub(crate) fn is_absence(&self) -> bool {
        self.code == Some(404)
    }

    /// It has changed, or is there already.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == Some(409)
    }
}

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self {
                code: Some(status.code),
                message: shortened(status.message.trim()),
                is_of_budget: status
                    .details
                    .iter()
                    .flat_map(|details| &details.causes)
                    .any(|cause| cause.reason == BUDGET_CAUSE),
                retry_after: status
                    .details
                    .iter()
                    .map(|details| Duration::from_secs(details.retry_after_seconds.into()))
                    .find(|pause| !pause.is_zero()),
            },
            other => Self::unsaid(shortened(&reason(&other))),
        }
    }
}

async fn config(choice: &Choice) -> Result<Config, Unreachable> {
    let options = KubeConfigOptions { context: choice.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &choice.kubeconfig {
        let refuse = |error| Unreachable::Kubeconfig { path: path.clone(), error: Box::new(error) };
        let file = Kubeconfig::read_from(path).map_err(refuse)?;
        return Config::from_custom_kubeconfig(file, &options).await.map_err(refuse);
    }
    match &choice.context {
        Some(context) => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| Unreachable::Context { context: context.clone(), error: Box::new(error) }),
        None => Config::infer().await.map_err(|error| Unreachable::Nowhere(reason(&error))),
    }
}

/// An error in full: what went wrong is often said only by its cause.
fn reason(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !message.contains(&said) {
            message = format!("{message}: {said}");
        }
        cause = inner.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::*;

    /// One that refuses so often, with this, and answers then.
    fn busy(code: u16, details: Value, times: u32) -> Cluster {
        let asked = Arc::new(AtomicU32::new(0));
        let answer = async move || {
            if asked.fetch_add(1, Ordering::Relaxed) >= times {
                return (StatusCode::OK, "yes".to_owned());
            }
            let status = json!({ "kind": "Status", "status": "Failure", "code": code, "details": details });
            (StatusCode::from_u16(code).unwrap(), status.to_string())
        };
        Cluster::through(Client::new(Router::new().fallback(answer), "default"), "an API")
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_no_time_is_left_alone() {
        let budget = json!({ "causes": [{ "reason": "DisruptionBudget" }], "retryAfterSeconds": 10 });
        let cases = [
            ("its limiter", 429, json!({}), 1000),
            ("for as long as it says", 429, json!({ "retryAfterSeconds": 5 }), 5000),
            ("but not for ever", 429, json!({ "retryAfterSeconds": 3600 }), 30_000),
            ("a budget", 429, budget, 0),
            ("somebody behind it", 503, json!({ "retryAfterSeconds": 5 }), 0),
        ];
        for (what, code, details, expected_ms) in cases {
            let cluster = busy(code, details, 1);
            let ask = async || cluster.ask(Request::get("/version").body(Vec::new())).await;
            let refused = ask().await.unwrap_err();
            assert_eq!(refused.code, Some(code), "{what}: nobody hides it");
            let began = Instant::now();
            assert_eq!(ask().await.as_deref(), Ok("yes"), "{what}");
            assert_eq!(began.elapsed().as_millis(), expected_ms, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_patient_asks_again() {
        for (code, times, is_answered) in [(503, 6, true), (504, 1, true), (503, 7, false), (500, 1, false)] {
            let cluster = busy(code, json!({}), times).patiently();
            let answer = cluster.ask(Request::get("/version").body(Vec::new())).await;
            assert_eq!(answer.is_ok(), is_answered, "{code}, {times} times");
        }
    }
}
