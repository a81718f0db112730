//! The dialects in which pools and claims are written: where their objects are, how they are read, and how what becomes
//! of them is written down.

mod karpenter;
mod vpsie;

use berth_api::resources::berth::VPSieNodeClass;
use berth_api::resources::karpenter::NodePool;
use berth_api::resources::scalar::Amounts;
use berth_api::resources::shared::Condition;
use berth_api::resources::vpsie::NodeGroup;
use berth_api::vpsie::{MachineSetup, Occasion};
use berth_api::{ClassKind, Timestamp, claims, ledger, vpsie as vpsie_names};
use berth_cloud::machine::{Machine, Setup};
use berth_core::commitment::Commitments;
use berth_core::names::{Labels, Text};
use berth_core::plan::{Alternative, Launch};
use berth_core::pool::Pool;
use berth_core::resources::Resources;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::claim::Claim;
use crate::cluster::Refused;
use crate::desk::Desk;
use crate::journal::About;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dialect {
    /// NodePool and NodeClaim.
    Karpenter,
    /// NodeGroup and VPSieNode.
    Vpsie,
}

/// Which pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId {
    pub(crate) dialect: Dialect,
    /// Empty where pools have none.
    pub(crate) namespace: Text,
    pub(crate) name: Text,
}

impl PoolId {
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.dialect.pools(&self.namespace), self.name)
    }
}

/// A claim as a list tells of it: there are thousands, and few facts are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Text,
    pub(crate) uid: Text,
    pub(crate) provider_id: Text,
    pub(crate) node_name: Text,
    pub(crate) capacity: Resources,
}

pub(crate) use vpsie::{phase as vpsie_phase, unsaid as vpsie_unsaid, word as vpsie_word};

/// What is new of a claim besides its conditions.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// It has this machine.
    pub(crate) machine: Option<Machine>,
    pub(crate) node_name: Option<String>,
    /// What its machine has, and what of that is for pods, as Kubernetes writes quantities.
    pub(crate) resources: Option<(Value, Value)>,
    /// Pods came to its node, or left it.
    pub(crate) pod_event: Option<Timestamp>,
}

/// Where VPSieNodeClasses are.
pub(crate) const VPSIE_CLASSES: &str = "/apis/berth.dev/v1alpha1/vpsienodeclasses";
/// The plural of them.
pub(crate) const VPSIE_CLASSES_PLURAL: &str = "vpsienodeclasses";

/// Where NodeOverlays are.
pub(crate) const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";
/// The plural of them.
pub(crate) const OVERLAYS_PLURAL: &str = "nodeoverlays";

impl Dialect {
    pub(crate) const ALL: [Self; 2] = [Self::Karpenter, Self::Vpsie];

    /// The plural of its claims.
    pub(crate) fn claims_plural(self) -> &'static str {
        match self {
            Self::Karpenter => "nodeclaims",
            Self::Vpsie => "vpsienodes",
        }
    }

    /// The plural of its pools.
    pub(crate) fn pools_plural(self) -> &'static str {
        match self {
            Self::Karpenter => "nodepools",
            Self::Vpsie => "nodegroups",
        }
    }

    fn pool_kind(self) -> &'static str {
        match self {
            Self::Karpenter => "NodePool",
            Self::Vpsie => "NodeGroup",
        }
    }

    pub(crate) fn claim_kind(self) -> &'static str {
        match self {
            Self::Karpenter => "NodeClaim",
            Self::Vpsie => "VPSieNode",
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Karpenter => "karpenter.sh/v1",
            Self::Vpsie => "autoscaler.vpsie.com/v1alpha1",
        }
    }

    /// Keeps a claim until its machine is gone.
    pub(crate) fn finalizer(self) -> &'static str {
        match self {
            Self::Karpenter => claims::FINALIZER,
            Self::Vpsie => vpsie_names::FINALIZER,
        }
    }

    /// Where claims are; all of them, without a namespace.
    pub(crate) fn claims(self, namespace: &str) -> String {
        self.place(namespace, self.claims_plural())
    }

    pub(crate) fn pools(self, namespace: &str) -> String {
        self.place(namespace, self.pools_plural())
    }

    fn place(self, namespace: &str, plural: &str) -> String {
        let version = self.api_version();
        match namespace {
            "" => format!("/apis/{version}/{plural}"),
            namespace => format!("/apis/{version}/namespaces/{namespace}/{plural}"),
        }
    }

    /// `None` if it cannot be read: why is said by who reads it for planning.
    pub(crate) fn claim(self, text: &str) -> Option<Claim> {
        match self {
            Self::Karpenter => serde_json::from_str(text).ok().map(karpenter::claim),
            Self::Vpsie => serde_json::from_str(text).ok().map(vpsie::claim),
        }
    }

    pub(crate) fn pool(self, text: &str) -> Option<PoolObject> {
        let mut pool = match self {
            Self::Karpenter => PoolObject::NodePool(serde_json::from_str(text).ok()?),
            Self::Vpsie => PoolObject::NodeGroup(serde_json::from_str(text).ok()?),
        };
        // Who has written which field is most of an object, and nobody's concern here.
        pool.metadata_mut().managed_fields = None;
        Some(pool)
    }

    /// The claims of a pool, or all, as they are now.
    pub(crate) async fn entries(self, desk: &Desk, pool: Option<&PoolId>) -> Result<Vec<Entry>, Refused> {
        match self {
            Self::Karpenter => karpenter::entries(desk, pool).await,
            Self::Vpsie => vpsie::entries(desk, pool).await,
        }
    }

    /// What is written on a claim that has got its machine, before its status.
    pub(crate) fn bought(self, machine: &Machine, labels: &Labels) -> Value {
        match self {
            Self::Karpenter => karpenter::bought(labels),
            Self::Vpsie => vpsie::bought(machine, labels),
        }
    }

    /// The status of a claim with these conditions.
    pub(crate) fn status(
        self,
        claim: &Claim,
        (conditions, now): (&[Condition], Timestamp),
        news: &News,
    ) -> Value {
        match self {
            Self::Karpenter => karpenter::status(conditions, news),
            Self::Vpsie => vpsie::status(claim, (conditions, now), news),
        }
    }
}

/// A pool as it is written.
#[derive(Clone, Debug)]
pub enum PoolObject {
    NodePool(Box<NodePool>),
    NodeGroup(Box<NodeGroup>),
}

impl PoolObject {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::NodePool(_) => Dialect::Karpenter,
            Self::NodeGroup(_) => Dialect::Vpsie,
        }
    }

    pub(crate) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::NodePool(pool) => &pool.metadata,
            Self::NodeGroup(group) => &group.metadata,
        }
    }

    /// Whether it is Berth's to run: groups say so with a label.
    pub(crate) fn is_ours(&self) -> bool {
        match self {
            Self::NodePool(_) => true,
            Self::NodeGroup(group) => vpsie_names::is_managed(&group.metadata),
        }
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::NodePool(pool) => &mut pool.metadata,
            Self::NodeGroup(group) => &mut group.metadata,
        }
    }

    pub(crate) fn id(&self) -> PoolId {
        let text = |text: &Option<String>| Text::from(text.as_deref().unwrap_or_default());
        let metadata = self.metadata();
        let (namespace, name) = (text(&metadata.namespace), text(&metadata.name));
        PoolId { dialect: self.dialect(), namespace, name }
    }

    pub(crate) fn about(&self) -> About {
        let PoolId { dialect, namespace, name } = self.id();
        About {
            api_version: dialect.api_version(),
            kind: dialect.pool_kind(),
            namespace: namespace.to_string(),
            name: name.to_string(),
            uid: self.metadata().uid.clone().unwrap_or_default(),
        }
    }

    /// Whose machines it buys. `None`: nobody's that is known.
    pub(crate) fn class(&self) -> Option<ClassKind> {
        match self {
            Self::NodePool(pool) => ClassKind::of(&pool.spec.template.spec.node_class_ref),
            Self::NodeGroup(_) => Some(ClassKind::Vpsie),
        }
    }

    /// The VPSieNodeClass that its machines are made from, if they are.
    pub(crate) fn vpsie_class(&self) -> Option<&str> {
        match self {
            Self::NodePool(pool) if self.class() == Some(ClassKind::Vpsie) => {
                Some(&pool.spec.template.spec.node_class_ref.name)
            }
            Self::NodePool(_) | Self::NodeGroup(_) => None,
        }
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.metadata().creation_timestamp.as_ref().map(|time| time.0)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Whether it asks for what another reading of it did. What Berth writes on pools makes no difference to that.
    pub(crate) fn asks_for_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::NodePool(one), Self::NodePool(other)) => one.spec == other.spec,
            (Self::NodeGroup(one), Self::NodeGroup(other)) => {
                let wishes = |group: &NodeGroup| {
                    let mut wishes = group.metadata.annotations.clone().unwrap_or_default();
                    wishes.remove(ledger::LEDGER);
                    wishes
                };
                one.spec == other.spec && wishes(one) == wishes(other)
            }
            _ => false,
        }
    }

    /// What it has committed itself to.
    pub(crate) fn ledger(&self) -> Result<Commitments, ledger::Unreadable> {
        ledger::of(self.metadata())
    }

    /// The object of a new claim.
    pub(crate) fn new_claim(
        &self,
        name: &str,
        (pool, class): (&Pool, Option<&VPSieNodeClass>),
        (launch, occasion): (&Launch, Occasion),
        offerings: &[Alternative],
    ) -> Value {
        match self {
            Self::NodePool(object) => claims::new_claim(name, (object, pool, class), launch, offerings),
            Self::NodeGroup(object) => {
                vpsie_names::new_node(name, (object, pool), (launch, occasion), offerings)
            }
        }
    }

    /// What it says is wrong with it.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Self::NodePool(pool) => karpenter::trouble(pool),
            Self::NodeGroup(group) => vpsie::trouble(group),
        }
    }
}

/// How a claim's machine is set up, as its cloud takes it.
fn setup_of(written: MachineSetup) -> Setup {
    let MachineSetup { project, image, ssh_keys, kubernetes_version, tags, notes } = written;
    let given = |text: String| Some(Text::from(text)).filter(|text| !text.is_empty());
    let texts = |all: Vec<String>| all.into_iter().map(Text::from).collect();
    Setup {
        project: project.and_then(given),
        image: image.and_then(given),
        ssh_keys: texts(ssh_keys),
        kubernetes_version: kubernetes_version.and_then(given),
        marks: texts(tags),
        notes: given(notes),
    }
}

pub(crate) fn resources_of(amounts: &Amounts) -> Resources {
    let mut resources = Resources::new();
    for (name, amount) in amounts {
        resources.set(name, Resources::amount_of(name, amount.get()));
    }
    resources
}

/// Who an object of a list is.
#[derive(Deserialize)]
struct ListedMetadata {
    name: Text,
    uid: Text,
}

/// The entries of a list, each as its dialect has it.
async fn listed<T: DeserializeOwned, E>(
    desk: &Desk,
    path: &str,
    entry: impl Fn(T) -> E,
) -> Result<Vec<E>, Refused> {
    Ok(desk.list::<T>(path).await?.into_iter().map(entry).collect())
}
