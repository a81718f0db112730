//! Who shows which certificate.

use berth_credentials::{Authority, Error, Pair};

/// How the components and their users call the servers; 10.0.0.1 is the first address of the services.
const SERVER_NAMES: [&str; 6] =
    ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Who talks to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity {
    Admin,
    ControllerManager,
    Scheduler,
    Kwok,
}

impl Identity {
    pub(crate) const ALL: [Self; 4] = [Self::Admin, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    pub(crate) fn user(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Scheduler => "system:kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// The API server has roles for its own components; members of this group may do everything.
    fn group(self) -> Option<&'static str> {
        match self {
            Self::Admin | Self::Kwok => Some("system:masters"),
            Self::ControllerManager | Self::Scheduler => None,
        }
    }

    pub(crate) fn pair(self, authority: &Authority) -> Result<Pair, Error> {
        authority.client(self.user(), self.group())
    }
}

pub(crate) fn server(authority: &Authority) -> Result<Pair, Error> {
    authority.server("kube-apiserver", &SERVER_NAMES)
}
