//! Servers: bought with a name and tags of the buyer's choice.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::response::Response;
use berth_cloud::machine::{CLAIM_TAG, Machine, MachineId, MachineState, Order, POOL_TAG, Token};
use berth_cloud::provider::{Launched, Refusal};
use berth_core::names::{Labels, Text};
use berth_core::plan::Alternative;
use berth_core::pod::{Taint, TaintEffect};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::answer::{bare, enveloped, enveloped_error, paged, refused};
use super::{Asked, Vpsie};
use crate::cloud::{Account, Reply};

/// What every server may send and receive in a month.
const TRAFFIC_GB: u32 = 2000;
/// What a server says of its size and its datacenter, where that is not what offers say.
const SIZE_NUMBER: u32 = 1017;
const DATACENTER_NUMBER: u32 = 1003;

impl Vpsie {
    /// Has the simulated cloud do something, and takes the time that it takes.
    pub(super) async fn perform<T>(
        &self,
        ask: impl FnOnce(&mut Account, Timestamp) -> Reply<T>,
    ) -> Result<T, Refusal> {
        let reply = self.shared.cloud.touch(ask);
        sleep(reply.after).await;
        reply.answer
    }

    /// Buys a machine, and says which it is also when the answer gets lost.
    pub(super) async fn buy(
        &self,
        order: &Order,
        enter: impl FnOnce(&Self, &MachineId),
    ) -> Result<Launched, Refusal> {
        let (reply, bought) = self.shared.cloud.touch(|account, now| {
            let before = account.records().len();
            let reply = account.launch(order, now);
            let bought = account.records().get(before).map(|record| record.machine.id.clone());
            (reply, bought)
        });
        if let Some(id) = bought {
            enter(self, &id);
        }
        sleep(reply.after).await;
        reply.answer
    }

    /// Every creation makes a server: VPSie knows no tokens. In the history of the cloud the second one for a token
    /// has another, so that it can be told apart.
    pub(super) fn new_token(&self, wanted: Option<&str>) -> Option<Token> {
        let number = {
            let mut register = self.register();
            register.bought += 1;
            register.bought
        };
        let wanted = wanted.and_then(Token::parse);
        let is_used = |token: &Token| {
            self.shared.cloud.inspect(|account| {
                account.records().iter().any(|record| record.machine.token.as_ref() == Some(token))
            })
        };
        match wanted {
            Some(token) if !is_used(&token) => Some(token),
            Some(token) => Token::parse(&format!("{token}~{number}")),
            None => Token::parse(&format!("vpsie-{number}")),
        }
    }

    pub(super) async fn create_server(&self, asked: &Asked) -> Response {
        let body = asked.json();
        let Some(wanted) = body["offering_id"].as_str().and_then(|id| self.offered(id)) else {
            return enveloped_error(400, "offering_id: there is no such offering");
        };
        let tags: Vec<String> = strings(&body["tags"]);
        let Some(order) = self.order(&body, &tags, wanted) else {
            return enveloped_error(400, "the server cannot be ordered like this");
        };
        let group = body["group_id"].as_u64();
        if group.is_some_and(|number| !self.has_server_group(number)) {
            return enveloped_error(400, "group_id: there is no such group");
        }
        self.register().orders.push(body);
        let enter = |vpsie: &Self, id: &MachineId| {
            let mut register = vpsie.register();
            register.tags.insert(id.clone(), tags.clone());
            register.entered_in.extend(group.map(|number| (id.clone(), number)));
        };
        match self.buy(&order, enter).await {
            Ok(Launched::Machine { machine, .. }) => self.one(&machine),
            Ok(Launched::Underway | Launched::Nothing) => enveloped(&true.into()),
            Err(refusal) => refused(&refusal),
        }
    }

    fn one(&self, machine: &Machine) -> Response {
        let server = self.server(machine);
        if self.faults().bare_servers { bare(&server) } else { enveloped(&server) }
    }

    /// Somebody else creates a server of this name and size. Its id.
    pub async fn create_by_hand(&self, name: &str, size: usize) -> Option<MachineId> {
        let order = self.order(&json!({ "hostname": name }), &[], self.offered_to_clusters(size)?)?;
        let enter = |vpsie: &Self, id: &MachineId| {
            vpsie.register().tags.insert(id.clone(), Vec::new());
        };
        match self.buy(&order, enter).await.ok()? {
            Launched::Machine { machine, .. } => Some(machine.id),
            Launched::Underway | Launched::Nothing => None,
        }
    }

    fn order(&self, body: &Value, tags: &[String], wanted: Alternative) -> Option<Order> {
        let mut pairs: Labels = tags
            .iter()
            .filter_map(|tag| tag.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let token = pairs.remove(CLAIM_TAG);
        let pool = pairs.remove(POOL_TAG).unwrap_or_default();
        let labels = body["labels"].as_object().into_iter().flatten();
        let labels: Labels = labels.map(|(key, value)| (key.as_str().into(), text(value))).collect();
        Some(Order {
            labels: Arc::new(labels),
            taints: strings(&body["taints"]).iter().filter_map(|taint| taint_of(taint)).collect(),
            tags: pairs,
            ..Order::new(self.new_token(token.as_deref())?, body["hostname"].as_str()?, pool, vec![wanted])
        })
    }

    pub(super) async fn list_servers(&self, asked: &Asked) -> Response {
        match self.all_machines().await {
            Ok(machines) => {
                let servers: Vec<&Machine> = {
                    let register = self.register();
                    machines.iter().filter(|machine| !register.group_of.contains_key(&machine.id)).collect()
                };
                let servers = servers.into_iter().map(|machine| self.server(machine));
                paged(&servers.chain(self.faults().odd_servers.iter().cloned()).collect::<Vec<_>>(), asked)
            }
            Err(refusal) => refused(&refusal),
        }
    }

    /// All that the cloud shows.
    pub(super) async fn all_machines(&self) -> Result<Vec<Machine>, Refusal> {
        let mut machines = Vec::new();
        let mut mark = None;
        loop {
            let page = self.perform(|account, now| account.list(mark.as_ref(), now)).await?;
            machines.extend(page.machines);
            match page.next {
                Some(next) => mark = Some(next),
                None => return Ok(machines),
            }
        }
    }

    pub(super) async fn get_server(&self, id: &str) -> Response {
        match self.perform(|account, now| account.get(&id.into(), now)).await {
            Ok(machine) => self.one(&machine),
            Err(refusal) => refused(&refusal),
        }
    }

    pub(super) async fn delete_server(&self, id: &str) -> Response {
        match self.perform(|account, now| account.terminate(&id.into(), now)).await {
            Ok(()) => enveloped(&true.into()),
            Err(refusal) => refused(&refusal),
        }
    }

    pub(super) async fn notices(&self) -> Response {
        match self.perform(Account::notices).await {
            Ok(notices) => {
                let told = notices.iter().map(|notice| {
                    json!({
                        "server": notice.machine.as_str(),
                        "kind": notice.kind,
                        "given_at": notice.given_at.to_string(),
                        "deadline": notice.deadline.map(|at| at.to_string()),
                    })
                });
                enveloped(&told.collect())
            }
            Err(refusal) => refused(&refusal),
        }
    }

    fn server(&self, machine: &Machine) -> Value {
        let (given, group) = {
            let register = self.register();
            (register.tags.get(&machine.id).cloned(), register.entered_in.get(&machine.id).copied())
        };
        let own = || machine.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        // The weather may hide them.
        let tags: Vec<String> = if machine.tags.is_empty() { Vec::new() } else { given.unwrap_or_else(own) };
        let mut server = json!({
            "id": machine.id.as_str(),
            "name": machine.name,
            "hostname": machine.name,
            "default_ip": machine.address.as_deref().unwrap_or_default(),
            "default_ipv6": machine.address.as_deref().map(mapped).unwrap_or_default(),
            "traffic": TRAFFIC_GB,
            "status": status_of(machine.state),
            "boxsize_id": self.offer_of(&machine.instance_type, &machine.zone, machine.capacity_type),
            "datacenter_id": machine.zone,
            "created_on": machine.launched_at.to_string(),
            "group_id": group,
            "tags": tags,
        });
        if self.faults().bare_servers {
            (server["boxsize_id"], server["datacenter_id"]) = (SIZE_NUMBER.into(), DATACENTER_NUMBER.into());
        }
        if let (Some(word), MachineState::Running) = (&self.faults().running_word, machine.state) {
            server["status"] = json!(word);
        }
        server
    }
}

pub(super) fn status_of(state: MachineState) -> &'static str {
    match state {
        MachineState::Pending => "pending",
        MachineState::Running => "running",
        MachineState::Halted => "stopped",
        MachineState::Stopping => "deleting",
        MachineState::Gone => "deleted",
    }
}

/// The same address in the sixth version.
fn mapped(address: &str) -> String {
    address.parse::<Ipv4Addr>().map(|address| address.to_ipv6_mapped().to_string()).unwrap_or_default()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text(value: &Value) -> Text {
    value.as_str().unwrap_or_default().into()
}

/// `key=value:Effect`, as a kubelet is told.
fn taint_of(text: &str) -> Option<Taint> {
    let (pair, effect) = text.rsplit_once(':')?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some(Taint::new(key, value, TaintEffect::parse(effect)?))
}
