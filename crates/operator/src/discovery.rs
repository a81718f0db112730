//! Which Node runs on which machine.
//!
//! A Node that says so with its provider id is believed, by whatever name that calls the machine. VPSie's kubelets may give
//! none, or one that says nothing of the machine: then a Node that nobody else has, and that came after the claim, is known
//! by its name or its address, if there is no doubt. Once it is registered, it says itself whose it is. What another autoscaler has found before Berth came
//! is believed, too.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{ClassKind, vpsie};
use berth_cloud::machine::Machine;
use berth_core::names::Text;

use crate::claim::{Claim, FAILED};
use crate::machines::Machines;
use crate::objects::NodeObject;

/// Nodes by the machines that they run on.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodesByMachine {
    names: Names,
    by_key: BTreeMap<String, Vec<Arc<NodeObject>>>,
}

impl NodesByMachine {
    /// Those that run on the machine of a claim: more than one, if it joined twice.
    pub(crate) fn of(&self, claim: &Claim) -> &[Arc<NodeObject>] {
        self.by_key.get(&*self.names.key(place_of(claim))).map_or(&[], Vec::as_slice)
    }

    fn put(&mut self, place: &str, node: &Arc<NodeObject>) {
        let key = self.names.key(place).into_owned();
        self.by_key.entry(key).or_default().push(Arc::clone(node));
    }
}

/// Where the node of a claim is: on its machine; and if nobody knows which that is, on one that is only the claim's.
fn place_of(claim: &Claim) -> &str {
    if claim.provider_id.is_empty() { &claim.uid } else { &claim.provider_id }
}

/// What machines of VPSie's are called besides their ids: provider ids may name them by their numbers, or as hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    ids: BTreeSet<String>,
    /// The ids of those that are called otherwise. `None`: more than one is called so.
    others: BTreeMap<String, Option<String>>,
}

impl Names {
    /// As claims and the cloud's last list have them.
    pub(crate) fn of<'c>(claims: impl Iterator<Item = &'c Claim>, machines: Option<&Machines>) -> Self {
        let mut names = Self::default();
        let is_known_by_id = |claim: &&Claim| claim.told.number == 0 || claim.told.is_identified;
        let of_vpsie = claims.filter(|claim| claim.class == Some(ClassKind::Vpsie));
        for claim in of_vpsie.filter(is_known_by_id) {
            if let Some(id) = vpsie::machine_named(&claim.provider_id) {
                names.call(&id, Some(claim.told.number).filter(|number| *number > 0), "");
            }
        }
        for machine in machines.into_iter().flat_map(Machines::last) {
            if let Some(id) = vpsie::machine_named(&machine.provider_id) {
                names.call(&id, machine.extras.number, &machine.name);
            }
        }
        names
    }

    fn call(&mut self, id: &str, number: Option<i64>, name: &str) {
        self.ids.insert(id.to_owned());
        let number = number.map(|number| number.to_string());
        for called in number.into_iter().chain([name.to_lowercase()]).filter(|called| !called.is_empty()) {
            let known = self.others.entry(called).or_insert_with(|| Some(id.to_owned()));
            if known.as_deref() != Some(id) {
                *known = None;
            }
        }
    }

    /// What the provider ids of a machine have in common.
    fn key<'i>(&self, provider_id: &'i str) -> Cow<'i, str> {
        let Some(name) = vpsie::machine_named(provider_id) else { return provider_id.into() };
        let is_id = self.ids.contains(&name);
        let other = self.others.get(&name).filter(|_| !is_id).and_then(Option::as_ref);
        format!("{}{}", vpsie::SCHEME, other.unwrap_or(&name)).into()
    }

    /// Whether somebody knows of the machine that a provider id names.
    fn knows(&self, provider_id: &str) -> bool {
        let key = self.key(provider_id);
        key.strip_prefix(vpsie::SCHEME).is_some_and(|id| self.ids.contains(id))
    }

    /// Whether a Node says that it runs on the machine of a claim.
    pub(crate) fn say_it_runs(&self, claim: &Claim, node: &NodeObject) -> bool {
        self.key(&node.spec.provider_id) == self.key(&claim.provider_id)
    }
}

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
            Self::ProviderId => {
                vpsie::machine_key(&node.spec.provider_id) == vpsie::machine_key(&claim.provider_id)
            }
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
    let names = Names::of(claims.values().map(|claim| &**claim), machines);
    let mut by_machine = NodesByMachine { names, ..NodesByMachine::default() };
    for node in nodes.values().filter(|node| !node.spec.provider_id.is_empty()) {
        by_machine.put(&node.spec.provider_id, node);
    }
    let is_sought = |claim: &&Arc<Claim>| {
        let is_known = !by_machine.of(claim).is_empty();
        let may_have_one = claim.machine().is_some() || claim.is_unidentified();
        claim.class == Some(ClassKind::Vpsie) && may_have_one && !is_known
    };
    let machine_of = |claim: &Claim| machines?.get(&claim.machine()?);
    let sought = claims.values().filter(is_sought).map(|claim| (claim, machine_of(claim)));
    let sought: Vec<Sought<'_>> = sought.collect();
    if sought.is_empty() {
        return by_machine;
    }
    let known: BTreeSet<&str> =
        claims.values().map(|claim| &*claim.provider_id).filter(|id| !id.is_empty()).collect();
    // One that names a machine of VPSie's is on that, and on no other, whoever knows of it; unless it says whose it is, and
    // nobody knows what it calls its machine.
    let is_unknown = |node: &&Arc<NodeObject>| {
        let id = node.spec.provider_id.as_str();
        let is_odd = || node.is_owned() && !by_machine.names.knows(id);
        !known.contains(id) && (!id.starts_with(vpsie::SCHEME) || is_odd())
    };
    let unknown: Vec<&Arc<NodeObject>> = nodes.values().filter(is_unknown).collect();
    let is_inherited = |claim: &Claim, node: &NodeObject| is_inherited(claim, node, &by_machine.names);
    let inherited: Vec<_> = sought
        .iter()
        .filter_map(|(claim, _)| {
            let node = nodes.get(&claim.node_name).filter(|node| is_inherited(claim, node))?;
            let claimants = claims.values().filter(|claim| is_inherited(claim, node)).count();
            (claimants == 1).then_some((*claim, node))
        })
        .collect();
    let is_found = |claim: &Claim| inherited.iter().any(|(found, _)| found.uid == claim.uid);
    let is_open = |(claim, _): &&Sought<'_>| claim.machine().is_some() && !is_found(claim);
    let sought: Vec<Sought<'_>> = sought.iter().filter(is_open).copied().collect();
    for (claim, node) in matched(&sought, &unknown).into_iter().chain(inherited) {
        by_machine.put(place_of(claim), node);
    }
    by_machine
}

/// Whether another autoscaler has found this Node for the claim's machine: it writes down the Node's name, and leaves nothing
/// on the Node.
pub(crate) fn is_inherited(claim: &Claim, node: &NodeObject, names: &Names) -> bool {
    // What a claim knows by its number only has another id in the words of its Node, and a Node may call its machine what
    // nobody knows.
    let is_elsewhere =
        claim.told.is_identified && names.knows(&node.spec.provider_id) && !names.say_it_runs(claim, node);
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
    let of_machine = nodes.of(claim);
    // A machine that joined twice is the node that it was first seen as.
    let known = of_machine.iter().find(|node| node.metadata.name == *claim.node_name);
    known.or_else(|| of_machine.first().filter(|_| claim.node().is_none()))
}

#[cfg(test)]
mod tests {
    use berth_api::Timestamp;
    use berth_cloud::machine::{Extras, MachineState};
    use berth_cloud::provider::Listing;
    use berth_core::catalog::CapacityType;
    use berth_core::names::Labels;
    use berth_core::units::Price;
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
        let marked = |uid: &'static str| {
            move |object: &mut Value| object["metadata"]["annotations"] = json!({ "berth.dev/claim": uid })
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
        let requested = |object: &mut Value| object["metadata"]["annotations"] = json!({});
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
            ("as it says itself", one(), vec![node("y", marked("uid-w-1"))], Some("y")),
            (
                "as it says itself, whatever it calls its machine",
                one(),
                vec![node("y", |object| {
                    marked("uid-w-1")(&mut *object);
                    provider("vpsie://dc/c/who-knows")(object);
                })],
                Some("y"),
            ),
            ("not if it says that it is another's", one(), vec![node("w-1", marked("uid-w-7"))], None),
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
                vec![claim("w-1", "1", inherited), claim("w-2", "2", same)],
                vec![node("n-7", provider("vpsie://dc/c/2"))],
                None,
            ),
            (
                "whatever nobody knows it calls its machine",
                vec![claim("w-1", "1", inherited)],
                vec![node("n-7", provider("vpsie://dc/c/who-knows"))],
                Some("n-7"),
            ),
            (
                "by the number of a machine that has a name, too",
                vec![claim("w-1", "Ab-1", |object| object["spec"]["vpsieInstanceID"] = json!(123))],
                vec![node("x", provider("vpsie://dc/c/123"))],
                Some("x"),
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
            (
                "for a machine of which nothing is known",
                vec![claim("w-1", "", inherited), claim("w-2", "", requested)],
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

    /// The cloud's list has `a-1`, number 11, host `Host-1`; `b-2`, number 12; and two that are both called `twin`.
    #[test]
    fn a_provider_id_is_read_for_the_machine_that_it_names() {
        let machine = |(id, number, name): (&str, i64, &str)| {
            let machine = Machine {
                provider_id: format!("vpsie://dc/c/{id}").into(),
                name: name.into(),
                extras: Box::new(Extras { number: Some(number), ..Extras::default() }),
                ..machine_of_vpsie(id)
            };
            (machine.id.clone(), machine)
        };
        let told = [("a-1", 11, "Host-1"), ("b-2", 12, ""), ("c-3", 13, "twin"), ("d-4", 14, "twin")];
        let mut machines = Machines::default();
        machines.listed(Listing { machines: told.into_iter().map(machine).collect(), ..Listing::default() });
        let same: fn(&mut Value) = |_| ();
        let numbered: fn(&mut Value) = |object| object["spec"]["vpsieInstanceID"] = json!(11);
        for (spelt, id, change, is_it) in [
            ("vpsie://dc/c/a-1", "a-1", same, true),
            ("vpsie://DC-by-its-name/c/A-1", "a-1", same, true),
            ("vpsie://a-1", "a-1", same, true),
            ("vpsie:///a-1/", "a-1", same, true),
            ("vpsie://dc/c/11", "a-1", same, true),
            ("vpsie://dc/c/host-1", "a-1", same, true),
            ("vpsie://dc/c/a-1", "", numbered, true),
            ("vpsie://dc/c/12", "a-1", same, false),
            ("vpsie://dc/c/b-2", "", numbered, false),
            ("vpsie://dc/c/twin", "c-3", same, false),
            ("vpsie://dc/c/who-knows", "a-1", same, false),
        ] {
            let claims = BTreeMap::from([("w-1".into(), claim("w-1", id, change))]);
            let spoken = |object: &mut Value| object["spec"] = json!({ "providerID": spelt });
            let nodes = BTreeMap::from([("x".into(), node("x", spoken))]);
            let found = by_machine(&nodes, &claims, Some(&machines));
            assert_eq!(node_of(&claims["w-1"], &found).is_some(), is_it, "{spelt} for `{id}`");
        }
    }

    fn machine_of_vpsie(id: &str) -> Machine {
        Machine {
            id: id.into(),
            provider_id: "".into(),
            token: None,
            name: "".into(),
            address: None,
            instance_type: "small".into(),
            zone: "dc".into(),
            capacity_type: CapacityType::OnDemand,
            price: Price::ZERO,
            state: MachineState::Running,
            tags: Labels::new(),
            launched_at: Timestamp::UNIX_EPOCH,
            extras: Box::default(),
        }
    }
}
