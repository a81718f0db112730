//! Which Node runs on which machine.
//!
//! A Node that says so with its provider id is believed. VPSie's kubelets may give none, or one that says nothing of the
//! machine: then a Node that nobody else has, and that came after the claim, is known by its name or its address, if
//! there is no doubt. Once it is registered, it says itself whose it is. What another autoscaler has found before Berth came
//! is believed, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::ClassKind;
use berth_cloud::machine::Machine;
use berth_core::names::Text;

use crate::claim::{Claim, FAILED};
use crate::machines::Machines;
use crate::objects::NodeObject;

/// Nodes by the provider ids of the machines that they run on.
pub(crate) type NodesByMachine = BTreeMap<String, Vec<Arc<NodeObject>>>;

/// What provider ids begin with that name a machine of VPSie's.
const VPSIE_SCHEME: &str = "vpsie://";

/// By what a Node is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    ProviderId,
    Name,
    Address,
}

impl Strategy {
    /// In VPSie's words, where it has one.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ProviderId => "provider_id",
            Self::Name => "hostname_pattern",
            Self::Address => "ip_matching",
        }
    }

    /// Where a claim says nothing of its machine, the cloud does.
    fn matches(self, claim: &Claim, machine: Option<&Machine>, node: &NodeObject) -> bool {
        match self {
            Self::ProviderId => *node.spec.provider_id == *claim.provider_id,
            Self::Name => {
                // VPSie and Kubernetes do not agree on capital letters.
                let is_it = |name: &str| !name.is_empty() && name.eq_ignore_ascii_case(&node.metadata.name);
                is_it(&claim.wanted_name)
                    || is_it(&claim.told.hostname)
                    || machine.is_some_and(|machine| is_it(&machine.name))
            }
            Self::Address => {
                let address = machine.and_then(|machine| machine.address.as_ref());
                node.has_address(&claim.told.address)
                    || address.is_some_and(|address| node.has_address(address))
            }
        }
    }

    /// By what this Node is known for this machine's.
    pub(crate) fn of(claim: &Claim, node: &NodeObject) -> Self {
        let first = [Self::ProviderId, Self::Name];
        first.into_iter().find(|strategy| strategy.matches(claim, None, node)).unwrap_or(Self::Address)
    }
}

pub(crate) fn by_machine(
    nodes: &BTreeMap<Text, Arc<NodeObject>>,
    claims: &BTreeMap<Text, Arc<Claim>>,
    machines: Option<&Machines>,
) -> NodesByMachine {
    let mut by_machine = NodesByMachine::new();
    for node in nodes.values().filter(|node| !node.spec.provider_id.is_empty()) {
        by_machine.entry(node.spec.provider_id.clone()).or_default().push(Arc::clone(node));
    }
    let is_sought = |claim: &&Arc<Claim>| {
        let is_known = by_machine.contains_key(&*claim.provider_id);
        claim.class == Some(ClassKind::Vpsie) && claim.machine().is_some() && !is_known
    };
    let machine_of = |claim: &Claim| machines?.get(&claim.machine()?);
    let sought = claims.values().filter(is_sought).map(|claim| (claim, machine_of(claim)));
    let sought: Vec<Sought<'_>> = sought.collect();
    if sought.is_empty() {
        return by_machine;
    }
    let of_claims = claims.values().map(|claim| &*claim.provider_id).filter(|id| !id.is_empty());
    let of_cloud = machines.into_iter().flat_map(Machines::last).map(|machine| &*machine.provider_id);
    let known: BTreeSet<&str> = of_claims.chain(of_cloud).collect();
    // One that names a machine of VPSie's is on that, and on no other, whoever knows of it.
    let is_unknown = |node: &&Arc<NodeObject>| {
        let id = node.spec.provider_id.as_str();
        !known.contains(id) && !id.starts_with(VPSIE_SCHEME)
    };
    let unknown: Vec<&Arc<NodeObject>> = nodes.values().filter(is_unknown).collect();
    let inherited: Vec<_> = sought
        .iter()
        .filter_map(|(claim, _)| {
            let node = nodes.get(&claim.node_name).filter(|node| is_inherited(claim, node))?;
            let claimants = claims.values().filter(|claim| is_inherited(claim, node)).count();
            (claimants == 1).then_some((*claim, node))
        })
        .collect();
    let is_found = |claim: &Claim| inherited.iter().any(|(found, _)| found.uid == claim.uid);
    let sought: Vec<Sought<'_>> = sought.iter().filter(|(claim, _)| !is_found(claim)).copied().collect();
    for (claim, node) in matched(&sought, &unknown).into_iter().chain(inherited) {
        by_machine.entry(claim.provider_id.to_string()).or_default().push(Arc::clone(node));
    }
    by_machine
}

/// Whether another autoscaler has found this Node for the claim's machine: it writes down the Node's name, and leaves nothing
/// on the Node.
pub(crate) fn is_inherited(claim: &Claim, node: &NodeObject) -> bool {
    let id = node.spec.provider_id.as_str();
    // What a claim knows by its number only has another id in the words of its Node.
    let is_elsewhere = id.starts_with(VPSIE_SCHEME) && claim.told.is_identified && *id != *claim.provider_id;
    claim.requested_at.is_some()
        && *claim.node_name == node.metadata.name
        && !node.is_owned()
        && !is_elsewhere
}

/// A claim whose node is looked for, and its machine as the cloud tells of it.
type Sought<'a> = (&'a Arc<Claim>, Option<&'a Machine>);

/// Pairs of which there is no doubt.
fn matched<'a>(
    sought: &[Sought<'a>],
    unknown: &[&'a Arc<NodeObject>],
) -> Vec<(&'a Arc<Claim>, &'a Arc<NodeObject>)> {
    let mut pairs = Vec::new();
    let mut open = Vec::new();
    for (claim, machine) in sought {
        match unknown.iter().find(|node| node.is_owned_by(&claim.uid)) {
            Some(node) => pairs.push((*claim, *node)),
            None if claim.holds("Registered") || claim.holds(FAILED) || claim.is_deleting() => {}
            None => open.push((*claim, *machine)),
        }
    }
    let mut free: Vec<&Arc<NodeObject>> =
        unknown.iter().copied().filter(|node| !node.is_owned() && !node.is_deleting()).collect();
    for strategy in [Strategy::Name, Strategy::Address] {
        let may_be = |(claim, machine): &Sought<'a>, node: &NodeObject| {
            node.metadata.creation_timestamp >= claim.created && strategy.matches(claim, *machine, node)
        };
        let found: Vec<_> = open
            .iter()
            .filter_map(|sought| {
                let mut nodes = free.iter().filter(|node| may_be(sought, node));
                let (node, rival) = (nodes.next()?, nodes.next());
                let claimants = open.iter().filter(|sought| may_be(sought, node)).count();
                (rival.is_none() && claimants == 1).then_some((sought.0, *node))
            })
            .collect();
        open.retain(|(claim, _)| !found.iter().any(|(taken, _)| Arc::ptr_eq(taken, claim)));
        free.retain(|node| !found.iter().any(|(_, taken)| Arc::ptr_eq(taken, node)));
        pairs.extend(found);
    }
    pairs
}

pub(crate) fn node_of<'n>(claim: &Claim, nodes: &'n NodesByMachine) -> Option<&'n Arc<NodeObject>> {
    let of_machine = nodes.get(&*claim.provider_id)?;
    // A machine that joined twice is the node that it was first seen as.
    let known = of_machine.iter().find(|node| node.metadata.name == *claim.node_name);
    known.or_else(|| of_machine.first().filter(|_| claim.node().is_none()))
}

#[cfg(test)]
mod tests {
    use berth_api::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::Dialect;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn claim(name: &str, id: &str, change: impl FnOnce(&mut Value)) -> Arc<Claim> {
        let mut object = json!({
            "metadata": {
                "name": name, "namespace": "kube-system", "uid": format!("uid-{name}"),
                "creationTimestamp": at(0).to_string(),
                "annotations": { "berth.dev/offerings": "small:dc:on-demand" },
            },
            "spec": {
                "vpsieInstanceID": 0, "vpsieNodeIdentifier": id, "instanceType": "small", "nodeGroupName": "workers",
                "datacenterID": "dc", "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
                "nodeName": name, "ipAddress": format!("10.0.0.{id}"),
            },
            "status": { "phase": "Provisioned", "hostname": format!("HOST-{id}") },
        });
        change(&mut object);
        Arc::new(Dialect::Vpsie.claim(&object.to_string()).unwrap())
    }

    fn node(name: &str, change: impl FnOnce(&mut Value)) -> Arc<NodeObject> {
        let mut object = json!({ "metadata": { "name": name, "creationTimestamp": at(10).to_string() } });
        change(&mut object);
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_node_is_found_if_there_is_no_doubt() {
        let same = |_: &mut Value| ();
        let address = |object: &mut Value| {
            object["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.0.0.1" }]);
        };
        let provider =
            |id: &'static str| move |object: &mut Value| object["spec"] = json!({ "providerID": id });
        let owner = |uid: &'static str| {
            move |object: &mut Value| {
                let owner = json!({ "kind": "VPSieNode", "name": "w-1", "uid": uid });
                object["metadata"]["ownerReferences"] = json!([owner]);
            }
        };
        let old = |object: &mut Value| object["metadata"]["creationTimestamp"] = json!(at(-1).to_string());
        let registered = |object: &mut Value| {
            let condition = json!({ "type": "NodeJoined", "status": "True" });
            object["status"] = json!({ "phase": "Joining", "nodeName": "w-1", "conditions": [condition] });
        };
        let inherited = |object: &mut Value| {
            registered(object);
            object["metadata"]["annotations"] = json!({});
            object["status"]["nodeName"] = json!("n-7");
        };
        let numbered = |object: &mut Value| {
            inherited(object);
            object["spec"]["vpsieInstanceID"] = json!(123);
        };
        let one = || vec![claim("w-1", "1", same)];
        let two = || vec![claim("w-1", "1", same), claim("w-2", "2", same)];
        let cases = [
            ("by its provider id", one(), vec![node("x", provider("vpsie://dc/c/1"))], Some("x")),
            ("by the name that it should have", one(), vec![node("w-1", same)], Some("w-1")),
            ("by the machine's, in any case", one(), vec![node("host-1", same)], Some("host-1")),
            ("by its address", one(), vec![node("x", address)], Some("x")),
            (
                "whatever else its provider id says",
                one(),
                vec![node("w-1", provider("k3s://w-1"))],
                Some("w-1"),
            ),
            ("not if it is another machine", two(), vec![node("w-1", provider("vpsie://dc/c/2"))], None),
            ("not if it is another's", one(), vec![node("w-1", owner("uid-w-7"))], None),
            ("for ever, if it is its own", one(), vec![node("y", owner("uid-w-1"))], Some("y")),
            ("not if it was there before", one(), vec![node("w-1", old)], None),
            ("not if two might be it", one(), vec![node("w-1", same), node("host-1", same)], None),
            (
                "not if it might be another's",
                vec![
                    claim("w-1", "1", same),
                    claim("w-2", "3", |object| object["spec"]["nodeName"] = json!("w-1")),
                ],
                vec![node("w-1", same)],
                None,
            ),
            ("the name first", one(), vec![node("w-1", same), node("x", address)], Some("w-1")),
            ("once it had one, no other", vec![claim("w-1", "1", registered)], vec![node("w-1", same)], None),
            ("that another found", vec![claim("w-1", "1", inherited)], vec![node("n-7", old)], Some("n-7")),
            (
                "not if it is on another machine by now",
                vec![claim("w-1", "1", inherited)],
                vec![node("n-7", provider("vpsie://dc/c/2"))],
                None,
            ),
            (
                "not if it is another's by now",
                vec![claim("w-1", "1", inherited)],
                vec![node("n-7", owner("uid-w-7"))],
                None,
            ),
            (
                "whatever it calls a machine of which only the number is known",
                vec![claim("w-1", "", numbered)],
                vec![node("n-7", provider("vpsie://dc/c/abc"))],
                Some("n-7"),
            ),
            ("nothing alike", one(), vec![node("x", same)], None),
        ];
        for (what, claims, nodes, expected) in cases {
            let claims: BTreeMap<Text, Arc<Claim>> =
                claims.into_iter().map(|claim| (claim.name.clone(), claim)).collect();
            let nodes: BTreeMap<Text, Arc<NodeObject>> =
                nodes.into_iter().map(|node| (node.metadata.name.as_str().into(), node)).collect();
            let found = by_machine(&nodes, &claims, None);
            let found = node_of(&claims["w-1"], &found).map(|node| node.metadata.name.clone());
            assert_eq!(found.as_deref(), expected, "{what}");
        }
    }
}
