//! The dialects of workloads: where their pools and claims are, and what is read of them.

use std::time::Duration;

use berth_api::resources::karpenter::{NodeClaim, NodePool};
use berth_api::resources::vpsie::{NodeGroup, VPSieNode};
use berth_api::{claims, ledger, vpsie};
use berth_cloud::vpsie::Family;
use berth_core::names::{self, Text};
use berth_core::resources::Resources;
use serde_json::Value;

use crate::account;
use crate::objects::{NODECLAIMS, NODEPOOLS};
use crate::things::{Claim, Pool, holding, text, time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// NodePools and NodeClaims, and a cloud that knows tokens.
    Karpenter,
    /// NodeGroups and VPSieNodes, and VPSie by one of its two kinds of paths.
    Vpsie(Family),
}

/// So many nodes of a group go at a time.
const GROUP_AWAY_MAX: u64 = 1;
/// What VPSie's objects call the conditions of a claim.
const CONDITIONS: [(&str, &str); 3] =
    [("VPSReady", "Launched"), ("NodeJoined", "Registered"), ("NodeReady", "Initialized")];

impl Dialect {
    /// The resource of its claims.
    pub(crate) fn claims(self) -> &'static str {
        match self {
            Self::Karpenter => "nodeclaims.karpenter.sh",
            Self::Vpsie(_) => "vpsienodes.autoscaler.vpsie.com",
        }
    }

    /// The resource of its pools.
    pub(crate) fn pools(self) -> &'static str {
        match self {
            Self::Karpenter => "nodepools.karpenter.sh",
            Self::Vpsie(_) => "nodegroups.autoscaler.vpsie.com",
        }
    }

    pub(crate) fn claims_path(self) -> &'static str {
        match self {
            Self::Karpenter => NODECLAIMS,
            Self::Vpsie(_) => account::NODES,
        }
    }

    pub(crate) fn pools_path(self) -> &'static str {
        match self {
            Self::Karpenter => NODEPOOLS,
            Self::Vpsie(_) => account::GROUPS,
        }
    }

    /// The kinds of objects that have to be defined for it. Without the first two Berth does not begin.
    pub(crate) fn defined(self) -> [&'static str; 4] {
        let needed = ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"];
        let own = match self {
            Self::Karpenter => ["kwoknodeclasses.karpenter.kwok.sh", "nodeoverlays.karpenter.sh"],
            Self::Vpsie(_) => [self.pools(), self.claims()],
        };
        [needed[0], needed[1], own[0], own[1]]
    }

    /// All that is judged is about these.
    pub(crate) fn judged(self) -> [&'static str; 5] {
        ["pods", "nodes", "poddisruptionbudgets.policy", self.claims(), self.pools()]
    }

    /// Operators ask its cloud no more than so often in so long.
    pub(crate) fn calls_max(self) -> (usize, Duration) {
        match self {
            Self::Karpenter => (200, Duration::from_secs(1)),
            Self::Vpsie(_) => (100, Duration::from_mins(1)),
        }
    }

    /// The annotation of nodes that stay.
    pub(crate) fn protection(self) -> &'static str {
        match self {
            Self::Karpenter => names::DO_NOT_DISRUPT,
            Self::Vpsie(_) => "autoscaler.vpsie.com/protected",
        }
    }

    /// Machines do not show for whom they were bought.
    pub(crate) fn is_anonymous(self) -> bool {
        self == Self::Vpsie(Family::Managed)
    }

    /// Launches are noted on the claim before they are sent, and what keeps a node is checked before it goes.
    pub(crate) fn is_vpsie(self) -> bool {
        self != Self::Karpenter
    }

    pub(crate) fn claim(self, object: &Value) -> Claim {
        let metadata = &object["metadata"];
        let common = Claim {
            uid: text(&metadata["uid"]),
            pool: String::new(),
            provider_id: String::new(),
            node: text(&object["status"]["nodeName"]),
            created: time(&metadata["creationTimestamp"]).unwrap_or_default(),
            deletion: time(&metadata["deletionTimestamp"]),
            grace_secs: None,
            expires: object["spec"]["expireAfter"].as_str().is_some_and(|after| after != "Never"),
            holds: holding(object).collect(),
            is_ours: !metadata["annotations"][claims::OFFERINGS].is_null(),
            is_noted: !metadata["annotations"][claims::NOTE].is_null(),
        };
        match self {
            Self::Karpenter => {
                let typed = serde_json::from_value::<NodeClaim>(object.clone()).ok();
                let grace = typed.and_then(|claim| claim.spec.termination_grace_period);
                let grace_secs = grace.and_then(|grace| i64::try_from(grace.as_std().as_secs()).ok());
                // It says itself by when its pods have to be gone.
                let deadline = time(&metadata["annotations"][claims::TERMINATION_TIMESTAMP]);
                let left = |(deadline, deletion): (berth_api::Timestamp, berth_api::Timestamp)| {
                    deadline.duration_since(deletion).as_secs()
                };
                Claim {
                    pool: text(&metadata["labels"][names::NODEPOOL]),
                    provider_id: text(&object["status"]["providerID"]),
                    grace_secs: deadline.zip(common.deletion).map(left).or(grace_secs),
                    ..common
                }
            }
            Self::Vpsie(_) => {
                let typed = serde_json::from_value::<VPSieNode>(object.clone()).ok();
                let provider_id = typed.and_then(|node| vpsie::provider_id(&node.spec));
                let ours = |theirs: String| {
                    let known = CONDITIONS.iter().find(|(name, _)| *name == theirs);
                    known.map_or(theirs, |(_, ours)| (*ours).to_owned())
                };
                Claim {
                    pool: text(&object["spec"]["nodeGroupName"]),
                    provider_id: provider_id.unwrap_or_default(),
                    holds: holding(object).map(ours).collect(),
                    ..common
                }
            }
        }
    }

    pub(crate) fn pool(self, object: &Value) -> Pool {
        let whole = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let spec = &object["spec"];
        let is_deleting = !object["metadata"]["deletionTimestamp"].is_null();
        match self {
            Self::Karpenter => {
                let budgets = spec["disruption"]["budgets"].as_array();
                let away = budgets.into_iter().flatten().filter_map(|budget| whole(&budget["nodes"]));
                let pool = serde_json::from_value::<NodePool>(object.clone()).ok();
                Pool {
                    nodes_max: whole(&spec["limits"]["nodes"]),
                    limits: limits(&spec["limits"]),
                    away_max: away.min().unwrap_or(u64::MAX),
                    replicas: whole(&spec["replicas"]),
                    nodes_min: 0,
                    is_deleting,
                    ledger: pool.and_then(|pool| ledger::of(&pool.metadata).ok()).unwrap_or_default(),
                }
            }
            Self::Vpsie(_) => {
                let group = serde_json::from_value::<NodeGroup>(object.clone()).ok();
                Pool {
                    nodes_max: whole(&spec["maxNodes"]),
                    limits: Resources::new(),
                    away_max: GROUP_AWAY_MAX,
                    replicas: None,
                    nodes_min: whole(&spec["minNodes"]).unwrap_or(0),
                    is_deleting,
                    ledger: group.and_then(|group| ledger::of(&group.metadata).ok()).unwrap_or_default(),
                }
            }
        }
    }
}

fn limits(written: &Value) -> Resources {
    let amount = |(name, written): (&String, &Value)| {
        let quantity = written.as_str()?.parse().ok()?;
        Some((Text::from(name.as_str()), Resources::amount_of(name, quantity)))
    };
    let limits = written.as_object().into_iter().flatten().filter(|(name, _)| *name != "nodes");
    limits.filter_map(amount).collect()
}
