//! What is asked: the world, or a real API server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_control_plane::Program;
use berth_world::World;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::plane::Plane;

/// One that answers, and whose past can be taken away.
pub(crate) struct Kubernetes {
    pub(crate) client: Client,
    past: Past,
}

enum Past {
    InWorld(World),
    InEtcd(Client),
}

impl Kubernetes {
    pub(crate) fn of_world() -> Self {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        Self { client: Client::new(world.router(), "default"), past: Past::InWorld(world) }
    }

    pub(crate) async fn of_plane(plane: &Plane) -> Self {
        let mut components = plane.0.record().components.iter();
        let etcd = components.find(|component| component.program == Program::Etcd).unwrap();
        let etcd = Config::new(format!("http://127.0.0.1:{}", etcd.port).parse().unwrap());
        Self { client: plane.client().await, past: Past::InEtcd(Client::try_from(etcd).unwrap()) }
    }

    pub(crate) async fn compact(&self) {
        match &self.past {
            Past::InWorld(world) => world.compact(),
            Past::InEtcd(etcd) => compact(etcd).await,
        }
    }
}

/// As an API server does it, which leaves word of how far it has gone, for others and for its own caches.
async fn compact(etcd: &Client) {
    let key = STANDARD.encode("compact_rev_key");
    let found = ask(etcd, "range", &json!({ "key": key })).await;
    let revision = found["header"]["revision"].as_str().unwrap();
    ask(etcd, "put", &json!({ "key": key, "value": STANDARD.encode(revision) })).await;
    ask(etcd, "compaction", &json!({ "revision": revision, "physical": true })).await;
}

async fn ask(etcd: &Client, what: &str, body: &Value) -> Value {
    let request = http::Request::post(format!("/v3/kv/{what}")).body(body.to_string().into_bytes());
    etcd.request(request.unwrap()).await.unwrap()
}
