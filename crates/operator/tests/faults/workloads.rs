//! What is asked of the operator: short plays, each with an end that has to be reached.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use berth_cloud::vpsie::Family;
use berth_core::catalog::CapacityType;
use berth_core::resources::CPU;
use berth_world::cloud::Weather;
use berth_world::cloud::weather::{Reclaim, Which};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{self, group, suited};
use crate::dialect::Dialect;
use crate::invariants::{self, Broken};
use crate::objects::{NODEPOOLS, budget, capacity_type, class, deployment, pod, pool};
use crate::play::Stage;
use crate::truth::State;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
    /// From nothing to twenty pods and back.
    W1,
    /// A burst against a limit.
    W2,
    /// Ten nodes that are half empty become fewer.
    W4,
    /// Three in ten machines are reclaimed.
    W5,
    /// Nodes that have drifted are replaced, one at a time, and then those that have expired.
    W6,
    /// A pool is deleted while it launches.
    W8,
    /// Two hundred pods against a limit of ten nodes.
    Limit,
    /// The same against a limit of money, which is as much.
    MoneyLimit,
    /// More pods come to a group of VPSie's than its nodes may take.
    V1Servers,
    V1Managed,
    /// A group of VPSie's shrinks, but for what has to stay.
    V2Servers,
    V2Managed,
    /// A group of VPSie's is deleted while it launches.
    V3Servers,
    V3Managed,
}

impl Workload {
    pub(crate) const KARPENTER: [Self; 6] = [Self::W1, Self::W2, Self::W4, Self::W5, Self::W6, Self::W8];
    pub(crate) const VPSIE: [Self; 6] = [
        Self::V1Servers,
        Self::V1Managed,
        Self::V2Servers,
        Self::V2Managed,
        Self::V3Servers,
        Self::V3Managed,
    ];

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::V1Servers | Self::V2Servers | Self::V3Servers => Dialect::Vpsie(Family::Servers),
            Self::V1Managed | Self::V2Managed | Self::V3Managed => Dialect::Vpsie(Family::Managed),
            _ => Dialect::Karpenter,
        }
    }

    /// Those that are played for the same, itself among them.
    pub(crate) fn peers(self) -> &'static [Self] {
        if self.dialect().is_vpsie() { &Self::VPSIE } else { &Self::KARPENTER }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut known = Self::KARPENTER.into_iter().chain(Self::VPSIE).chain([Self::Limit, Self::MoneyLimit]);
        let known = known.find(|workload| workload.to_string() == text);
        known.ok_or_else(|| format!("{text:?} is no workload"))
    }
}

/// When machines are reclaimed, after the beginning.
const RECLAIM_MS: u64 = 240_000;

impl Workload {
    pub(crate) fn weather(self) -> Weather {
        let reclaims = match self {
            Self::W5 => vec![Reclaim {
                at_ms: RECLAIM_MS,
                which: Which { capacity_type: Some(CapacityType::Spot), ..Which::default() },
                share_permille: 300,
                ..Reclaim::default()
            }],
            _ => Vec::new(),
        };
        Weather { reclaims, ..Weather::default() }
    }

    pub(crate) async fn play(self, stage: &Stage) -> Result<(), Broken> {
        stage.apply(if self.dialect().is_vpsie() { keys() } else { class() }).await;
        match self {
            Self::W1 => up_and_down(stage).await,
            Self::W2 => burst(stage).await,
            Self::W4 => half_empty(stage).await,
            Self::W5 => reclaimed(stage).await,
            Self::W6 => drifted(stage).await,
            Self::W8 => deleted_while_launching(stage).await,
            Self::Limit => limited(stage, json!({ "nodes": 10 })).await,
            Self::MoneyLimit => limited(stage, json!({ "berth.dev/usd-per-hour": "0.77" })).await,
            Self::V1Servers | Self::V1Managed => grown(stage).await,
            Self::V2Servers | Self::V2Managed => shrunk(stage).await,
            Self::V3Servers | Self::V3Managed => group_deleted_while_launching(stage).await,
        }
    }

    /// What it comes to in the end.
    pub(crate) fn is_over(self, state: &State) -> bool {
        match self {
            Self::W1 => at_rest(0)(state) && !has_claims(state),
            Self::W2 | Self::W8 => at_rest(9)(state) && state.alive().count() <= 3,
            Self::W6 => {
                let stays = !state.claims.values().any(|claim| claim.expires);
                stays && at_rest(9)(state) && state.alive().count() <= 3
            }
            Self::W4 => at_rest(11)(state) && state.alive().count() <= 5,
            Self::W5 => at_rest(27)(state) && state.alive().count() <= 9,
            Self::Limit | Self::MoneyLimit => state.running() == 30 && invariants::is_settled(state),
            Self::V1Servers | Self::V1Managed => {
                state.running() == 4 && state.alive().count() == 4 && invariants::is_settled(state)
            }
            Self::V2Servers | Self::V2Managed => {
                // What was protected may be gone by another's hand. Two stay for as long as it is there.
                let nodes_min = if state.nodes.values().any(|node| node.is_protected) { 2 } else { 1 };
                at_rest(5)(state) && (nodes_min..=2).contains(&state.alive().count())
            }
            Self::V3Servers | Self::V3Managed => at_rest(3)(state) && state.alive().count() == 3,
        }
    }

    /// More claims than this are not made for it if nothing goes wrong.
    pub(crate) fn claims_max(self) -> u64 {
        match self {
            Self::W1 => 6,
            Self::W2 | Self::V2Servers | Self::V2Managed => 5,
            Self::W4 => 16,
            Self::W5 => 14,
            Self::V3Servers | Self::V3Managed => 8,
            Self::W6 | Self::W8 => 12,
            Self::Limit | Self::MoneyLimit => 10,
            Self::V1Servers | Self::V1Managed => 4,
        }
    }
}

/// So many pods run, and nothing is on its way.
fn at_rest(running: usize) -> impl Fn(&State) -> bool {
    move |state| {
        state.running() == running && state.workload().count() == running && invariants::is_settled(state)
    }
}

fn has_claims(state: &State) -> bool {
    state.claims.values().any(|claim| claim.is_ours)
}

async fn up_and_down(stage: &Stage) -> Result<(), Broken> {
    stage.apply(pool("default", &["4", "8"], 4, |_| {})).await;
    stage.apply(deployment("web", 20, "1")).await;
    stage.until("20 pods run", at_rest(20)).await?;
    stage.apply(deployment("web", 0, "1")).await;
    stage.until("nothing is left", |state| Workload::W1.is_over(state)).await
}

async fn burst(stage: &Stage) -> Result<(), Broken> {
    let limited = |pool: &mut Value| pool["spec"]["limits"] = json!({ "nodes": 5, "cpu": "40" });
    stage.apply(pool("default", &["4"], 4, limited)).await;
    stage.apply(deployment("web", 60, "1")).await;
    // The cloud may sell other nodes than were asked for. One of four CPUs has room for three such pods, and so on.
    let is_full = |state: &State| {
        let cpus: Vec<i64> = state.alive().map(|machine| machine.amounts.get(CPU) / 1000).collect();
        let room: i64 = cpus.iter().map(|cpus| cpus - 1).sum();
        let has_all = cpus.len() == 5 || cpus.iter().sum::<i64>() + 4 > 40;
        has_all && i64::try_from(state.running()) == Ok(room) && invariants::is_settled(state)
    };
    stage.until("the pool is full", is_full).await?;
    stage.explained().await?;
    stage.rest().await?;
    stage.apply(deployment("web", 9, "1")).await;
    stage.until("nine are left", |state| Workload::W2.is_over(state)).await
}

async fn half_empty(stage: &Stage) -> Result<(), Broken> {
    stage.apply(pool("default", &["4"], 3, |_| {})).await;
    stage.apply(deployment("web", 10, "1")).await;
    stage.apply(deployment("filler", 20, "1")).await;
    stage.apply(budget("web", 8)).await;
    let protect = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
    };
    stage.apply(pod("precious", "500m", protect)).await;
    stage.until("31 pods run", at_rest(31)).await?;
    stage.apply(deployment("filler", 0, "1")).await;
    stage.until("at most five nodes are left", |state| Workload::W4.is_over(state)).await
}

async fn reclaimed(stage: &Stage) -> Result<(), Broken> {
    stage.apply(pool("default", &["4"], 2, |pool| capacity_type(pool, "spot"))).await;
    stage.apply(deployment("web", 27, "1")).await;
    stage.apply(budget("web", 20)).await;
    stage.until("27 pods run", at_rest(27)).await?;
    let began = stage.elapsed_ms();
    if began < RECLAIM_MS {
        sleep(Duration::from_millis(RECLAIM_MS - began + 1000)).await;
    }
    stage.until("27 pods run again", at_rest(27)).await
}

async fn drifted(stage: &Stage) -> Result<(), Broken> {
    stage.apply(pool("default", &["4"], 1, |_| {})).await;
    stage.apply(deployment("web", 9, "1")).await;
    stage.apply(budget("web", 6)).await;
    stage.until("9 pods run", at_rest(9)).await?;
    let old: Vec<String> = stage.truth.look(|state| state.claims.keys().cloned().collect());
    let changed = |expire_after: &'static str| {
        move |pool: &mut Value| {
            pool["spec"]["template"]["metadata"] = json!({ "labels": { "generation": "2" } });
            pool["spec"]["template"]["spec"]["expireAfter"] = json!(expire_after);
        }
    };
    stage.apply(pool("default", &["4"], 1, changed("15m"))).await;
    let is_new =
        |state: &State| at_rest(9)(state) && !old.iter().any(|claim| state.claims.contains_key(claim));
    stage.until("all nodes are new", is_new).await?;
    // Nodes expire when they were going to as they were bought.
    stage.apply(pool("default", &["4"], 1, changed("Never"))).await;
    stage.until("all that expire are replaced", |state| Workload::W6.is_over(state)).await
}

async fn deleted_while_launching(stage: &Stage) -> Result<(), Broken> {
    stage.apply(pool("default", &["4"], 2, |_| {})).await;
    stage.apply(deployment("web", 9, "1")).await;
    stage.until("claims are made", has_claims).await?;
    stage.delete(&format!("{NODEPOOLS}/default")).await;
    stage.until("all are gone", |state| !has_claims(state) && invariants::is_settled(state)).await?;
    stage.apply(pool("default", &["4"], 2, |_| {})).await;
    stage.until("9 pods run", at_rest(9)).await
}

async fn limited(stage: &Stage, limits: Value) -> Result<(), Broken> {
    let limited = |pool: &mut Value| pool["spec"]["limits"] = limits;
    stage.apply(pool("default", &["4"], 10, limited)).await;
    stage.apply(deployment("web", 200, "1")).await;
    stage.until("the pool is full", |state| Workload::Limit.is_over(state)).await
}

/// Who Berth is at VPSie.
fn keys() -> Value {
    account::secret("kube-system", account::URL, account::SECRET)
}

fn small_group(change: impl FnOnce(&mut Value)) -> Value {
    group("workers", |group| {
        group["spec"]["offeringIDs"] = json!(["small"]);
        // Shorter than what is waited for before all is at rest.
        group["spec"]["scaleDownPolicy"] = json!({ "stabilizationWindowSeconds": 30, "cooldownSeconds": 30 });
        change(group);
    })
}

async fn grown(stage: &Stage) -> Result<(), Broken> {
    stage.apply(small_group(|group| group["spec"]["maxNodes"] = json!(4))).await;
    stage.apply(suited(deployment("web", 5, "1500m"))).await;
    stage.until("the group is full", |state| Workload::V1Servers.is_over(state)).await?;
    stage.explained().await
}

async fn shrunk(stage: &Stage) -> Result<(), Broken> {
    stage.apply(small_group(|group| group["spec"]["minNodes"] = json!(1))).await;
    let mut web = suited(deployment("web", 4, "300m"));
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]);
    let mut keeper = suited(deployment("keeper", 1, "300m"));
    keeper["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "cache", "emptyDir": {} }]);
    for object in [web, keeper, suited(deployment("filler", 4, "1200m")), budget("web", 2)] {
        stage.apply(object).await;
    }
    stage.until("nine pods run", at_rest(9)).await?;
    let protected = stage.truth.look(|state| {
        let is_keepers = |node: &str| state.pods_on(node).any(|(_, pod)| pod.has_local_storage);
        state.nodes.keys().find(|node| !is_keepers(node)).cloned()
    });
    let mark = json!({ "metadata": { "annotations": { "autoscaler.vpsie.com/protected": "true" } } });
    stage.patch(&format!("/api/v1/nodes/{}", protected.unwrap_or_default()), &mark).await;
    stage.apply(suited(deployment("filler", 0, "1200m"))).await;
    stage.until("two nodes are left", |state| Workload::V2Servers.is_over(state)).await
}

async fn group_deleted_while_launching(stage: &Stage) -> Result<(), Broken> {
    stage.apply(small_group(|_| {})).await;
    stage.apply(suited(deployment("web", 3, "1500m"))).await;
    stage.until("claims are made", has_claims).await?;
    stage.delete(&format!("{}/workers", account::GROUPS)).await;
    // The group goes last, and one that is going takes nothing more.
    let are_gone = |state: &State| {
        !state.pools.contains_key("workers") && !has_claims(state) && invariants::is_settled(state)
    };
    stage.until("all are gone", are_gone).await?;
    stage.apply(small_group(|_| {})).await;
    stage.until("three pods run", |state| Workload::V3Servers.is_over(state)).await
}
