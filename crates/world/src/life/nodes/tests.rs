use super::super::lab::Lab;
use crate::json::{Value, json};
use crate::object;

fn conditions(node: &Value) -> Vec<String> {
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|said| {
            let word = |field| object::text(said, &[field]).to_owned();
            format!("{} {} {} {}", word("type"), word("status"), word("reason"), word("message"))
        })
        .collect()
}

fn word<'a>(pod: &'a Value, of: &str, field: &str) -> &'a str {
    object::condition(pod, of).map(|condition| object::text(condition, &[field])).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn who_is_not_heard_of_is_unreachable() {
    let lab = Lab::new();
    lab.nodes(&["dead", "well"]).await;
    let patient = |secs: i64| {
        json!({"tolerations": [
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": secs},
        ]})
    };
    lab.pod("stays", "dead", json!({}), patient(300)).await;
    lab.pod("short", "dead", json!({}), patient(5)).await;
    lab.pod("other", "well", json!({}), json!({})).await;
    lab.pass(21).await;
    lab.kubelets.silence("dead");
    lab.pass(48).await;
    assert_eq!(object::condition_status(&lab.get("nodes", "dead"), "Ready"), "True");
    lab.pass(3).await;
    let node = lab.get("nodes", "dead");
    let said = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .map(|of| format!("{of} Unknown NodeStatusUnknown Kubelet stopped posting node status."));
    assert_eq!(conditions(&node), said);
    assert_eq!(object::annotation(&node, "node.alpha.kubernetes.io/ttl"), "0");
    assert_eq!(
        lab.taints("dead"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert_eq!(node["spec"]["taints"][1]["timeAdded"], "2026-01-01T00:01:10Z");
    for (pod, ready) in [("stays", "False"), ("short", "False"), ("other", "True")] {
        assert_eq!(object::condition_status(&lab.get("pods", pod), "Ready"), ready, "{pod}");
        assert_eq!(object::condition_status(&lab.get("pods", pod), "ContainersReady"), "True", "{pod}");
    }
    assert!(lab.taints("well").is_empty());
    lab.pass(5).await;
    let short = lab.get("pods", "short");
    assert_eq!(word(&short, "DisruptionTarget", "reason"), "DeletionByTaintManager");
    assert_eq!(word(&short, "DisruptionTarget", "message"), "Taint manager: deleting due to NoExecute taint");
    assert!(object::is_terminating(&short) && !object::is_terminating(&lab.get("pods", "stays")));
    let events = lab.events("dead");
    assert_eq!(
        events,
        [
            "RegisteredNode: Node dead event: Registered Node dead in Controller",
            "NodeNotReady: Node dead status is now: NodeNotReady"
        ]
    );
    assert_eq!(
        lab.events("short").last().unwrap(),
        "TaintManagerEviction: Marking for deletion Pod default/short"
    );
    assert!(lab.events("stays").contains(&"NodeNotReady: Node is not ready".to_owned()));
    // Once it is back, all is as before, and what was to go goes.
    lab.kubelets.revive("dead");
    lab.pass(5).await;
    assert!(lab.taints("dead").is_empty());
    assert_eq!(object::condition_status(&lab.get("pods", "stays"), "Ready"), "True");
    assert!(lab.get("pods", "short").is_null());
    assert_eq!(
        lab.events("stays").last().unwrap(),
        "TaintManagerEviction: Cancelling deletion of Pod default/stays"
    );
    lab.pass(300).await;
    assert!(!object::is_terminating(&lab.get("pods", "stays")));
}

#[tokio::test(start_paused = true)]
async fn who_never_spoke_is_unknown_after_a_minute() {
    let lab = Lab::new();
    lab.kubelets.silence("n");
    lab.nodes(&["n", "well"]).await;
    lab.pass(59).await;
    assert!(conditions(&lab.get("nodes", "n")).is_empty());
    lab.pass(2).await;
    let said = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .map(|of| format!("{of} Unknown NodeStatusNeverUpdated Kubelet never posted node status."));
    assert_eq!(conditions(&lab.get("nodes", "n")), said);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_tainted_one_after_the_other_and_not_all() {
    let names = ["a", "b", "c", "d"];
    let lab = Lab::new();
    lab.nodes(&names).await;
    lab.pass(5).await;
    let driven = |lab: &Lab| {
        let has =
            |name: &&&str| lab.taints(name).contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned());
        names.iter().filter(has).count()
    };
    for name in &names[..2] {
        lab.kubelets.silence(name);
    }
    for (secs, expected) in [(44, 0), (2, 1), (10, 2)] {
        lab.pass(secs).await;
        assert_eq!(driven(&lab), expected);
    }
    // Where nobody is ready any more, it is nobody's fault.
    for name in names {
        lab.kubelets.silence(name);
    }
    lab.pass(60).await;
    assert_eq!(driven(&lab), 0);
    assert_eq!(lab.taints("d"), ["node.kubernetes.io/unreachable:NoSchedule"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_tainted_as_they_are() {
    let lab = Lab::new();
    lab.nodes(&["n", "well"]).await;
    lab.kubelets.never_ready("n");
    lab.pass(1).await;
    lab.change("nodes", "well", |node| node["spec"]["unschedulable"] = json!(true)).await;
    lab.pass(1).await;
    assert_eq!(lab.taints("well"), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    assert_eq!(
        lab.taints("n"),
        ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]
    );
    // Those of others stay.
    lab.change("nodes", "well", |node| {
        node["spec"] = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
    })
    .await;
    lab.pass(1).await;
    assert_eq!(lab.taints("well"), ["a:NoSchedule"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_nodes_that_are_gone_go() {
    let lab = Lab::new();
    lab.nodes(&["n", "lost", "well"]).await;
    lab.pod("p", "n", json!({}), json!({})).await;
    lab.pod("kept", "n", json!({}), json!({})).await;
    lab.pod("q", "lost", json!({}), json!({})).await;
    lab.pass(11).await;
    lab.change("pods", "kept", |pod| pod["metadata"]["finalizers"] = json!(["a.b/c"])).await;
    lab.delete("nodes", "n").await;
    lab.kubelets.lose("lost");
    lab.pass(39).await;
    assert!(!lab.get("pods", "p").is_null());
    assert_eq!(
        lab.events("n").last().unwrap(),
        "RemovingNode: Node n event: Removing Node n from Controller"
    );
    lab.pass(2).await;
    assert!(lab.get("pods", "p").is_null());
    let kept = lab.get("pods", "kept");
    assert_eq!(object::text(&kept, &["status", "phase"]), "Failed");
    assert_eq!(word(&kept, "DisruptionTarget", "reason"), "DeletionByPodGC");
    assert_eq!(word(&kept, "DisruptionTarget", "message"), "PodGC: node no longer exists");
    // A node without a machine is deleted once it is not ready; its pods follow.
    assert!(!lab.get("nodes", "lost").is_null());
    lab.pass(20).await;
    assert!(lab.get("nodes", "lost").is_null());
    assert!(lab.events("lost").contains(
        &"DeletingNode: Deleting node lost because it does not exist in the cloud provider".to_owned()
    ));
    lab.pass(41).await;
    assert!(lab.get("pods", "q").is_null());
}
