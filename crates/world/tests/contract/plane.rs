//! The real control plane, where its programs are at hand.

use berth_control_plane::ControlPlane;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(crate) struct Plane(ControlPlane);

/// Nothing where there are no programs.
pub(crate) fn start() -> Option<Plane> {
    ControlPlane::for_test().unwrap().map(Plane)
}

impl Plane {
    pub(crate) async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.0.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}
