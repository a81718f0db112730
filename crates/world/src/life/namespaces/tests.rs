use std::time::Duration;

use super::super::{Life, housekeeping};
use crate::api::{Act, Api};
use crate::json::{Value, json};
use crate::object;
use crate::store::Key;

fn live() -> Api {
    let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    tokio::spawn({
        let api = api.clone();
        async move { Life::new(api, housekeeping()).live().await }
    });
    api
}

async fn pass(secs: u64) {
    tokio::time::sleep(Duration::from_secs(secs)).await;
}

fn get(api: &Api, resource: &str, namespace: &str, name: &str) -> Option<std::sync::Arc<Value>> {
    api.state().store.get(&Key::new(resource, namespace, name))
}

async fn create(api: &Api, resource: &'static str, object: Value) {
    api.act("test", Act::Create(resource, object)).await.unwrap();
}

async fn delete(api: &Api, resource: &str, namespace: &str, name: &str) {
    let object = get(api, resource, namespace, name).unwrap();
    api.act("test", Act::delete(resource, &object)).await.unwrap();
}

/// The conditions that say that something is left.
fn left(api: &Api) -> Vec<String> {
    let Some(namespace) = get(api, "namespaces", "", "n") else { return vec!["gone".to_owned()] };
    let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let conditions = conditions.unwrap_or_default();
    assert!(conditions.is_empty() || conditions.len() == 5, "{conditions:?}");
    let text = |condition: &Value, field| object::text(condition, &[field]).to_owned();
    conditions
        .iter()
        .filter(|condition| condition["status"] == "True")
        .map(|condition| format!("{}: {}", text(condition, "reason"), text(condition, "message")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_it_is_empty() {
    let api = live();
    create(&api, "namespaces", json!({"metadata": {"name": "n"}})).await;
    pass(1).await;
    // Every namespace has these, and gets them again.
    for (resource, name) in [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")] {
        assert!(get(&api, resource, "n", name).is_some(), "{name}");
        delete(&api, resource, "n", name).await;
        pass(1).await;
        assert!(get(&api, resource, "n", name).is_some(), "{name}");
    }
    create(&api, "nodes", json!({"metadata": {"name": "node"}})).await;
    create(
        &api,
        "pods",
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}}),
    )
    .await;
    for (name, finalizers) in
        [("a", json!(["example.com/a"])), ("b", json!(["example.com/a", "example.com/b"]))]
    {
        create(
            &api,
            "configmaps",
            json!({"metadata": {"name": name, "namespace": "n", "finalizers": finalizers}}),
        )
        .await;
    }
    delete(&api, "namespaces", "", "n").await;
    pass(4).await;
    assert_eq!(left(&api), [""; 0]);
    pass(2).await;
    // Pods first, and they have their time to end.
    assert_eq!(
        left(&api),
        ["SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances"]
    );
    assert!(!object::is_terminating(&get(&api, "configmaps", "n", "a").unwrap()));
    let pod = get(&api, "pods", "n", "p").unwrap();
    let resource = "pods".into();
    let propagation = crate::api::Propagation::Background;
    api.act("test", Act::Delete { resource, object: pod, grace_secs: Some(0), propagation }).await.unwrap();
    pass(1).await;
    assert_eq!(
        left(&api),
        [
            "SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances",
            "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/a in 2 resource instances, example.com/b in 1 resource instances",
        ]
    );
    assert!(get(&api, "serviceaccounts", "n", "default").is_none());
    for name in ["a", "b"] {
        let mut next = (*get(&api, "configmaps", "n", name).unwrap()).clone();
        object::set(&mut next, "finalizers", Value::Null);
        api.act("test", Act::Update("configmaps", next)).await.unwrap();
    }
    pass(1).await;
    assert_eq!(left(&api), ["gone"]);
}

#[tokio::test(start_paused = true)]
async fn roles_are_made_of_others() {
    let api = live();
    pass(1).await;
    let rules = |name: &str| {
        let role = get(&api, "clusterroles.rbac.authorization.k8s.io", "", name).unwrap();
        role["rules"].as_array().map_or(0, Vec::len)
    };
    let (view, edit) = (rules("view"), rules("edit"));
    assert!(view > 0 && edit > view, "{view} {edit}");
    let more = json!({
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}],
    });
    // Who grants must hold, or be one who gathers rules.
    let made = Act::Create("clusterroles.rbac.authorization.k8s.io", more);
    api.act("kube-controller-manager", made).await.unwrap();
    pass(1).await;
    assert_eq!((rules("view"), rules("edit")), (view + 1, edit + 1));
    delete(&api, "clusterroles.rbac.authorization.k8s.io", "", "more").await;
    pass(1).await;
    assert_eq!((rules("view"), rules("edit")), (view, edit));
}
