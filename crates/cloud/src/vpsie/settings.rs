//! What can be set.

use std::time::Duration;

use berth_core::names::Text;

use super::managed;

/// What VPSie's own client waits.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// How long one request may take.
    pub timeout: Duration,
    /// The beginning of request ids: what is not used by another process, such as a pod's name.
    pub process: Text,
}

impl ClientSettings {
    pub fn new(process: &str) -> Self {
        Self { timeout: TIMEOUT, process: process.into() }
    }
}

/// Which paths an installation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Machines are servers with host names and tags of our choice (`/servers`).
    Servers,
    /// The same where VPSie's public API has them (`/vm`): they are in no groups, and nobody gives notice.
    Vm,
    /// Machines are nodes that VPSie adds to groups of a cluster and names itself (`/k8s/cluster`).
    Managed,
}

impl Family {
    pub const ALL: [Self; 3] = [Self::Servers, Self::Vm, Self::Managed];

    pub(super) fn paths(self) -> Paths {
        match self {
            Self::Servers => Paths::OfServers(ServerPaths {
                servers: "/servers",
                groups: Some("/k8s/nodegroups"),
                notices: Some("/servers/notices"),
            }),
            Self::Vm => Paths::OfServers(ServerPaths { servers: "/vm", groups: None, notices: None }),
            Self::Managed => Paths::OfClusters,
        }
    }
}

/// What the machines of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paths {
    OfServers(ServerPaths),
    /// Machines are nodes of a managed cluster.
    OfClusters,
}

/// The paths of an installation that has servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerPaths {
    pub(super) servers: &'static str,
    /// Groups that servers are entered in.
    pub(super) groups: Option<&'static str>,
    pub(super) notices: Option<&'static str>,
}

/// For whom and how machines are bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudSettings {
    pub family: Family,
    /// The cluster at VPSie.
    pub cluster: Text,
    /// Of machines whose order names none.
    pub project: Option<Text>,
    /// Where machines may be bought, besides where pools say. Servers can be bought wherever there are offers if nobody
    /// says.
    pub datacenters: Vec<Text>,
    /// Of machines whose order names none.
    pub kubernetes_version: Option<Text>,
}

impl CloudSettings {
    pub fn new(family: Family, cluster: &str) -> Self {
        Self {
            family,
            cluster: cluster.into(),
            project: None,
            datacenters: Vec::new(),
            kubernetes_version: None,
        }
    }

    /// Where all machines are told of that these settings are about.
    pub(super) fn path_of_machines(&self) -> String {
        match self.family.paths() {
            Paths::OfServers(paths) => paths.servers.to_owned(),
            Paths::OfClusters => managed::path_of(&self.cluster),
        }
    }
}
