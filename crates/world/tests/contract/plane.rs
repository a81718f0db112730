//! The real API server, where its programs are at hand. Nothing else runs that would change what cases write.

use berth_control_plane::ControlPlane;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(crate) struct Plane(ControlPlane);

/// Nothing where there are no programs.
pub(crate) fn start() -> Option<Plane> {
    ControlPlane::api_for_test().unwrap().map(Plane)
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
