//! The real API server, where its programs are at hand. Nothing else runs that would change what cases write.

use std::io::Write;

use berth_control_plane::{Audience, ControlPlane, Directory, Error, Programs, Sources};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(crate) struct Plane(ControlPlane);

/// Nothing where there are no programs: that is said, and no failure.
pub(crate) fn start() -> Option<Plane> {
    let programs = Sources::from_environment(None).and_then(|sources| Programs::find(&sources));
    match programs {
        Ok(programs) => {
            let directory = Directory::temporary().unwrap();
            Some(Plane(ControlPlane::start_api(&programs, directory, &Audience::silent()).unwrap()))
        }
        Err(why @ (Error::NotBuilt { .. } | Error::NoHome { .. })) => {
            // Written past the test harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "the real API server was left out: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl Plane {
    pub(crate) async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.0.kubeconfig()).unwrap();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        // What the server says is wanted, not what comes of asking again.
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }
}
