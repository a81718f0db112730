//! A VPSie and what it takes to buy from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_cloud::machine::{Machine, MachineId, Note, Order, Token};
use berth_cloud::provider::{Launched, Refusal};
use berth_cloud::vpsie::{Client, ClientSettings, CloudSettings, Credentials, Family, Transport, VpsieCloud};
use berth_cloud::{CatalogOptions, Cloud, import};
use berth_core::catalog::CapacityType;
use berth_core::names::Labels;
use berth_core::plan::Alternative;
use berth_core::units::Price;
use berth_world::cloud::weather::{Delay, Times};
use berth_world::cloud::{Account, SimulatedCloud, Weather};
use berth_world::vpsie::{Faults, InProcess, Vpsie, VpsieSettings};
use jiff::Timestamp;

/// In every secret: it must be seen nowhere.
pub(crate) const CANARY: &str = "canary+5ecret&x=y";
pub(crate) const CLUSTER: &str = "c-1";
/// The size of `small` in the managed family.
pub(crate) const SMALL: usize = 2;

const OFFERS: &str = r#"[
    {"id": "1", "name": "big", "cpu": 8, "ram": 16384, "disk": 160, "hourly_price": 0.2, "datacenter_id": "dc-1"},
    {"id": "2", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05, "datacenter_id": "dc-1"},
    {"id": "3", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.06, "datacenter_id": "dc-2"},
    {"id": "4", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.02, "datacenter_id": "dc-1",
     "spot": true, "interruption_rate": 5}]"#;

/// Nothing takes any time.
pub(crate) fn instant() -> Times {
    let at_once = Delay::secs(0);
    Times {
        answer: at_once,
        launch: at_once,
        join: at_once,
        stop: at_once,
        appear: at_once,
        disappear: at_once,
    }
}

pub(crate) fn calm() -> Weather {
    Weather { times: instant(), ..Weather::default() }
}

pub(crate) fn vpsie(weather: Weather, seed: u64, faults: Faults) -> Vpsie {
    let catalog = import(OFFERS, "vpsie", &CatalogOptions::default()).unwrap();
    let began: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let account = Account::new(Arc::new(catalog), weather, seed, began).with_provider_ids("vpsie", CLUSTER);
    let settings = VpsieSettings {
        cluster: CLUSTER.into(),
        datacenter: "dc-1".into(),
        client_id: format!("id-{CANARY}").into(),
        client_secret: CANARY.into(),
        token: format!("static-{CANARY}").into(),
        tokens_last: Duration::from_hours(1),
        asynchronous: true,
    };
    Vpsie::new(SimulatedCloud::new(account), settings, faults)
}

pub(crate) fn credentials(url: &str) -> Credentials {
    read(&[("clientId", &format!("id-{CANARY}")), ("clientSecret", CANARY), ("url", url)])
}

pub(crate) fn static_credentials(url: &str) -> Credentials {
    read(&[("token", &format!("static-{CANARY}")), ("url", url)])
}

pub(crate) fn read(pairs: &[(&str, &str)]) -> Credentials {
    let data: BTreeMap<String, Vec<u8>> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Credentials::read(&data).unwrap()
}

/// A process that buys: it knows nothing of those before it.
pub(crate) fn process(
    vpsie: &Vpsie,
    family: Family,
    transport: Arc<dyn Transport>,
    credentials: Credentials,
) -> VpsieCloud {
    let clock = vpsie.clone();
    let now = move || clock.cloud().inspect(Account::now);
    let client = Client::new(ClientSettings::new("test"), credentials, transport, Arc::new(()), now);
    let settings = CloudSettings { datacenters: vec!["dc-1".into()], ..CloudSettings::new(family, CLUSTER) };
    VpsieCloud::new(Arc::new(client), settings)
}

/// The same without a socket.
pub(crate) fn process_here(vpsie: &Vpsie, family: Family) -> VpsieCloud {
    let transport = Arc::new(InProcess(vpsie.clone()));
    process(vpsie, family, transport, credentials("https://vpsie.test/v2"))
}

pub(crate) fn order(token: &str, types: &[&str]) -> Order {
    let alternative = |name: &&str| Alternative {
        instance_type: (*name).into(),
        zone: "dc-1".into(),
        capacity_type: CapacityType::OnDemand,
        price_per_hour: Price::ZERO,
    };
    Order {
        labels: Arc::new(Labels::from([("team".into(), "quay".into())])),
        tags: Labels::from([("cluster".into(), "mine".into())]),
        ..Order::new(
            Token::parse(token).unwrap(),
            format!("node-{token}"),
            "default",
            types.iter().map(alternative).collect(),
        )
    }
}

/// What the operator writes down of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) order: Order,
    pub(crate) note: Option<Note>,
    pub(crate) machine: Option<MachineId>,
}

impl Claim {
    pub(crate) fn new(token: &str, types: &[&str]) -> Self {
        Self { order: order(token, types), note: None, machine: None }
    }
}

pub(crate) fn taken(claims: &[Claim]) -> Arc<BTreeSet<MachineId>> {
    Arc::new(claims.iter().filter_map(|claim| claim.machine.clone()).collect())
}

/// One step of a claim, as the operator does it.
pub(crate) async fn step(
    cloud: &VpsieCloud,
    claim: &mut Claim,
    taken: Arc<BTreeSet<MachineId>>,
) -> Result<Option<Machine>, Refusal> {
    if claim.note.is_none() {
        claim.note = cloud.prepare(&claim.order).await?;
    }
    let order = Order { note: claim.note.clone(), taken, ..claim.order.clone() };
    match cloud.launch(&order).await? {
        Launched::Machine { machine, .. } => {
            claim.machine = Some(machine.id.clone());
            Ok(Some(machine))
        }
        Launched::Underway => Ok(None),
        Launched::Nothing => {
            claim.note = None;
            Ok(None)
        }
    }
}

/// How many machines were bought that live.
pub(crate) fn alive(vpsie: &Vpsie) -> usize {
    vpsie.cloud().inspect(|account| account.records().iter().filter(|record| record.is_alive()).count())
}
