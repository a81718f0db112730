use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tower_service::Service;

use super::judging::{Deed, Guarded, Verdict, judge};
use super::review;
use crate::metrics::Metrics;
use crate::report::Report;

fn changed(mut object: Value, changes: &Value) -> Value {
    for (pointer, value) in changes.as_object().unwrap() {
        let (place, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(place).unwrap()[field] = value.clone();
    }
    object
}

fn group(changes: &Value) -> String {
    let group = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": { "name": "web", "namespace": "kube-system" },
        "spec": {
            "minNodes": 0, "maxNodes": 10, "datacenterID": "dc-1", "offeringIDs": ["big", "small"],
            "resourceIdentifier": "c-1", "project": "p-1", "kubernetesVersion": "v1.34.0",
        },
    });
    changed(group, changes).to_string()
}

fn node(changes: &Value) -> String {
    let node = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": { "name": "web-1", "namespace": "kube-system" },
        "spec": {
            "vpsieInstanceID": 7, "instanceType": "small", "nodeGroupName": "web", "datacenterID": "dc-1",
            "resourceIdentifier": "c-1", "project": "p-1", "kubernetesVersion": "v1.34.0",
        },
    });
    changed(node, changes).to_string()
}

fn refusal(verdict: Verdict) -> Option<String> {
    match verdict {
        Verdict::Allowed => None,
        Verdict::Invalid(why) | Verdict::Forbidden(why) => Some(why),
    }
}

#[test]
fn what_is_created_is_right() {
    for (guarded, object, expected) in [
        (Guarded::NodeGroups, group(&json!({})), None),
        (Guarded::NodeGroups, group(&json!({"/metadata": {"generateName": "auto-"}})), None),
        (
            Guarded::NodeGroups,
            group(&json!({"/spec/offeringIDs": ["big", "big"], "/spec/minNodes": 11})),
            Some(
                "NodeGroup/kube-system/web: spec.minNodes: 11 is more than maxNodes (10)\n\
                 NodeGroup/kube-system/web: spec.offeringIDs[1]: `big` is named twice; name each offering once",
            ),
        ),
        (
            Guarded::NodeGroups,
            group(&json!({"/spec/maxNodes": "many"})),
            Some("NodeGroup/kube-system/web: spec.maxNodes: "),
        ),
        (Guarded::NodeGroups, "[]".to_owned(), Some("NodeGroup/: ")),
        (Guarded::NodeGroups, r#"{"metadata": 7}"#.to_owned(), Some("NodeGroup/: ")),
        (Guarded::VpsieNodes, node(&json!({})), None),
        (
            Guarded::VpsieNodes,
            node(&json!({"/spec/vpsieInstanceID": "seven"})),
            Some("VPSieNode/kube-system/web-1: spec.vpsieInstanceID: "),
        ),
    ] {
        let found = refusal(judge(guarded, Deed::Create { object: &object }));
        assert_eq!(found.is_some(), expected.is_some(), "{object}: {found:?}");
        assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{object}");
    }
}

#[test]
fn whoever_changes_an_object_answers_for_what_he_changes() {
    let doubled = json!({"/spec/offeringIDs": ["big", "big"]});
    let with = |first: &Value, pointer: &str, value: Value| {
        let mut all = first.clone();
        all[pointer] = value;
        all
    };
    let lost = "cannot be changed, since its machine would be lost; leave it as";
    for (what, guarded, old, new, expected) in [
        (
            "what becomes wrong",
            Guarded::NodeGroups,
            group(&json!({})),
            group(&doubled),
            Some(
                "NodeGroup/kube-system/web: spec.offeringIDs[1]: `big` is named twice; name each offering once"
                    .to_owned(),
            ),
        ),
        (
            "what was wrong stays so",
            Guarded::NodeGroups,
            group(&doubled),
            group(&with(&doubled, "/spec/maxNodes", json!(11))),
            None,
        ),
        (
            "and what else becomes wrong",
            Guarded::NodeGroups,
            group(&doubled),
            group(&with(&doubled, "/spec/minNodes", json!(11))),
            Some("NodeGroup/kube-system/web: spec.minNodes: 11 is more than maxNodes (10)".to_owned()),
        ),
        (
            "a spec that stays as it was",
            Guarded::NodeGroups,
            group(&doubled),
            group(&with(
                &doubled,
                "/metadata/annotations",
                json!({"autoscaler.vpsie.com/min-nodes-override": "x"}),
            )),
            None,
        ),
        (
            "one that is being deleted",
            Guarded::NodeGroups,
            group(&json!({})),
            group(&with(&doubled, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))),
            None,
        ),
        (
            "another machine",
            Guarded::VpsieNodes,
            node(&json!({})),
            node(&json!({"/spec/vpsieInstanceID": 8})),
            Some(format!("VPSieNode/kube-system/web-1: spec.vpsieInstanceID: {lost} `7`")),
        ),
        (
            "another group and datacenter",
            Guarded::VpsieNodes,
            node(&json!({})),
            node(&json!({"/spec/nodeGroupName": "db", "/spec/datacenterID": "dc-2"})),
            Some(format!(
                "VPSieNode/kube-system/web-1: spec.nodeGroupName: {lost} `web`\n\
                 VPSieNode/kube-system/web-1: spec.datacenterID: {lost} `dc-1`"
            )),
        ),
        (
            "what VPSie has sold",
            Guarded::VpsieNodes,
            node(&json!({"/spec/vpsieInstanceID": 0})),
            node(&json!({"/spec/datacenterID": "dc-2", "/spec/instanceType": "big"})),
            None,
        ),
        (
            "another machine of one that is being deleted",
            Guarded::VpsieNodes,
            node(&json!({})),
            node(&json!({"/spec/vpsieInstanceID": 0, "/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"})),
            None,
        ),
    ] {
        assert_eq!(refusal(judge(guarded, Deed::Update { old: &old, object: &new })), expected, "{what}");
    }
}

/// VPSie's own webhook refused to let anybody delete any node that was not its own.
#[test]
fn only_protected_nodes_of_berth_are_kept() {
    let managed = json!({"autoscaler.vpsie.com/managed": "true"});
    let protected = json!({"autoscaler.vpsie.com/protected": "true"});
    let kept = json!({"autoscaler.vpsie.com/do-not-delete": "true"});
    let words = |annotation: &str| {
        Some(format!(
            "Node/n: metadata.annotations[{annotation}]: is `true`, which keeps the node; remove it first: kubectl \
             annotate node n {annotation}-"
        ))
    };
    for (what, labels, annotations, more, expected) in [
        ("a stranger", json!({}), json!({}), json!({}), None),
        ("a stranger that is protected", json!({}), protected.clone(), json!({}), None),
        ("ours", managed.clone(), json!({}), json!({}), None),
        ("protected", managed.clone(), protected.clone(), json!({}), words("autoscaler.vpsie.com/protected")),
        ("kept", managed.clone(), kept, json!({}), words("autoscaler.vpsie.com/do-not-delete")),
        (
            "said not to be",
            managed.clone(),
            json!({"autoscaler.vpsie.com/protected": "false"}),
            json!({}),
            None,
        ),
        (
            "on its way out",
            managed.clone(),
            protected.clone(),
            json!({"/spec/taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}),
            None,
        ),
        (
            "deleted already",
            managed,
            protected,
            json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}),
            None,
        ),
    ] {
        let metadata = json!({"name": "n", "labels": labels, "annotations": annotations});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}});
        let node = changed(node, &more).to_string();
        assert_eq!(refusal(judge(Guarded::NodeDeletion, Deed::Delete { old: &node })), expected, "{what}");
    }
}

/// `200 {...}` or `400 why`.
async fn posted(metrics: &Metrics, path: &str, form: &str, body: String) -> String {
    let request = Request::post(path).header("content-type", form).body(Body::from(body)).unwrap();
    let Ok(answer) = review::router(metrics).call(request).await;
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    format!("{status} {}", String::from_utf8_lossy(&body).trim_end())
}

#[tokio::test]
async fn reviews_are_answered() {
    let metrics = Metrics::default();
    let resource = |group: &str, plural: &str| json!({"group": group, "version": "x", "resource": plural});
    let groups = resource("autoscaler.vpsie.com", "nodegroups");
    let review = |request: &Value| {
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        review.to_string()
    };
    let object = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let good = json!({
        "uid": "u-1", "operation": "CREATE", "resource": groups, "object": object(&group(&json!({}))),
        "oldObject": null, "userInfo": {"username": "jane"},
    });
    let bad = changed(good.clone(), &json!({"/object": object(&group(&json!({"/spec/minNodes": 11})))}));
    let status = changed(bad.clone(), &json!({"/subResource": "status"}));
    let path = "/validate/nodegroups";
    let json = "application/json";
    let allowed = r#"200 {"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":true,"uid":"u-1"}}"#;
    for (path, form, body, expected) in [
        (path, json, review(&good), allowed),
        (path, "application/json; charset=utf-8", review(&good), allowed),
        (path, json, review(&status), allowed),
        (path, json, review(&changed(bad.clone(), &json!({"/operation": "CONNECT"}))), allowed),
        (
            path,
            json,
            review(&bad),
            r#"200 {"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":false,"status":{"code":422,"message":"NodeGroup/kube-system/web: spec.minNodes: 11 is more than maxNodes (10)","reason":"Invalid","status":"Failure"},"uid":"u-1"}}"#,
        ),
        (path, json, "{".to_owned(), "400 this is not an AdmissionReview of admission.k8s.io/v1: EOF while"),
        (path, json, "[]".to_owned(), "400 this is not an AdmissionReview of admission.k8s.io/v1: "),
        (
            path,
            json,
            review(&good).replace("io/v1\"", "io/v1beta1\""),
            "400 this is a AdmissionReview of admission.k8s.io/v1beta1; send an AdmissionReview of admission.k8s.io/v1",
        ),
        (path, json, review(&Value::Null), "400 request: is missing"),
        (
            path,
            json,
            review(&changed(good.clone(), &json!({"/object": null}))),
            "400 request.object: is missing",
        ),
        (
            path,
            json,
            review(&changed(good.clone(), &json!({"/operation": "UPDATE"}))),
            "400 request.oldObject: is missing",
        ),
        (
            path,
            json,
            review(&changed(good.clone(), &json!({"/resource": resource("", "pods")}))),
            "400 request.resource: /validate/nodegroups judges nodegroups, not pods",
        ),
        (path, json, review(&changed(good.clone(), &json!({"/operation": "PATCH"}))), "400 this is not an"),
        (
            path,
            json,
            " ".repeat(review::REVIEW_BYTES_MAX + 1),
            "413 an AdmissionReview takes at most 131072 bytes here",
        ),
        (path, "text/plain", review(&good), "415 send an AdmissionReview as application/json"),
        ("/validate/pods", json, review(&good), "404 "),
    ] {
        let said = posted(&metrics, path, form, body.clone()).await;
        assert!(said.starts_with(expected), "{path} {form} {body}:\n{said}");
    }
    let asked = Request::get(path).body(Body::empty()).unwrap();
    let Ok(answer) = review::router(&metrics).call(asked).await;
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);

    let scraped = metrics.scrape(&Report::default(), "berth");
    for (operation, result, count) in
        [("CREATE", "allowed", 3), ("CREATE", "denied", 1), ("none", "error", 10)]
    {
        let line = format!(
            "vpsie_autoscaler_webhook_validation_duration_seconds_count{{resource=\"nodegroups\",operation=\"{operation}\",result=\"{result}\"}} {count}\n"
        );
        assert!(scraped.contains(&line), "{line} is not in\n{scraped}");
    }
}
