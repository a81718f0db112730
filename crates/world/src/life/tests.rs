use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::json::{Value, json};
use crate::object;

/// Copies what a ConfigMap holds into its label `seen`, three seconds after the change.
#[derive(Debug, Default)]
struct Copier {
    since: BTreeMap<Key, (String, Timestamp)>,
}

impl Controller for Copier {
    fn name(&self) -> &'static str {
        "copier"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        (change.key.resource() == "configmaps").then(|| change.key.clone()).into_iter().collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(map) = view.get(key) else { return Decision::none() };
        let (held, seen) =
            (object::text(&map, &["data", "a"]), object::text(&map, &["metadata", "labels", "seen"]));
        if held == seen {
            return Decision::none();
        }
        let since = self.since.entry(key.clone()).or_insert_with(|| (held.to_owned(), view.now()));
        if since.0 != held {
            *since = (held.to_owned(), view.now());
        }
        let due = since.1 + SignedDuration::from_secs(3);
        if view.now() < due {
            return Decision::again(due);
        }
        let mut next = (*map).clone();
        next["metadata"]["labels"] = json!({ "seen": held });
        let report = Report {
            about: (*map).clone(),
            severity: Severity::Normal,
            reason: "Copied",
            message: "It has been seen".to_owned(),
            component: "copier",
        };
        Decision { acts: vec![Act::Update("configmaps", next)], reports: vec![report], again: None }
    }
}

async fn write(api: &Api, name: &str, held: &str) {
    let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"a": held}});
    let key = Key::new("configmaps", "default", name);
    let act = match api.state().store.get(&key) {
        Some(known) => {
            let mut next = (*known).clone();
            next["data"] = map["data"].clone();
            Act::Update("configmaps", next)
        }
        None => Act::Create("configmaps", map),
    };
    api.act("test", act).await.unwrap();
}

fn seen(api: &Api, name: &str) -> String {
    let map: Option<Arc<Value>> = api.state().store.get(&Key::new("configmaps", "default", name));
    map.map(|map| object::text(&map, &["metadata", "labels", "seen"]).to_owned()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn controllers_see_changes_and_time() {
    let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    // What is there before the life begins is seen, too.
    write(&api, "early", "1").await;
    let life = tokio::spawn(Life::new(api.clone(), vec![Box::new(Copier::default())]).live());
    tokio::time::sleep(Duration::from_secs(1)).await;
    write(&api, "late", "1").await;
    for (secs, early, late) in [(1, "", ""), (2, "1", ""), (1, "1", "1")] {
        tokio::time::sleep(Duration::from_secs(secs)).await;
        assert_eq!((seen(&api, "early"), seen(&api, "late")), (early.to_owned(), late.to_owned()));
    }
    for held in ["2", "3"] {
        write(&api, "late", held).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(seen(&api, "late"), held);
    }
    let events: Vec<i64> =
        api.state().store.list("events", None).filter_map(|(_, event)| event["count"].as_i64()).collect();
    assert_eq!(events, [1, 3]);
    life.abort();
}

/// Panics at the first thing it sees.
#[derive(Debug)]
struct Faulty;

impl Controller for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        vec![change.key.clone()]
    }

    fn decide(&mut self, key: &Key, _: View<'_>) -> Decision {
        panic!("{key:?} is too much");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_its_controllers_says_so() {
    let world = crate::World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    let ask = || async {
        let request = http::Request::get("/api/v1/pods").body(axum::body::Body::empty()).unwrap();
        let answer = tower_service::Service::call(&mut world.client("test"), request).await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(ask().await, 200);
    let life = tokio::spawn(Life::new(world.api.clone(), vec![Box::new(Faulty)]).live());
    assert!(life.await.unwrap_err().is_panic());
    assert_eq!(ask().await, 500);
}
