//! Host ports and volumes.

use std::collections::BTreeMap;

use berth_core::catalog::InstanceType;
use berth_core::names::{HOSTNAME, INSTANCE_TYPE, ZONE};
use berth_core::node::NodeState;
use berth_core::pod::Protocol::{Sctp, Tcp, Udp};
use berth_core::pod::{Pod, PodPhase, Protocol, VolumeRef};
use berth_core::reason::Reason;
use berth_core::requirement::{Expression, NodeTerm};
use berth_core::volume::{StorageClass, VolumeClaim};

use crate::cluster::{
    Cluster, DRIVER, NodeWords, PodWords, PoolWords, bare, bound_to, machine, node, of_class, pod, pool,
    shop, waiting_class,
};
use crate::{Expect, check, launches, new, on, refused};

const ANY: &str = "0.0.0.0";

#[test]
fn host_ports() {
    let taken = |ip: &str, protocol, port| {
        bare().node(node("n", "a")).pod(pod("db").host_port(ip, protocol, port).running_on("n"))
    };
    let web = |ip: &str, protocol: Protocol, port| pod("web").host_port(ip, protocol, port);
    let fits = || vec![on("web", "n")];
    let none = || vec![refused("web", Reason::NoPool)];
    check(vec![
        ("the same port", taken(ANY, Tcp, 80).pod(web(ANY, Tcp, 80)), none()),
        ("another port", taken(ANY, Tcp, 80).pod(web(ANY, Tcp, 81)), fits()),
        ("another protocol", taken(ANY, Tcp, 80).pod(web(ANY, Udp, 80)), fits()),
        ("a third protocol", taken(ANY, Sctp, 80).pod(web(ANY, Udp, 80)), fits()),
        ("one address against all", taken(ANY, Tcp, 80).pod(web("10.0.0.1", Tcp, 80)), none()),
        ("all addresses against one", taken("10.0.0.1", Tcp, 80).pod(web(ANY, Tcp, 80)), none()),
        ("two addresses", taken("10.0.0.1", Tcp, 80).pod(web("10.0.0.2", Tcp, 80)), fits()),
        ("one of two ports", taken(ANY, Tcp, 80).pod(web(ANY, Tcp, 81).host_port(ANY, Tcp, 80)), none()),
        (
            "of a pod that has finished",
            bare()
                .node(node("n", "a"))
                .pod(Pod { phase: PodPhase::Succeeded, ..pod("db").host_port(ANY, Tcp, 80).running_on("n") })
                .pod(web(ANY, Tcp, 80)),
            fits(),
        ),
        (
            "pods of one kind get a node each",
            shop().pods(2, &web(ANY, Tcp, 80)),
            vec![new("web", &[]), new("web", &[]), launches(2)],
        ),
        (
            "pods of two kinds with the same port get a node each",
            shop().pod(web(ANY, Tcp, 80)).pod(pod("db").host_port(ANY, Tcp, 80)),
            vec![new("web", &[]), new("db", &[]), launches(2)],
        ),
        (
            "pods with different ports share a node",
            shop().pod(web(ANY, Tcp, 80)).pod(pod("db").host_port(ANY, Udp, 80)),
            vec![new("web", &[]), new("db", &[]), launches(1)],
        ),
        (
            "of a DaemonSet, on every new node",
            shop().daemon(&pod("agent").cpu(100).host_port(ANY, Tcp, 80)).pod(web(ANY, Tcp, 80)),
            vec![refused("web", Reason::HostPort)],
        ),
        (
            "of a DaemonSet, on an existing node",
            bare()
                .node(node("n", "a"))
                .daemon(&pod("agent").cpu(100).host_port(ANY, Tcp, 80))
                .pod(web(ANY, Tcp, 80)),
            none(),
        ),
    ]);
}

fn in_zone(zone: &str) -> Vec<NodeTerm> {
    vec![NodeTerm::new(vec![Expression::equals(ZONE, zone)])]
}

/// Pod `web` with this claim named `data`.
fn with_claim(claim: VolumeClaim) -> Cluster {
    shop().volume("in-b", "b").claim("data", claim).pod(pod("web").uses(&["data"]))
}

fn of_made_class(class: StorageClass) -> Cluster {
    with_claim(of_class("disk")).storage_class("disk", class)
}

#[test]
fn where_volumes_are() {
    let in_b = || vec![new("web", &[(ZONE, "b")]), Expect::AlternativesIn(&["b"])];
    let anywhere = || vec![new("web", &[(ZONE, "a")])];
    let none = |reason| vec![refused("web", reason)];
    let immediate = StorageClass { waits_for_pod: false, ..waiting_class() };
    let default_class = StorageClass { is_default: true, ..waiting_class() };
    let scratch = |storage_class: Option<&str>| {
        let storage_class = storage_class.map(Into::into);
        let volume = VolumeRef::Ephemeral { claim: "web-scratch".into(), storage_class };
        shop().pod(Pod { volumes: Box::from([volume]), ..pod("web") })
    };
    check(vec![
        ("a bound volume's zone", with_claim(bound_to("in-b")), in_b()),
        (
            "a bound volume's zone, with room elsewhere",
            with_claim(bound_to("in-b")).node(node("n", "a")),
            in_b(),
        ),
        (
            "a bound volume's zone, against the pod's selector",
            shop()
                .volume("in-b", "b")
                .claim("data", bound_to("in-b"))
                .pod(pod("web").uses(&["data"]).selects(ZONE, "a")),
            none(Reason::VolumeTopology),
        ),
        (
            "two volumes in two zones",
            shop()
                .volume("in-a", "a")
                .volume("in-b", "b")
                .claim("one", bound_to("in-a"))
                .claim("two", bound_to("in-b"))
                .pod(pod("web").uses(&["one", "two"])),
            none(Reason::VolumeTopology),
        ),
        (
            "a zone where nothing is sold",
            with_claim(bound_to("in-x")).volume("in-x", "x"),
            none(Reason::VolumeTopology),
        ),
        (
            "the node that a local volume is on",
            with_claim(bound_to("local"))
                .volume_at("local", Expression::equals(HOSTNAME, "n"))
                .node(node("m", "a"))
                .node(node("n", "a")),
            vec![on("web", "n")],
        ),
        ("a claim that does not exist", shop().pod(pod("web").uses(&["data"])), none(Reason::VolumeMissing)),
        ("a volume that does not exist", with_claim(bound_to("gone")), none(Reason::VolumeMissing)),
        ("a class that does not exist", with_claim(of_class("disk")), none(Reason::VolumeMissing)),
        (
            "a lost volume",
            with_claim(VolumeClaim { lost: true, ..bound_to("in-b") }),
            none(Reason::VolumeLost),
        ),
        (
            "a claim that is being deleted",
            with_claim(VolumeClaim { deleting: true, ..bound_to("in-b") }),
            none(Reason::VolumeLost),
        ),
        ("WaitForFirstConsumer", of_made_class(waiting_class()), anywhere()),
        (
            "WaitForFirstConsumer with allowedTopologies",
            of_made_class(StorageClass { allowed_topologies: in_zone("b"), ..waiting_class() }),
            in_b(),
        ),
        (
            "allowedTopologies where nothing is sold",
            of_made_class(StorageClass { allowed_topologies: in_zone("x"), ..waiting_class() }),
            none(Reason::VolumeTopology),
        ),
        ("Immediate, not bound yet", of_made_class(immediate.clone()), none(Reason::VolumeUnbound)),
        (
            "Immediate, bound",
            with_claim(VolumeClaim { volume: Some("in-b".into()), ..of_class("disk") })
                .storage_class("disk", immediate),
            in_b(),
        ),
        (
            "no class, and none is the default",
            with_claim(VolumeClaim { storage_class: None, ..of_class("") }),
            none(Reason::VolumeUnbound),
        ),
        (
            "no class, and one is the default",
            with_claim(VolumeClaim { storage_class: None, ..of_class("") })
                .storage_class("disk", default_class.clone()),
            anywhere(),
        ),
        (
            "the empty class is not the default",
            with_claim(of_class("")).storage_class("disk", default_class.clone()),
            none(Reason::VolumeUnbound),
        ),
        ("an ephemeral volume", scratch(Some("disk")).storage_class("disk", waiting_class()), anywhere()),
        (
            "an ephemeral volume of the default class",
            scratch(None).storage_class("disk", default_class),
            anywhere(),
        ),
        ("an ephemeral volume of no class", scratch(None), none(Reason::VolumeUnbound)),
    ]);
}

/// Claims `c0`, `c1`, `c2` of a class that waits for its pod.
fn with_claims(cluster: Cluster) -> Cluster {
    let cluster = cluster.storage_class("disk", waiting_class());
    ["c0", "c1", "c2"].into_iter().fold(cluster, |cluster, name| cluster.claim(name, of_class("disk")))
}

fn attaching(name: &str, cpus: i64, volumes_max: u32) -> InstanceType {
    InstanceType { volume_limits: BTreeMap::from([(DRIVER.into(), volumes_max)]), ..machine(name, cpus) }
}

#[test]
fn attach_limits() {
    let full =
        || with_claims(bare().node(node("n", "a").attaches(1))).pod(pod("db").uses(&["c0"]).running_on("n"));
    let leaving = |claim| full().volume("old", "a").claim("c0", claim);
    let sells = |types: &[InstanceType]| with_claims(bare().pool(pool("pool").sells(types)));
    check(vec![
        ("none left", full().pod(pod("web").uses(&["c1"])), vec![refused("web", Reason::NoPool)]),
        ("a volume that is attached already", full().pod(pod("web").uses(&["c0"])), vec![on("web", "n")]),
        ("no volume", full().pod(pod("web")), vec![on("web", "n")]),
        (
            "a claim that is being deleted is attached as long as its pod runs",
            leaving(VolumeClaim { deleting: true, ..bound_to("old") }).pod(pod("web").uses(&["c1"])),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "so is one that is lost",
            leaving(VolumeClaim { lost: true, ..bound_to("old") }).pod(pod("web").uses(&["c1"])),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "no limit",
            with_claims(bare().node(node("n", "a"))).pod(pod("web").uses(&["c0", "c1", "c2"])),
            vec![on("web", "n")],
        ),
        (
            "a new node takes as many as it attaches",
            sells(&[attaching("large", 8, 2)])
                .pod(pod("web").uses(&["c0"]))
                .pod(pod("db").uses(&["c1"]))
                .pod(pod("job").uses(&["c2"])),
            vec![new("web", &[]), new("db", &[]), new("job", &[]), launches(2)],
        ),
        (
            "one claim of two pods is attached once",
            sells(&[attaching("large", 8, 1)]).pods(2, &pod("web").uses(&["c0"])),
            vec![new("web", &[]), new("web", &[]), launches(1)],
        ),
        (
            "more than any new node attaches",
            sells(&[attaching("large", 8, 2)]).pod(pod("web").uses(&["c0", "c1", "c2"])),
            vec![refused("web", Reason::VolumeAttachLimit)],
        ),
        (
            "a dearer type that attaches more",
            sells(&[attaching("few", 2, 1), attaching("many", 4, 3)])
                .pod(pod("web").uses(&["c0", "c1", "c2"])),
            vec![new("web", &[(INSTANCE_TYPE, "many")])],
        ),
        (
            "a dearer and smaller type that attaches more",
            sells(&[attaching("few", 4, 1), dear(attaching("many", 2, 3))])
                .pod(pod("web").uses(&["c0", "c1", "c2"])),
            vec![new("web", &[(INSTANCE_TYPE, "many")])],
        ),
        (
            "what attaches too few is no alternative",
            sells(&[attaching("few", 8, 1), attaching("many", 2, 3)]).pod(pod("web").uses(&["c0", "c1"])),
            vec![new("web", &[]), Expect::AlternativesOf(&["many"])],
        ),
        (
            "what attaches too few does not count for minValues",
            with_claims(
                bare().pool(
                    pool("pool")
                        .sells(&[attaching("few", 8, 1), attaching("many", 2, 3)])
                        .min_values(INSTANCE_TYPE, 2),
                ),
            )
            .pod(pod("web").uses(&["c0", "c1"]))
            .pod(pod("db").uses(&["c2"])),
            vec![refused("web", Reason::MinValues), new("db", &[])],
        ),
    ]);
}

fn dear(mut instance_type: InstanceType) -> InstanceType {
    for offering in &mut instance_type.offerings {
        offering.price = offering.price.plus(offering.price).plus(offering.price);
    }
    instance_type
}

#[test]
fn claims_for_one_pod_only() {
    let exclusive = || {
        shop()
            .storage_class("disk", waiting_class())
            .claim("data", VolumeClaim { single_pod: true, ..of_class("disk") })
    };
    let user = |name| pod(name).uses(&["data"]);
    check(vec![
        ("one pod", exclusive().pod(user("web")), vec![new("web", &[])]),
        (
            "two pods",
            exclusive().pods(2, &user("web")),
            vec![new("web", &[]), refused("web", Reason::VolumeInUse)],
        ),
        (
            "a running pod has it",
            exclusive().node(node("n", "a")).pod(user("db").running_on("n")).pod(user("web")),
            vec![refused("web", Reason::VolumeInUse)],
        ),
        (
            "a finished pod had it",
            exclusive()
                .node(node("n", "a"))
                .pod(Pod { phase: PodPhase::Failed, ..user("db").running_on("n") })
                .pod(user("web")),
            vec![on("web", "n")],
        ),
        (
            "its pod is on a node that goes away",
            exclusive().node(node("n", "a").in_state(NodeState::Deleting)).pod(user("web").running_on("n")),
            vec![new("web", &[])],
        ),
    ]);
}
