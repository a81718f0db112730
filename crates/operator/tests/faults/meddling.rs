//! Others in the cluster: people who change things at a bad moment, kubelets in trouble, objects without sense.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::group;
use crate::dialect::Dialect;
use crate::objects::{budget, pod, pool};
use crate::play::Stage;
use crate::truth::State;

/// What somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    ClaimDeletedAtOnce,
    ClaimDeletedOnceLaunched,
    FinalizerRemoved,
    NodeDeleted,
    ProtectedPodBeforeTaint,
    LocalDataBeforeTaint,
    NodeProtectedBeforeTaint,
    TolerantPodOnClosedNode,
    PodProtectedAfterTaint,
    BudgetThatAllowsNone,
    TaintRemoved,
    LedgerRemoved,
    Cordoned,
    Flaps5s,
    Flaps60s,
    NeverReady,
    Silent,
}

impl Deed {
    /// F22.
    pub(crate) const RACES: [Self; 12] = [
        Self::ClaimDeletedAtOnce,
        Self::ClaimDeletedOnceLaunched,
        Self::FinalizerRemoved,
        Self::NodeDeleted,
        Self::ProtectedPodBeforeTaint,
        Self::NodeProtectedBeforeTaint,
        Self::TolerantPodOnClosedNode,
        Self::PodProtectedAfterTaint,
        Self::BudgetThatAllowsNone,
        Self::TaintRemoved,
        Self::LedgerRemoved,
        Self::Cordoned,
    ];

    /// F22, besides, where nodes that keep data stay.
    pub(crate) const RACES_WITH_CHECKS: [Self; 1] = [Self::LocalDataBeforeTaint];

    /// F17.
    pub(crate) const KUBELETS: [Self; 4] = [Self::Flaps5s, Self::Flaps60s, Self::NeverReady, Self::Silent];
}

/// Somebody who does it to the so many-th that it can be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meddler {
    pub(crate) deed: Deed,
    pub(crate) nth: usize,
}

/// What is done is undone after so long.
const UNDONE: Duration = Duration::from_mins(5);
/// Where it is bad, sooner.
const UNDONE_SOON: Duration = Duration::from_mins(2);

impl fmt::Display for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.deed, self.nth)
    }
}

impl FromStr for Meddler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (deed, nth) = text.split_once(' ').ok_or_else(|| format!("{text:?} has no number"))?;
        let known = Deed::RACES.into_iter().chain(Deed::RACES_WITH_CHECKS).chain(Deed::KUBELETS);
        let deed = known.into_iter().find(|known| format!("{known:?}") == deed);
        let deed = deed.ok_or_else(|| format!("{text:?} is nothing that somebody does"))?;
        Ok(Self { deed, nth: nth.parse().map_err(|_| format!("{nth:?} is no number"))? })
    }
}

impl Meddler {
    /// Does it, and undoes it.
    pub(crate) async fn meddle(&self, stage: &Stage) {
        let victim = self.wait(stage).await;
        stage.strike();
        let dialect = stage.truth.look(|state| state.dialect);
        let claim = format!("{}/{victim}", dialect.claims_path());
        let node = format!("/api/v1/nodes/{victim}");
        match self.deed {
            Deed::ClaimDeletedAtOnce | Deed::ClaimDeletedOnceLaunched => stage.delete(&claim).await,
            Deed::FinalizerRemoved => {
                stage.delete(&claim).await;
                stage.patch(&claim, &json!({ "metadata": { "finalizers": [] } })).await;
            }
            Deed::NodeDeleted => stage.delete(&node).await,
            Deed::ProtectedPodBeforeTaint | Deed::LocalDataBeforeTaint | Deed::TolerantPodOnClosedNode => {
                let change = |pod: &mut Value| {
                    pod["metadata"]["namespace"] = json!("kube-public");
                    pod["spec"]["nodeName"] = json!(victim);
                    match self.deed {
                        Deed::TolerantPodOnClosedNode => {
                            pod["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
                        }
                        Deed::LocalDataBeforeTaint => {
                            pod["spec"]["volumes"] = json!([{ "name": "cache", "emptyDir": {} }]);
                            pod["spec"]["tolerations"] =
                                json!([{ "key": "dedicated", "operator": "Exists" }]);
                        }
                        _ => {
                            pod["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
                        }
                    }
                };
                stage.apply(pod("late", "10m", change)).await;
                sleep(UNDONE).await;
                stage.delete("/api/v1/namespaces/kube-public/pods/late").await;
            }
            Deed::NodeProtectedBeforeTaint => {
                let mark = |value: Value| json!({ "metadata": { "annotations": { (dialect.protection()): value } } });
                stage.patch(&node, &mark(json!("true"))).await;
                sleep(UNDONE).await;
                stage.patch(&node, &mark(Value::Null)).await;
            }
            Deed::PodProtectedAfterTaint => {
                let find = |state: &State| state.pods_on(&victim).next().map(|((_, name), _)| name.clone());
                let Some(name) = stage.truth.look(find) else { return };
                let path = format!("/api/v1/namespaces/default/pods/{name}");
                let mark = |value: Value| json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": value } } });
                stage.patch(&path, &mark(json!("true"))).await;
                sleep(UNDONE).await;
                stage.patch(&path, &mark(Value::Null)).await;
            }
            Deed::BudgetThatAllowsNone => {
                let mut none = budget("web", 1000);
                none["metadata"]["name"] = json!("none");
                stage.apply(none).await;
                sleep(UNDONE_SOON).await;
                stage.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/none").await;
            }
            Deed::TaintRemoved => stage.patch(&node, &json!({ "spec": { "taints": [] } })).await,
            Deed::LedgerRemoved => {
                let none = json!({ "metadata": { "annotations": { "berth.dev/ledger": null } } });
                stage.patch(&format!("{}/{victim}", dialect.pools_path()), &none).await;
            }
            Deed::Cordoned => {
                stage.patch(&node, &json!({ "spec": { "unschedulable": true } })).await;
                sleep(UNDONE).await;
                stage.patch(&node, &json!({ "spec": { "unschedulable": false } })).await;
            }
            Deed::Flaps5s | Deed::Flaps60s | Deed::NeverReady | Deed::Silent => {
                let kubelets = stage.world.kubelets();
                match self.deed {
                    Deed::Flaps5s => kubelets.flap(&victim, Duration::from_secs(5)),
                    Deed::Flaps60s => kubelets.flap(&victim, Duration::from_mins(1)),
                    Deed::NeverReady => kubelets.never_ready(&victim),
                    _ => kubelets.silence(&victim),
                }
                sleep(UNDONE).await;
                // One that has gone meanwhile stays so.
                if stage.truth.look(|state| state.nodes.contains_key(&victim)) {
                    kubelets.revive(&victim);
                }
            }
        }
    }

    /// Waits for the so many-th to whom it can be done.
    async fn wait(&self, stage: &Stage) -> String {
        let mut revisions = stage.world.revisions();
        let mut seen = Vec::new();
        loop {
            let mut candidates = stage.truth.look(|state| self.candidates(state));
            candidates.retain(|name| !seen.contains(name));
            seen.extend(candidates);
            if let Some(victim) = seen.get(self.nth - 1) {
                return victim.clone();
            }
            // The world holds the sender.
            let _ = revisions.changed().await;
        }
    }

    fn candidates(&self, state: &State) -> Vec<String> {
        let claims = |wanted: &dyn Fn(&crate::things::Claim) -> bool| {
            state.claims.iter().filter(|(_, claim)| wanted(claim)).map(|(name, _)| name.clone()).collect()
        };
        let nodes = |wanted: &dyn Fn(&crate::things::Node) -> bool| {
            state.nodes.iter().filter(|(_, node)| wanted(node)).map(|(name, _)| name.clone()).collect()
        };
        // The nodes of claims that leave.
        let leaving = || {
            let claims = state.pools.values().flat_map(|pool| pool.ledger.leaving.keys());
            claims.filter_map(|claim| Some(state.claims.get(&**claim)?.node.clone())).collect()
        };
        match self.deed {
            Deed::ClaimDeletedAtOnce => claims(&|_| true),
            Deed::ClaimDeletedOnceLaunched | Deed::FinalizerRemoved => {
                claims(&|claim| !claim.provider_id.is_empty())
            }
            Deed::NodeDeleted | Deed::Cordoned => nodes(&|node| node.is_ready),
            Deed::ProtectedPodBeforeTaint | Deed::LocalDataBeforeTaint | Deed::NodeProtectedBeforeTaint => {
                leaving()
            }
            Deed::TolerantPodOnClosedNode | Deed::PodProtectedAfterTaint | Deed::TaintRemoved => {
                nodes(&|node| node.is_closed)
            }
            Deed::BudgetThatAllowsNone => claims(&|claim| claim.deletion.is_some()),
            Deed::LedgerRemoved => {
                let used = state.pools.iter().filter(|(_, pool)| !pool.ledger.claims.is_empty());
                used.map(|(name, _)| name.clone()).collect()
            }
            Deed::Flaps5s | Deed::Flaps60s | Deed::NeverReady | Deed::Silent => nodes(&|_| true),
        }
    }
}

/// An object that makes no sense, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poison {
    PoolWithoutClass,
    PoolWithBadSchedule,
    PoolWithForeignLedger,
    ForeignClaim,
    ForeignNode,
    PodWithoutVolume,
    PodWithOddProtection,
    PodTooLarge,
    HugeLabels,
    GroupOfNothing,
    NodeOfNoGroup,
}

impl Poison {
    const ALL: [Self; 11] = [
        Self::PoolWithoutClass,
        Self::PoolWithBadSchedule,
        Self::PoolWithForeignLedger,
        Self::ForeignClaim,
        Self::ForeignNode,
        Self::PodWithoutVolume,
        Self::PodWithOddProtection,
        Self::PodTooLarge,
        Self::HugeLabels,
        Self::GroupOfNothing,
        Self::NodeOfNoGroup,
    ];

    /// Those whose kinds are defined for it.
    pub(crate) fn of(dialect: Dialect) -> impl Iterator<Item = Self> {
        let is_vpsies = |poison: &Self| matches!(poison, Self::GroupOfNothing | Self::NodeOfNoGroup);
        Self::ALL.into_iter().filter(move |poison| dialect.is_vpsie() || !is_vpsies(poison))
    }

    pub(crate) async fn apply(self, stage: &Stage) {
        let elsewhere = |pod: &mut Value| pod["metadata"]["namespace"] = json!("kube-public");
        let object = match self {
            Self::PoolWithoutClass => pool("poison", &["4"], 1, |pool| {
                pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("nowhere");
            }),
            Self::PoolWithBadSchedule => pool("poison", &["4"], 1, |pool| {
                pool["spec"]["disruption"]["budgets"] =
                    json!([{ "nodes": "1", "schedule": "99 99 * * *", "duration": "1h" }]);
            }),
            Self::PoolWithForeignLedger => pool("poison", &["4"], 1, |pool| {
                pool["metadata"]["annotations"] = json!({ "berth.dev/ledger": "{\"version\": 99}" });
                pool["spec"]["weight"] = json!(1);
                pool["spec"]["template"]["spec"]["taints"] =
                    json!([{ "key": "poison", "value": "x", "effect": "NoSchedule" }]);
            }),
            Self::ForeignClaim => json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": { "name": "poison", "labels": { "karpenter.sh/nodepool": "elsewhere" } },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "other" },
                    "requirements": [],
                },
            }),
            Self::ForeignNode => json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": "poison" },
                "spec": { "providerID": "sim://elsewhere/i-unknown", "unschedulable": true },
            }),
            Self::PodWithoutVolume => pod("poison", "1", |pod| {
                elsewhere(pod);
                pod["spec"]["volumes"] =
                    json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "nowhere" } }]);
            }),
            Self::PodWithOddProtection => pod("poison", "1", |pod| {
                elsewhere(pod);
                pod["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "for a while" });
                pod["spec"]["nodeSelector"] = json!({ "nowhere": "true" });
            }),
            Self::PodTooLarge => pod("poison", "9000000000000", elsewhere),
            Self::HugeLabels => pod("poison", "1", |pod| {
                elsewhere(pod);
                for index in 0..1000 {
                    pod["metadata"]["labels"][format!("label-{index}")] = json!("x".repeat(60));
                }
                pod["spec"]["nodeSelector"] = json!({ "nowhere": "true" });
            }),
            Self::GroupOfNothing => group("poison", |group| {
                group["spec"]["minNodes"] = json!(1);
                group["spec"]["offeringIDs"] = json!(["nowhere"]);
            }),
            Self::NodeOfNoGroup => json!({
                "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
                "metadata": { "name": "poison", "namespace": "kube-system" },
                "spec": {
                    "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "elsewhere",
                    "datacenterID": "dc-1", "resourceIdentifier": "c-1", "project": "p-1",
                    "kubernetesVersion": "v1.34.0",
                },
            }),
        };
        stage.apply(object).await;
        stage.strike();
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Poison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|poison| poison.to_string() == text);
        known.ok_or_else(|| format!("{text:?} is no poison"))
    }
}
