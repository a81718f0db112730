use std::time::Duration;

use super::super::{Life, housekeeping};
use crate::api::{Act, Api, Propagation};
use crate::json::{Value, json};
use crate::object;
use crate::store::Key;

/// A cluster that lives, with ConfigMaps that own each other: `name` or `name<owner`, `name<owner!` where the owner
/// waits, `name#` with a finalizer of somebody else's.
struct Cluster {
    api: Api,
}

impl Cluster {
    async fn with(maps: &str) -> Self {
        let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        tokio::spawn({
            let api = api.clone();
            async move { Life::new(api, housekeeping()).live().await }
        });
        let cluster = Self { api };
        for map in maps.split_whitespace() {
            let (name, owners) = map.split_once('<').unwrap_or((map, ""));
            let owners: Vec<Value> = owners
                .split(',')
                .filter(|owner| !owner.is_empty())
                .map(|owner| {
                    let name = owner.trim_end_matches('!');
                    let known = cluster.get(name);
                    let uid = known.map_or_else(|| "gone".to_owned(), |known| object::uid(&known).to_owned());
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
                        "blockOwnerDeletion": owner.ends_with('!'),
                    })
                })
                .collect();
            let mut object =
                json!({"metadata": {"name": name.trim_end_matches('#'), "namespace": "default"}});
            if !owners.is_empty() {
                object["metadata"]["ownerReferences"] = json!(owners);
            }
            if name.ends_with('#') {
                object["metadata"]["finalizers"] = json!(["example.com/hold"]);
            }
            cluster.api.act("test", Act::Create("configmaps", object)).await.unwrap();
        }
        cluster
    }

    fn get(&self, name: &str) -> Option<std::sync::Arc<Value>> {
        self.api.state().store.get(&Key::new("configmaps", "default", name))
    }

    async fn delete(&self, name: &str, propagation: Propagation) {
        let object = self.get(name).unwrap();
        let resource = "configmaps".into();
        self.api.act("test", Act::Delete { resource, object, grace_secs: None, propagation }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// What is left, with the finalizers that hold it and whether it is owned.
    fn left(&self) -> String {
        let state = self.api.state();
        let maps = state.store.list("configmaps", Some("default")).map(|(_, map)| map);
        let words = maps.filter(|map| object::name(map) != "kube-root-ca.crt").map(|map| {
            let owned = if object::owners(&map).next().is_some() { "<" } else { "" };
            let name = format!("{}{owned}", object::name(&map));
            std::iter::once(&*name).chain(object::finalizers(&map)).collect::<Vec<_>>().join("+")
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_owns_goes() {
    use Propagation::{Background, Foreground, Orphan};
    for (maps, deleted, propagation, left) in [
        ("a b<a c<b d", "a", Background, "d"),
        ("a b<a c<a,d", "a", Background, ""),
        ("a b c<a,b", "a", Background, "b c<"),
        ("a b<a c<b", "a", Orphan, "b c<"),
        ("a b<a! c<b!", "a", Foreground, ""),
        ("a b#<a!", "a", Foreground, "a+foregroundDeletion b<+example.com/hold"),
        ("a b#<a", "a", Foreground, "b<+example.com/hold"),
        ("a b#<a", "a", Background, "b<+example.com/hold"),
        ("a b c#<a!,b", "a", Foreground, "b c<+example.com/hold"),
    ] {
        let cluster = Cluster::with(maps).await;
        // What refers to an owner that never was goes at once.
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.delete(deleted, propagation).await;
        assert_eq!(cluster.left(), left, "{maps} {propagation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_are_in_the_same_namespace() {
    let cluster = Cluster::with("a").await;
    let owner = cluster.get("a").unwrap();
    let uid = object::uid(&owner).to_owned();
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid}]);
    for (resource, object) in [
        (
            "configmaps",
            json!({"metadata": {"name": "stray", "namespace": "kube-public", "ownerReferences": owners}}),
        ),
        (
            "persistentvolumes",
            json!({"metadata": {"name": "global", "ownerReferences": owners}, "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}}}),
        ),
    ] {
        cluster.api.act("test", Act::Create(resource, object)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let messages = |api: &Api| -> Vec<String> {
        let state = api.state();
        let events = state.store.list("events", None).map(|(_, event)| event);
        events.map(|event| format!("{} {}", event["reason"], event["message"])).collect()
    };
    let expected = format!(
        "\"OwnerRefInvalidNamespace\" \"ownerRef [v1/ConfigMap, namespace: kube-public, name: a, uid: {uid}] does not exist in namespace \\\"kube-public\\\"\""
    );
    assert_eq!(messages(&cluster.api), [expected]);
    let has = |resource: &str, namespace: &str, name: &str| {
        cluster.api.state().store.get(&Key::new(resource, namespace, name)).is_some()
    };
    assert!(!has("configmaps", "kube-public", "stray"));
    assert!(has("persistentvolumes", "", "global"));
    // Events are forgotten in the end.
    tokio::time::sleep(Duration::from_secs(3590)).await;
    assert_eq!(messages(&cluster.api).len(), 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(messages(&cluster.api), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_use_stays() {
    let cluster = Cluster::with("").await;
    let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}});
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }});
    let claim_key = Key::new("persistentvolumeclaims", "default", "c");
    cluster.api.act("test", Act::Create("persistentvolumeclaims", claim)).await.unwrap();
    let pod = std::sync::Arc::new(cluster.api.act("test", Act::Create("pods", pod)).await.unwrap());
    let claim = cluster.api.state().store.get(&claim_key).unwrap();
    cluster.api.act("test", Act::delete("persistentvolumeclaims", &claim)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cluster.api.state().store.get(&claim_key).is_some());
    cluster.api.act("test", Act::delete("pods", &pod)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cluster.api.state().store.get(&claim_key).is_none());
}
