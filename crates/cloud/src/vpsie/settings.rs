//! What can be set.

use std::time::Duration;

use berth_core::names::Text;

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

/// Which of the two kinds of paths an installation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Machines are servers with host names and tags of our choice (`/servers`).
    Servers,
    /// Machines are nodes that VPSie adds to groups of a cluster and names itself (`/k8s/cluster`).
    Managed,
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
}
