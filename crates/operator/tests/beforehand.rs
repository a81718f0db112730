//! Clusters that Berth cannot work on, and those that it can.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use berth_operator::{Clock, Cluster, Mode, Undertaking, beforehand};
use berth_world::World;
use kube::Client;
use serde_json::{Value, json};

const NOW: &str = "2026-03-01T09:00:00Z";

fn definitions() -> Vec<Value> {
    let text = berth_api::crds::yaml().expect("they can be written");
    let (objects, problems) =
        berth_api::objects(&[berth_api::Source::Text { name: "crds".to_owned(), text }]);
    assert!(problems.is_empty());
    objects.into_iter().map(|object| object.value).collect()
}

/// The same, in a version of yesterday.
fn of_yesterday() -> Vec<Value> {
    let mut definitions = definitions();
    for definition in &mut definitions {
        if definition["spec"]["group"] == "karpenter.sh" {
            definition["spec"]["versions"][0]["name"] = json!("v1beta1");
        }
    }
    definitions
}

fn lease(name: &str, renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "kube-system", "name": name },
        "spec": { "holderIdentity": "somebody-1", "leaseDurationSeconds": 15, "renewTime": renewed },
    })
}

async fn said(objects: Vec<Value>, wanted: Undertaking<'_>) -> Option<String> {
    let world = World::new(1, NOW.parse().expect("a time"));
    for object in objects {
        world.apply("test", &object).await.expect("it is applied");
    }
    let cluster = Cluster::through(Client::new(world.client("berth"), "default"), "the world");
    let clock = Clock::new(move || world.clock_of("berth"));
    beforehand(&cluster, &clock, wanted).await.err().map(|unfit| unfit.to_string())
}

#[tokio::test(start_paused = true)]
async fn clusters_are_looked_at_first() {
    let with = |lease: Value| definitions().into_iter().chain([lease]).collect::<Vec<_>>();
    let install = "install Berth's definitions with `berth crds | kubectl apply --server-side -f -`";
    let missing =
        format!("the world has no nodepools.karpenter.sh and no nodeclaims.karpenter.sh; {install}");
    let old = format!("the world serves nodepools.karpenter.sh as v1beta1, and Berth reads v1; {install}");
    let (recent, stale) = ("2026-03-01T08:59:50.000000Z", "2026-03-01T08:00:00.000000Z");
    let rival = "Karpenter is at work here: somebody-1 holds the lease kube-system/karpenter-leader-election and \
                 renewed it 10 s ago.";
    for (objects, mode, complaint) in [
        (vec![], Mode::Act, Some(&*missing)),
        (vec![], Mode::Shadow, None),
        (of_yesterday(), Mode::Act, Some(&old)),
        (definitions(), Mode::Act, None),
        (with(lease("karpenter-leader-election", recent)), Mode::Act, Some(rival)),
        (with(lease("karpenter-leader-election", recent)), Mode::Shadow, None),
        (with(lease("karpenter-leader-election", stale)), Mode::Act, None),
        (with(lease("cluster-autoscaler", recent)), Mode::Act, Some("Cluster Autoscaler is at work here: ")),
        (with(lease("berth", recent)), Mode::Act, None),
        (with(lease("vpsie-autoscaler-leader", recent)), Mode::Act, None),
    ] {
        assert_complaint(said(objects, karpenters(mode)).await.as_deref(), complaint);
    }
    let theirs = Undertaking { has_vpsie: true, ..karpenters(Mode::Act) };
    let of_group = |definition: &Value, group: &str| definition["spec"]["group"] == group;
    let without = |group: &str| definitions().into_iter().filter(|d| !of_group(d, group)).collect::<Vec<_>>();
    let missing = "the world has no nodegroups.autoscaler.vpsie.com and no vpsienodes.autoscaler.vpsie.com; ";
    for (objects, wanted, complaint) in [
        (without("autoscaler.vpsie.com"), theirs, Some(missing)),
        (without("karpenter.sh"), theirs, None),
        (
            with(lease("vpsie-autoscaler-leader", recent)),
            theirs,
            Some("VPSie's autoscaler is at work here: "),
        ),
        (
            with(lease("vpsie-autoscaler-leader", recent)),
            Undertaking { lease: "vpsie-autoscaler-leader", lease_namespace: Some("kube-system"), ..theirs },
            None,
        ),
        (
            with(lease("vpsie-autoscaler-leader", recent)),
            Undertaking { lease: "vpsie-autoscaler-leader", lease_namespace: Some("berth"), ..theirs },
            Some(
                "VPSie's autoscaler is at work here: somebody-1 holds the lease kube-system/vpsie-autoscaler-leader",
            ),
        ),
    ] {
        assert_complaint(said(objects, wanted).await.as_deref(), complaint);
    }
}

fn karpenters(mode: Mode) -> Undertaking<'static> {
    Undertaking { mode, has_vpsie: false, lease: "berth", lease_namespace: None }
}

fn assert_complaint(said: Option<&str>, complaint: Option<&str>) {
    match (said, complaint) {
        (None, None) => {}
        (Some(said), Some(complaint)) => assert!(said.starts_with(complaint), "{said}"),
        (said, complaint) => assert_eq!(said, complaint),
    }
}
