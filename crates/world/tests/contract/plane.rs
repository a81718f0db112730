//! A real API server, asked through the same client as the world.

use berth_control_plane::ControlPlane;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(crate) struct Plane(pub(crate) ControlPlane);

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
