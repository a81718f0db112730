//! What is asked of the operator: short plays, each with an end that has to be reached.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use berth_core::catalog::CapacityType;
use berth_world::cloud::Weather;
use berth_world::cloud::weather::{Reclaim, Which};
use serde_json::{Value, json};
use tokio::time::sleep;

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
    /// Nodes that have drifted are replaced, one at a time.
    W6,
    /// A pool is deleted while it launches.
    W8,
    /// Two hundred pods against a limit of ten nodes.
    Limit,
}

impl Workload {
    pub(crate) const ALL: [Self; 6] = [Self::W1, Self::W2, Self::W4, Self::W5, Self::W6, Self::W8];
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().chain([Self::Limit]).find(|workload| workload.to_string() == text);
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
        stage.apply(class()).await;
        match self {
            Self::W1 => up_and_down(stage).await,
            Self::W2 => burst(stage).await,
            Self::W4 => half_empty(stage).await,
            Self::W5 => reclaimed(stage).await,
            Self::W6 => drifted(stage).await,
            Self::W8 => deleted_while_launching(stage).await,
            Self::Limit => limited(stage).await,
        }
    }

    /// What it comes to in the end.
    pub(crate) fn is_over(self, state: &State) -> bool {
        match self {
            Self::W1 => at_rest(0)(state) && !has_claims(state),
            Self::W2 | Self::W6 | Self::W8 => at_rest(9)(state) && state.alive().count() <= 3,
            Self::W4 => at_rest(11)(state) && state.alive().count() <= 5,
            Self::W5 => at_rest(27)(state) && state.alive().count() <= 9,
            Self::Limit => state.running() == 30 && invariants::is_settled(state),
        }
    }

    /// More claims than this are not made for it if nothing goes wrong.
    pub(crate) fn claims_max(self) -> u64 {
        match self {
            Self::W1 => 6,
            Self::W2 => 5,
            Self::W4 => 16,
            Self::W5 => 14,
            Self::W6 => 8,
            Self::W8 => 12,
            Self::Limit => 10,
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
    // A node of four CPUs has room for three such pods.
    let is_full = |state: &State| state.running() == 15 && invariants::is_settled(state);
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
    let changed = |pool: &mut Value| {
        pool["spec"]["template"]["metadata"] = json!({ "labels": { "generation": "2" } });
    };
    stage.apply(pool("default", &["4"], 1, changed)).await;
    let is_new =
        |state: &State| at_rest(9)(state) && !old.iter().any(|claim| state.claims.contains_key(claim));
    stage.until("all nodes are new", is_new).await
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

async fn limited(stage: &Stage) -> Result<(), Broken> {
    let limited = |pool: &mut Value| pool["spec"]["limits"] = json!({ "nodes": 10 });
    stage.apply(pool("default", &["4"], 10, limited)).await;
    stage.apply(deployment("web", 200, "1")).await;
    stage.until("the pool is full", |state| Workload::Limit.is_over(state)).await
}
