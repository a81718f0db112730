//! The paths of managed clusters: groups of nodes, to which VPSie adds nodes that it names itself.

use berth_core::names::Text;
use http::Method;
use serde_json::{Value, json};

use super::api::{Server, read_all, segment};
use super::client::{Body, Call, Client, Departure};
use super::envelope::malformed;
use super::error::{ApiError, Fault};
use super::limiter::Lane;
use crate::field::Field;
use crate::machine::MachineId;

const ADD_GROUP: &str = "/k8s/cluster/add/group";
const OFFERS: &str = "/k8s/offers";
/// What VPSie says to whoever makes a group of a size that has one.
const SAME_SIZE: &str = "same selected size";

/// The nodes of one size in a cluster. There is one for each size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) number: u64,
    pub(super) size: Text,
    pub(super) datacenter: Option<Text>,
}

impl Group {
    fn read(field: &Field<'_, '_>) -> Result<Option<Self>, Fault> {
        let deleted = field.get("is_deleted");
        if deleted.is_present() && deleted.scalar("0 or 1").map_err(malformed)? != "0" {
            return Ok(None);
        }
        let datacenter = field.get_any(&["dcIdentifier", "datacenter_id"]);
        let number = field.get("id").count("the number of the group").map_err(malformed)?;
        Ok(Some(Self {
            number: number.into(),
            size: field.get("boxsize_id").scalar("the id of the group's size").map_err(malformed)?.into(),
            datacenter: datacenter
                .is_present()
                .then(|| datacenter.scalar("the datacenter"))
                .transpose()
                .map_err(malformed)?
                .map(Text::from),
        }))
    }

    pub(super) fn is_of(&self, size: &str, datacenter: &str) -> bool {
        *self.size == *size && self.datacenter.as_deref().is_none_or(|known| known == datacenter)
    }

    /// Whether a node is in it. One that names no group is known by its size, of which there is one group only.
    pub(super) fn has(&self, node: &Server) -> bool {
        match (node.group, &node.size) {
            (Some(group), _) => group == self.number,
            (None, Some(size)) => *size == self.size,
            (None, None) => false,
        }
    }
}

impl Client {
    /// The nodes of a cluster, its managers left out.
    pub(super) async fn nodes(&self, cluster: &str, lane: Lane) -> Result<Vec<Server>, ApiError> {
        let call = Call { repeatable: true, ..Call::new(Method::GET, path_of(cluster), lane) };
        self.ask_for(&call, |envelope| {
            let nodes = read_all(&envelope.document().get("data").get("nodes"), Server::read)?;
            if nodes.is_empty() {
                // A cluster has at least its managers: an answer without any is not about it.
                return Err(Fault::Malformed { problem: "data.nodes: is empty".to_owned() });
            }
            Ok(nodes.into_iter().filter(|node| !node.is_manager).collect())
        })
        .await
    }

    pub(super) async fn groups(&self, cluster: &str, lane: Lane) -> Result<Vec<Group>, ApiError> {
        let path = format!("/k8s/node/groups/byClusterId/{}", segment(cluster));
        let call = Call { repeatable: true, ..Call::new(Method::GET, path, lane) };
        self.ask_for(&call, |envelope| {
            let groups = read_all(&envelope.document().get("data"), Group::read)?;
            Ok(groups.into_iter().flatten().collect())
        })
        .await
    }

    /// Makes the group of a size, or finds that there is one: two can not come of it.
    pub(super) async fn create_group(&self, cluster: &str, name: &str, size: &str) -> Result<(), ApiError> {
        let size: Value = size.parse::<u64>().map_or_else(|_| size.into(), Value::from);
        let body = json!({ "clusterIdentifier": cluster, "groupName": name, "KubeSizeID": size });
        let call = Call { body: Body::Json(body), ..Call::new(Method::POST, ADD_GROUP, Lane::Acting) };
        match self.ask_for(&call, |_| Ok(())).await {
            Err(ApiError { fault: Fault::Refused { message, .. }, .. }) if is_same_size(&message) => Ok(()),
            told => told,
        }
    }

    /// Adds a node. `None`: it is made later, and has no name yet.
    pub(super) async fn add_node(
        &self,
        cluster: &str,
        group: u64,
        departure: &Departure,
    ) -> Result<Option<Server>, ApiError> {
        let path = format!("{}/add/slave/group/{group}", path_of(cluster));
        let call = Call {
            body: Body::Json(json!({})),
            departure: Some(departure.clone()),
            ..Call::new(Method::POST, path, Lane::Acting)
        };
        // The number that it may have instead of an identifier is in no list.
        let is_named = |data: &Field<'_, '_>| data.get("identifier").is_present();
        self.ask_for(&call, |envelope| {
            let document = envelope.document();
            let data = document.get("data");
            is_named(&data).then(|| Server::read(&data)).transpose()
        })
        .await
    }

    pub(super) async fn delete_node(&self, cluster: &str, id: &MachineId) -> Result<(), ApiError> {
        let path = format!("{}/delete/slave", path_of(cluster));
        let body = Body::Json(json!({ "identifier": id.as_str() }));
        let call = Call { body, repeatable: true, ..Call::new(Method::DELETE, path, Lane::Acting) };
        self.ask_for(&call, |_| Ok(())).await
    }

    /// What is offered for clusters in a datacenter. It is a question, though it is posted.
    pub(super) async fn cluster_offers(&self, datacenter: &str) -> Result<Vec<Value>, ApiError> {
        let body = Body::Json(json!({ "dcIdentifier": datacenter }));
        let call = Call { body, repeatable: true, ..Call::new(Method::POST, OFFERS, Lane::Polling) };
        self.ask_for(&call, |envelope| {
            read_all(&envelope.document().get("data"), |item| item.value().map_err(malformed))
        })
        .await
    }
}

pub(super) fn path_of(cluster: &str) -> String {
    format!("/k8s/cluster/byId/{}", segment(cluster))
}

fn is_same_size(message: &str) -> bool {
    message.to_lowercase().contains(SAME_SIZE)
}
