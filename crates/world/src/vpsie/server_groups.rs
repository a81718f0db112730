//! The groups that servers are entered in: a name and a number, and no two of a name.

use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{enveloped, enveloped_error};
use super::managed::NO_CLUSTER;
use super::{Asked, Vpsie};

/// So that they are none of the numbers that groups of managed clusters have.
const FIRST: u64 = 500;

fn shown((number, name): (u64, &String)) -> Value {
    json!({ "id": number, "name": name })
}

impl Vpsie {
    pub(super) fn list_server_groups(&self, asked: &Asked) -> Response {
        if !asked.query.get("clusterIdentifier").is_some_and(|cluster| self.is_here(cluster)) {
            return enveloped_error(404, NO_CLUSTER);
        }
        enveloped(&(FIRST..).zip(&self.register().server_groups).map(shown).collect())
    }

    pub(super) fn add_server_group(&self, asked: &Asked) -> Response {
        let body = asked.json();
        if !body["clusterIdentifier"].as_str().is_some_and(|cluster| self.is_here(cluster)) {
            return enveloped_error(404, NO_CLUSTER);
        }
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let mut register = self.register();
        if name.is_empty() || register.server_groups.contains(&name) {
            return enveloped_error(400, "name: a group needs one of its own");
        }
        let number = FIRST + register.server_groups.len() as u64;
        register.server_groups.push(name.clone());
        enveloped(&shown((number, &name)))
    }

    /// Whether there is a group of this number.
    pub(super) fn has_server_group(&self, number: u64) -> bool {
        (FIRST..).zip(&self.register().server_groups).any(|(known, _)| known == number)
    }
}
