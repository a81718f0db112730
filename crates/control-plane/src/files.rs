//! What the components read: certificates, keys, kubeconfigs, their own configurations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use berth_credentials::{Authority, Kubeconfig, Pair, TokenKey};
use serde_json::{Value, json};

use crate::certificates::{self, Identity};
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
        let authority = Authority::new("berth control plane")?;
        let clients = Identity::ALL.into_iter().map(|identity| Ok((identity, identity.pair(&authority)?)));
        Ok(Self {
            authority: authority.certificate(),
            clients: clients.collect::<Result<_, Error>>()?,
            server: certificates::server(&authority)?,
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
            let kubeconfig = Kubeconfig {
                cluster: "berth-control-plane",
                server: &format!("https://127.0.0.1:{apiserver}"),
                authority: &self.authority,
                user: identity.user(),
                namespace: "default",
                pair,
            };
            write(files.kubeconfig(*identity), &kubeconfig.to_string())?;
        }
        let scheduler = scheduler(&files.kubeconfig(Identity::Scheduler));
        write(files.scheduler_configuration(), &format!("{scheduler:#}\n"))?;
        write(files.kwok_configuration(), KWOK)
    }
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
