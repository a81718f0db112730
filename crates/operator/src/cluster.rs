//! The way to a cluster: whose API it is, and who asks.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;

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
pub(crate) struct Cluster {
    client: Client,
    server: String,
}

/// A cluster that takes longer to be reached is not worth the wait.
const CONNECT_SECS_MAX: u64 = 10;
/// Nor is one that stops in the middle of an answer.
const READ_SECS_MAX: u64 = 60;

impl Cluster {
    /// Finds the cluster and asks who it is.
    pub(crate) async fn reach(choice: &Choice) -> Result<Self, Unreachable> {
        let mut config = config(choice).await?;
        config.connect_timeout = Some(Duration::from_secs(CONNECT_SECS_MAX));
        config.read_timeout = Some(Duration::from_secs(READ_SECS_MAX));
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config)
            .map_err(|error| Unreachable::Client { server: server.clone(), message: reason(&error) })?;
        let cluster = Self { client, server };
        cluster.introduce(choice).await?;
        Ok(cluster)
    }

    /// Whether it is one, and whether it talks to us, before all else is asked.
    async fn introduce(&self, choice: &Choice) -> Result<(), Unreachable> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(rename = "gitVersion")]
            _git_version: String,
        }
        let server = || self.server.clone();
        let answer = match self.get("/version").await {
            Ok(text) => text,
            Err(Refused { code: Some(401 | 403), message }) => {
                let whom = choice.context.as_ref().map(|context| format!("the context {context}"));
                let whom = whom.unwrap_or_else(|| "the current context".to_owned());
                return Err(Unreachable::Stranger { server: server(), whom, message });
            }
            Err(Refused { code: Some(code), message }) => {
                return Err(Unreachable::Foreign { server: server(), message: format!("{code} {message}") });
            }
            Err(Refused { code: None, message }) => {
                return Err(Unreachable::Silent { server: server(), message });
            }
        };
        serde_json::from_str::<Version>(&answer).map(drop).map_err(|_| {
            let message = answer.chars().take(80).collect();
            Unreachable::Foreign { server: server(), message }
        })
    }

    /// What the API says to a path.
    pub(crate) async fn get(&self, path: &str) -> Result<String, Refused> {
        let request = Request::get(path).header("accept", "application/json").body(Vec::new());
        let request = request.map_err(|error| Refused { code: None, message: error.to_string() })?;
        self.client.request_text(request).await.map_err(|error| match error {
            kube::Error::Api(status) => {
                Refused { code: Some(status.code), message: status.message.trim().to_owned() }
            }
            other => Refused { code: None, message: reason(&other) },
        })
    }
}

/// What came instead of an answer: with a code from the API, without one from the way there.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: Option<u16>,
    pub(crate) message: String,
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
