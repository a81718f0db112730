//! The simulated cloud on a cluster: its machines are Node objects, for which somebody plays the kubelets.
//!
//! The nodes are its memory (docs/decisions/0012-kwok-machines-are-nodes.md). There is one machine for a token at a
//! time, because the node's name follows from it; and none for a claim that is going or gone.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::claims;
use berth_api::duration::GoDuration;
use berth_core::catalog::{Catalog, InstanceType, Offering, OfferingPattern};
use berth_core::names::Text;
use berth_core::plan::Alternative;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::node::{self, CLOUD, ENDED, NodeObject};
use crate::machine::{Machine, MachineId, MachineState, Note, Notice, Order};
use crate::provider::{Answer, Cloud, Lack, Launched, Page, PageMark, Refusal, Unavailable};

const NODES: &str = "/api/v1/nodes";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const CLASSES: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";
/// As many objects as kubectl asks for at once.
const PAGE: u32 = 500;
/// A node that could not be made is tried again after so long.
const JOIN_AGAIN: Duration = Duration::from_secs(1);

/// What a cluster says, as the text of an object or a list.
pub type Said<'a> = Pin<Box<dyn Future<Output = Result<String, Declined>> + Send + 'a>>;

/// What this cloud asks of its cluster. Whoever has a way to one lends it, so that there is no second one.
pub trait Api: Send + Sync + fmt::Debug {
    fn get<'a>(&'a self, path: &'a str) -> Said<'a>;
    fn create<'a>(&'a self, path: &'a str, object: &'a Value) -> Said<'a>;
    /// A merge patch.
    fn patch<'a>(&'a self, path: &'a str, change: &'a Value) -> Said<'a>;
    /// This very object, by its uid.
    fn delete<'a>(&'a self, path: &'a str, uid: &'a str) -> Said<'a>;
}

/// What came instead of an answer: with a code from the API, without one from the way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    pub code: Option<u16>,
    pub message: String,
}

impl From<Declined> for Refusal {
    fn from(Declined { code, message }: Declined) -> Self {
        match code {
            Some(401 | 403) => Self::Denied(message),
            Some(400 | 422) => Self::Invalid(message),
            Some(429) => Self::Throttled { retry_after: None },
            _ => Self::Unknown(message),
        }
    }
}

/// A cloud whose machines are the nodes of a cluster. It must be asked where tokio runs.
#[derive(Debug)]
pub struct KwokCloud {
    shared: Arc<Shared>,
    /// Machines that are on their way; they end with the cloud.
    joining: Mutex<JoinSet<()>>,
}

struct Shared {
    api: Arc<dyn Api>,
    catalog: Arc<Catalog>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Machines that have not joined yet.
    coming: Mutex<BTreeMap<MachineId, Machine>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("api", &self.api).finish_non_exhaustive()
    }
}

impl KwokCloud {
    pub fn new(
        api: Arc<dyn Api>,
        catalog: Arc<Catalog>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared { api, catalog, now: Box::new(now), coming: Mutex::default() };
        Self { shared: Arc::new(shared), joining: Mutex::default() }
    }

    async fn buy(&self, order: &Order) -> Result<Launched, Refusal> {
        order.check()?;
        let id = node::id_of(&order.token)?;
        if let Some(machine) = self.shared.coming().get(&id) {
            return Ok(launched(machine.clone(), Vec::new()));
        }
        let Some(class) = self.shared.class_for(order).await? else {
            return match self.shared.find(&id).await? {
                Some(machine) => Ok(launched(machine, Vec::new())),
                None => Err(Refusal::Invalid(format!("there is no claim {} to buy it for", order.name))),
            };
        };
        let delay = self.shared.delay_of(&class).await?;
        if !delay.is_zero()
            && let Some(machine) = self.shared.find(&id).await?
        {
            return Ok(launched(machine, Vec::new()));
        }
        let (bought, passed_over) = choose(&self.shared.catalog, &order.offerings)?;
        let mut machine = node::bought(order, id, bought, (self.shared.now)());
        let object = node::object(order, &machine, bought);
        if delay.is_zero() {
            machine = self.shared.join(&machine, &object).await?;
        } else {
            self.join_after(delay, machine.clone(), object);
        }
        Ok(launched(machine, passed_over))
    }

    /// Makes the node once the machine has had time to start.
    fn join_after(&self, delay: Duration, machine: Machine, object: Value) {
        self.shared.coming().insert(machine.id.clone(), machine.clone());
        let shared = Arc::clone(&self.shared);
        let mut joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        while joining.try_join_next().is_some() {}
        joining.spawn(async move {
            sleep(delay).await;
            while shared.coming().contains_key(&machine.id) {
                if let Ok(machine) = shared.join(&machine, &object).await {
                    let was_wanted = shared.coming().remove(&machine.id).is_some();
                    if was_wanted || shared.end(&machine.id).await.is_ok() {
                        return;
                    }
                }
                sleep(JOIN_AGAIN).await;
            }
        });
    }
}

impl Shared {
    fn coming(&self) -> MutexGuard<'_, BTreeMap<MachineId, Machine>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Refusal> {
        match self.api.get(path).await {
            Ok(text) => read(path, &text).map(Some),
            Err(Declined { code: Some(404), .. }) => Ok(None),
            Err(declined) => Err(declined.into()),
        }
    }

    /// The class of the order's claim. `None` if the claim is going or gone: nothing is bought for it any more.
    async fn class_for(&self, order: &Order) -> Result<Option<String>, Refusal> {
        let claim: Option<Claim> = self.get(&format!("{CLAIMS}/{}", order.name)).await?;
        let is_wanted = |claim: &Claim| {
            claim.metadata.uid == order.token.as_str() && claim.metadata.deletion_timestamp.is_none()
        };
        Ok(claim.filter(is_wanted).map(|claim| claim.spec.node_class_ref.name))
    }

    /// How long a machine takes to join. A class that is gone says nothing.
    async fn delay_of(&self, class: &str) -> Result<Duration, Refusal> {
        let class: Option<Class> = self.get(&format!("{CLASSES}/{class}")).await?;
        let delay = class.and_then(|class| class.spec.node_registration_delay);
        Ok(delay.map(GoDuration::as_std).unwrap_or_default())
    }

    /// The machine of this name, whether it has ended or not. A node that somebody else made is none.
    async fn find(&self, id: &MachineId) -> Result<Option<Machine>, Refusal> {
        let node: Option<NodeObject> = self.get(&path_of(id)).await?;
        match node.map(|node| node.machine()) {
            Some(None) => Err(Refusal::Invalid(format!("the node {id} is not a machine of this cloud"))),
            found => Ok(found.flatten()),
        }
    }

    /// Makes the machine's node, or finds that it is there.
    async fn join(&self, machine: &Machine, object: &Value) -> Result<Machine, Refusal> {
        match self.api.create(NODES, object).await {
            Ok(_) => Ok(Machine { state: MachineState::Running, ..machine.clone() }),
            Err(Declined { code: Some(409), message }) => {
                self.find(&machine.id).await?.ok_or(Refusal::Unknown(message))
            }
            Err(declined) => Err(declined.into()),
        }
    }

    /// First says on the node that its machine is gone, then deletes it: a finalizer may hold it, and a node that
    /// somebody else deletes has its machine until that is ended.
    async fn end(&self, id: &MachineId) -> Result<(), Refusal> {
        if self.coming().remove(id).is_some() {
            return Ok(());
        }
        let path = path_of(id);
        let not_found = || Refusal::NotFound(id.clone());
        let node: NodeObject = self.get(&path).await?.ok_or_else(not_found)?;
        if node.machine().is_none() {
            return Err(not_found());
        }
        let uid = &node.metadata.uid;
        let had_ended = node.has_ended();
        if !had_ended {
            let ended = json!({ "metadata": { "uid": uid, "annotations": { ENDED: "true" } } });
            forgiving_absence(self.api.patch(&path, &ended).await)?;
        }
        if node.metadata.deletion_timestamp.is_none() {
            forgiving_absence(self.api.delete(&path, uid).await)?;
        }
        if had_ended { Err(not_found()) } else { Ok(()) }
    }

    async fn page(&self, from: Option<&PageMark>) -> Result<Page, Refusal> {
        let (key, value) = (CLOUD.0.replace('/', "%2F"), CLOUD.1);
        let mut path = format!("{NODES}?labelSelector={key}%3D{value}&limit={PAGE}");
        if let Some(PageMark(mark)) = from {
            path = format!("{path}&continue={mark}");
        }
        let list: List = read(&path, &self.api.get(&path).await?)?;
        let joined = list.items.iter().filter(|node| !node.has_ended()).filter_map(NodeObject::machine);
        let coming = self.coming().values().filter(|_| from.is_none()).cloned().collect::<Vec<_>>();
        let next = list.metadata.next.filter(|mark| !mark.is_empty()).map(PageMark);
        Ok(Page { machines: joined.chain(coming).collect(), next })
    }
}

impl Cloud for KwokCloud {
    fn prepare<'a>(&'a self, _: &'a Order) -> Answer<'a, Option<Note>> {
        Box::pin(async { Ok(None) })
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        Box::pin(self.buy(order))
    }

    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
        Box::pin(async move {
            if let Some(machine) = self.shared.coming().get(id) {
                return Ok(machine.clone());
            }
            let node: Option<NodeObject> = self.shared.get(&path_of(id)).await?;
            let machine = node.filter(|node| !node.has_ended()).and_then(|node| node.machine());
            machine.ok_or_else(|| Refusal::NotFound(id.clone()))
        })
    }

    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
        Box::pin(self.shared.page(from))
    }

    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
        Box::pin(self.shared.end(id))
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(async { Ok(Arc::clone(&self.shared.catalog)) })
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[derive(Debug, Deserialize)]
struct Claim {
    metadata: Metadata,
    spec: ClaimSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    node_class_ref: ClassRef,
}

#[derive(Debug, Deserialize)]
struct ClassRef {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Class {
    #[serde(default)]
    spec: ClassSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClassSpec {
    node_registration_delay: Option<GoDuration>,
}

#[derive(Debug, Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<NodeObject>,
}

#[derive(Debug, Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: Option<Text>,
}

fn launched(machine: Machine, passed_over: Vec<Unavailable>) -> Launched {
    Launched::Machine { machine, passed_over }
}

/// The first of the offerings that there is, and those before it.
fn choose<'c>(
    catalog: &'c Catalog,
    offerings: &[Alternative],
) -> Result<((&'c InstanceType, &'c Offering), Vec<Unavailable>), Refusal> {
    let mut passed_over = Vec::new();
    for wanted in offerings {
        let known = catalog.types.iter().find(|known| known.name == wanted.instance_type);
        let offered = known.and_then(|known| {
            let offering = claims::offering_in(known, &wanted.zone, wanted.capacity_type)?;
            Some((&**known, offering))
        });
        if let Some(bought) = offered {
            return Ok((bought, passed_over));
        }
        let offerings = OfferingPattern {
            instance_type: Some(wanted.instance_type.clone()),
            zone: Some(wanted.zone.clone()),
            capacity_type: Some(wanted.capacity_type),
        };
        passed_over.push(Unavailable { offerings, lack: Lack::NotOffered });
    }
    Err(Refusal::Unavailable(passed_over))
}

fn path_of(id: &MachineId) -> String {
    format!("{NODES}/{id}")
}

fn read<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text).map_err(|error| Refusal::Unknown(format!("{path}: {error}")))
}

fn forgiving_absence(said: Result<String, Declined>) -> Result<(), Refusal> {
    match said {
        Err(Declined { code: Some(404), .. }) => Ok(()),
        said => said.map(drop).map_err(Refusal::from),
    }
}
