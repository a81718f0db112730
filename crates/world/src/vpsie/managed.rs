//! Managed clusters: one group for each size, to which VPSie adds nodes that it names itself.

use axum::response::Response;
use berth_cloud::machine::{Machine, MachineId, Order};
use berth_cloud::provider::{Launched, Refusal};
use serde_json::{Value, json};

use super::answer::{enveloped, enveloped_error, error_with_status_200, refused};
use super::servers::status_of;
use super::state::Group;
use super::{Asked, Vpsie};

pub(super) const NO_CLUSTER: &str = "the cluster is not found";

/// What VPSie's machines have besides a name: here the end of it, which counts them. `None`: it has none.
pub fn number_of(machine: &MachineId) -> Option<i64> {
    let (_, digits) = machine.as_str().split_at_checked(machine.as_str().len().checked_sub(8)?)?;
    i64::from_str_radix(digits, 16).ok().map(|number| number.saturating_add(1))
}

impl Vpsie {
    pub(super) fn is_here(&self, cluster: &str) -> bool {
        *self.settings().cluster == *cluster
    }

    pub(super) async fn get_cluster(&self, cluster: &str) -> Response {
        if !self.is_here(cluster) {
            return enveloped_error(404, NO_CLUSTER);
        }
        let machines = match self.all_machines().await {
            Ok(machines) => machines,
            Err(refusal) => return refused(&refusal),
        };
        let manager = json!({ "identifier": format!("{cluster}-manager"), "hostname": "manager", "role": "master", "status": "running" });
        let nodes = machines.iter().filter_map(|machine| self.node(machine));
        let nodes: Vec<Value> = std::iter::once(manager).chain(nodes).collect();
        enveloped(&json!({ "identifier": cluster, "cluster_name": cluster, "nodes": nodes }))
    }

    /// `None`: it is no node.
    fn node(&self, machine: &Machine) -> Option<Value> {
        let group = *self.register().group_of.get(&machine.id)?;
        let mut node = json!({
            "identifier": machine.id.as_str(),
            // As VPSie writes them, whatever Kubernetes makes of it.
            "hostname": machine.name.to_uppercase(),
            "role": "slave",
            "ip": machine.address.as_deref().unwrap_or_default(),
            "status": status_of(machine.state),
        });
        if !self.shared.faults.bare_nodes {
            node["id"] = json!(number_of(&machine.id));
            node["group_id"] = json!(group);
            node["created_on"] = json!(machine.launched_at.to_string());
        }
        Some(node)
    }

    pub(super) fn list_groups(&self, cluster: &str) -> Response {
        if !self.is_here(cluster) {
            return enveloped_error(404, NO_CLUSTER);
        }
        let register = self.register();
        let groups = register.groups.iter().map(|group| {
            json!({
                "id": group.number,
                "group_name": group.name,
                "identifier": format!("group-{}", group.number),
                "boxsize_id": group.size,
                "dcIdentifier": self.settings().datacenter,
                "nodes_count": register.nodes_of(group.number),
                "is_active": 1,
                "is_deleted": 0,
            })
        });
        enveloped(&groups.collect())
    }

    pub(super) fn add_group(&self, asked: &Asked) -> Response {
        let body = asked.json();
        if !body["clusterIdentifier"].as_str().is_some_and(|cluster| self.is_here(cluster)) {
            return enveloped_error(404, NO_CLUSTER);
        }
        let size = body["KubeSizeID"].as_u64().and_then(|size| usize::try_from(size).ok());
        let Some(size) = size.filter(|size| self.offered_to_clusters(*size).is_some()) else {
            return enveloped_error(400, "KubeSizeID: there is no such size");
        };
        if self.group_of_size(size).is_some() {
            return error_with_status_200(400, "Another group of this cluster has same selected Size");
        }
        let group = self.open_group(body["groupName"].as_str().unwrap_or_default(), size);
        enveloped(&json!({ "groupId": format!("group-{}", group.number) }))
    }

    fn group_of_size(&self, size: usize) -> Option<Group> {
        self.register().groups.iter().find(|group| group.size == size).cloned()
    }

    fn open_group(&self, name: &str, size: usize) -> Group {
        let mut register = self.register();
        let number = 100 + register.groups.len() as u64;
        let group = Group { number, name: name.to_owned(), size };
        register.groups.push(group.clone());
        group
    }

    pub(super) async fn add_node(&self, cluster: &str, group: &str) -> Response {
        if !self.is_here(cluster) {
            return enveloped_error(404, NO_CLUSTER);
        }
        let found = self.register().groups.iter().find(|known| known.number.to_string() == group).cloned();
        let Some(group) = found else { return enveloped_error(404, "the group is not found") };
        match self.new_node(&group).await {
            Ok(Launched::Machine { machine, .. }) if !self.settings().asynchronous => {
                enveloped(&self.node(&machine).unwrap_or_default())
            }
            Ok(_) => enveloped(&true.into()),
            Err(refusal) => refused(&refusal),
        }
    }

    async fn new_node(&self, group: &Group) -> Result<Launched, Refusal> {
        let wanted = self.offered_to_clusters(group.size);
        let wanted = wanted.ok_or_else(|| Refusal::Invalid("the size is no longer offered".to_owned()))?;
        let token = self.new_token(None).ok_or_else(|| Refusal::Invalid("no name is left".to_owned()))?;
        let name = format!("{}-{token}", self.settings().cluster);
        let order = Order::new(token, name, "", vec![wanted]);
        let enter = |vpsie: &Self, id: &MachineId| {
            vpsie.register().group_of.insert(id.clone(), group.number);
        };
        self.buy(&order, enter).await
    }

    /// Somebody else adds a node to the group of a size, or makes that. Its id.
    pub async fn add_by_hand(&self, size: usize) -> Option<MachineId> {
        let group = self.group_of_size(size).unwrap_or_else(|| self.open_group("theirs", size));
        match self.new_node(&group).await.ok()? {
            Launched::Machine { machine, .. } => Some(machine.id),
            Launched::Underway | Launched::Nothing => None,
        }
    }

    pub(super) async fn delete_node(&self, cluster: &str, asked: &Asked) -> Response {
        if !self.is_here(cluster) {
            return enveloped_error(404, NO_CLUSTER);
        }
        let id: MachineId = asked.json()["identifier"].as_str().unwrap_or_default().into();
        if !self.register().group_of.contains_key(&id) {
            return error_with_status_200(404, "the node is not found");
        }
        match self.perform(|account, now| account.terminate(&id, now)).await {
            Ok(()) => enveloped(&true.into()),
            Err(refusal) => refused(&refusal),
        }
    }
}
