//! What the components read: certificates, keys, kubeconfigs, their own configurations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::certificates::{Authority, Identity, Pair, TokenKey};
use crate::error::Error;

const KWOK: &str = include_str!("kwok.yaml");

/// Where each file is below a control plane's directory.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(crate) fn below(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    pub(crate) fn server_certificate(&self) -> PathBuf {
        self.directory.join("server.crt")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.directory.join("server.key")
    }

    pub(crate) fn token_private_key(&self) -> PathBuf {
        self.directory.join("service-accounts.key")
    }

    pub(crate) fn token_public_key(&self) -> PathBuf {
        self.directory.join("service-accounts.pub")
    }

    pub(crate) fn kubeconfig(&self, identity: Identity) -> PathBuf {
        self.directory.join(match identity {
            Identity::Admin => "kubeconfig",
            Identity::ControllerManager => "controller-manager.kubeconfig",
            Identity::Scheduler => "scheduler.kubeconfig",
            Identity::Kwok => "kwok.kubeconfig",
        })
    }

    pub(crate) fn scheduler_configuration(&self) -> PathBuf {
        self.directory.join("scheduler.json")
    }

    pub(crate) fn kwok_configuration(&self) -> PathBuf {
        self.directory.join("kwok.yaml")
    }

    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }
}

/// Everything secret, made once; only ports change from one attempt to start to the next.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(crate) authority: String,
    pub(crate) clients: BTreeMap<Identity, Pair>,
    server: Pair,
    tokens: TokenKey,
}

impl Secrets {
    pub(crate) fn new() -> Result<Self, Error> {
        let authority = Authority::new()?;
        let clients = Identity::ALL.into_iter().map(|identity| Ok((identity, authority.client(identity)?)));
        Ok(Self {
            authority: authority.certificate(),
            clients: clients.collect::<Result<_, Error>>()?,
            server: authority.server()?,
            tokens: TokenKey::new()?,
        })
    }

    pub(crate) fn write(&self, files: &Files, apiserver: u16) -> Result<(), Error> {
        let write = |path: PathBuf, text: &str| fs::write(&path, text).map_err(Error::file(path));
        fs::create_dir_all(files.logs()).map_err(Error::file(files.logs()))?;
        write(files.authority(), &self.authority)?;
        write(files.server_certificate(), &self.server.certificate)?;
        write(files.server_key(), &self.server.key)?;
        write(files.token_private_key(), &self.tokens.private)?;
        write(files.token_public_key(), &self.tokens.public)?;
        for (identity, pair) in &self.clients {
            let text = pretty(&kubeconfig(apiserver, identity.user(), &self.authority, pair));
            write(files.kubeconfig(*identity), &text)?;
        }
        let scheduler = scheduler(&files.kubeconfig(Identity::Scheduler));
        write(files.scheduler_configuration(), &pretty(&scheduler))?;
        write(files.kwok_configuration(), KWOK)
    }
}

/// JSON is YAML, and needs no rules about quotes.
fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Complete in itself, so that it works wherever it is copied to.
fn kubeconfig(apiserver: u16, user: &str, authority: &str, pair: &Pair) -> Value {
    let name = "berth-control-plane";
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://127.0.0.1:{apiserver}"),
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": STANDARD.encode(&pair.certificate),
            "client-key-data": STANDARD.encode(&pair.key),
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    })
}

/// The defaults would bind ten pods a second.
fn scheduler(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": false},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_carries_its_certificates() {
        let pair = Pair { certificate: "crt".to_owned(), key: "key".to_owned() };
        let config = kubeconfig(6443, "admin", "ca", &pair);
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority-data"], "Y2E=");
        assert_eq!(config["users"][0]["user"]["client-certificate-data"], "Y3J0");
        assert_eq!(config["users"][0]["user"]["client-key-data"], "a2V5");
        assert_eq!(config["current-context"], config["contexts"][0]["name"]);
        assert_eq!(config["contexts"][0]["context"]["user"], config["users"][0]["name"]);
    }
}
