//! Over sockets and TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use berth_cloud::Cloud;
use berth_cloud::machine::MachineState;
use berth_cloud::provider::{Refusal, list_all};
use berth_cloud::vpsie::{Credentials, Family, TlsFloor, TlsSettings, TlsTransport, VpsieCloud};
use berth_world::cloud::Weather;
use berth_world::cloud::weather::{Odds, Quota};
use berth_world::vpsie::{Deed, DeedFaults, Faults, NewestTls, ServedVpsie, Vpsie};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::rig::{CANARY, Claim, alive, calm, credentials, process, static_credentials, step, vpsie};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const HERE: &[&str] = &["127.0.0.1"];

async fn served(vpsie: &Vpsie) -> ServedVpsie {
    vpsie.serve(LOOPBACK, HERE, NewestTls::Tls13).await.unwrap()
}

fn transport(served: &ServedVpsie, floor: TlsFloor) -> Arc<TlsTransport> {
    let settings = TlsSettings { floor, extra_roots: Some(served.authority().to_owned()) };
    Arc::new(TlsTransport::new(&settings).unwrap())
}

fn buyer(
    vpsie: &Vpsie,
    served: &ServedVpsie,
    family: Family,
    credentials: fn(&str) -> Credentials,
) -> VpsieCloud {
    process(vpsie, family, transport(served, TlsFloor::Tls13), credentials(&served.url()))
}

/// Asks until the claim has its machine. What is refused meanwhile is kept.
async fn bought(cloud: &VpsieCloud, claim: &mut Claim) -> Vec<String> {
    let mut refusals = Vec::new();
    for _ in 0..100 {
        match step(cloud, claim, Arc::default()).await {
            Ok(Some(_)) => return refusals,
            Ok(None) => {}
            Err(refusal) => refusals.push(refusal.to_string()),
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("never bought: {refusals:?}");
}

#[tokio::test]
async fn a_machine_lives_and_ends() {
    for family in Family::ALL {
        for credentials in [credentials, static_credentials] {
            let vpsie = vpsie(calm(), 1, Faults::none());
            let served = served(&vpsie).await;
            let cloud = buyer(&vpsie, &served, family, credentials);
            let types: Vec<String> =
                cloud.catalog().await.unwrap().types.iter().map(|t| t.name.to_string()).collect();
            assert_eq!(types, ["big", "small"]);
            let mut claim = Claim::new("uid-1", &["small"]);
            assert_eq!(bought(&cloud, &mut claim).await, [""; 0]);
            let id = claim.machine.clone().unwrap();
            let machine = cloud.get(&id).await.unwrap();
            let record = vpsie.cloud().inspect(|account| account.record(&id).unwrap().machine.clone());
            assert_eq!(machine.token.as_ref(), Some(&claim.order.token), "{family:?}");
            assert_eq!((&machine.instance_type, &machine.zone), (&record.instance_type, &record.zone));
            assert_eq!(machine.provider_id, record.provider_id);
            assert_eq!(machine.price.to_string(), "0.050000");
            assert_eq!(machine.state, MachineState::Running);
            if family != Family::Managed {
                assert_eq!(&*machine.name, "node-uid-1");
                assert_eq!(machine.tags, claim.order.machine_tags());
                let labels = vpsie.cloud().inspect(|account| {
                    let record = account.record(&id).unwrap();
                    record.purchase.as_ref().unwrap().order.labels.clone()
                });
                assert_eq!(labels, claim.order.labels);
            }
            let listing = list_all(&cloud).await;
            assert_eq!((listing.machines.len(), listing.stopped_by), (1, None));
            assert_eq!(listing.machines[&id].token.as_ref(), Some(&claim.order.token));
            assert_eq!(cloud.notices().await.unwrap(), []);
            cloud.terminate(&id).await.unwrap();
            assert_eq!(cloud.terminate(&id).await, Err(Refusal::NotFound(id.clone())));
            assert_eq!(alive(&vpsie), 0);
            served.stop().await;
        }
    }
}

/// What goes wrong once, what the buyer is told, and that there is one machine all the same.
#[tokio::test]
async fn one_machine_whatever_goes_wrong() {
    let once = Odds::nth(1);
    let cases: [(&'static str, Deed, DeedFaults, &'static [&'static str]); 9] = [
        (
            "lost reply",
            Deed::Create,
            DeedFaults { lost: once.clone(), ..DeedFaults::default() },
            &["the connection broke"],
        ),
        (
            "failed after",
            Deed::Create,
            DeedFaults { failed_after: once.clone(), ..DeedFaults::default() },
            &["failed with code 502"],
        ),
        (
            "garbled",
            Deed::Create,
            DeedFaults { garbled: once.clone(), ..DeedFaults::default() },
            &["the answer is not JSON but 30 bytes of text/html"],
        ),
        (
            "too large",
            Deed::Create,
            DeedFaults { oversized: once.clone(), ..DeedFaults::default() },
            &["the answer has more than 10485760 bytes"],
        ),
        ("401", Deed::Create, DeedFaults { unauthorized: once.clone(), ..DeedFaults::default() }, &[]),
        ("429", Deed::Look, DeedFaults { throttled: once.clone(), ..DeedFaults::default() }, &[]),
        (
            "429 at the create",
            Deed::Create,
            DeedFaults { throttled: once.clone(), ..DeedFaults::default() },
            &["asked too often"],
        ),
        ("5xx", Deed::Offers, DeedFaults { failed: once.clone(), ..DeedFaults::default() }, &[]),
        ("sign in lost", Deed::SignIn, DeedFaults { lost: once, ..DeedFaults::default() }, &[]),
    ];
    // A look is good for two seconds, so they wait side by side.
    let mut running = JoinSet::new();
    for family in Family::ALL {
        for (name, deed, faults, expected) in cases.clone() {
            running.spawn(one_machine_despite(family, name, deed, faults, expected));
        }
    }
    running.join_all().await;
}

async fn one_machine_despite(
    family: Family,
    name: &'static str,
    deed: Deed,
    faults: DeedFaults,
    expected: &'static [&'static str],
) {
    let vpsie = vpsie(calm(), 1, Faults::of(deed, faults));
    let served = served(&vpsie).await;
    let cloud = buyer(&vpsie, &served, family, credentials);
    let mut claim = Claim::new("uid-1", &["small"]);
    let refusals = bought(&cloud, &mut claim).await;
    assert_eq!(refusals.len(), expected.len(), "{name} {family:?}: {refusals:?}");
    for (refusal, words) in refusals.iter().zip(expected) {
        assert!(refusal.contains(words), "{name} {family:?}: {refusal}");
        assert!(!refusal.contains(CANARY), "{refusal}");
    }
    assert_eq!(alive(&vpsie), 1, "{name} {family:?}");
    if name == "401" {
        assert_eq!(vpsie.calls(Deed::SignIn), 2);
    }
    served.stop().await;
}

#[tokio::test]
async fn tokens_that_end_are_replaced() {
    let vpsie = vpsie(calm(), 1, Faults::none());
    let served = served(&vpsie).await;
    let cloud = buyer(&vpsie, &served, Family::Servers, credentials);
    cloud.list(None).await.unwrap();
    vpsie.expire_tokens();
    cloud.list(None).await.unwrap();
    assert_eq!(vpsie.calls(Deed::SignIn), 2);
}

#[tokio::test]
async fn a_storm_of_failures_is_left_alone() {
    let failing = DeedFaults { failed: Odds::always(), ..DeedFaults::default() };
    let vpsie = vpsie(calm(), 1, Faults::of(Deed::Look, failing));
    let served = served(&vpsie).await;
    let cloud = buyer(&vpsie, &served, Family::Servers, static_credentials);
    let mut refusals = Vec::new();
    for _ in 0..10 {
        refusals.push(cloud.get(&"x".into()).await.unwrap_err());
    }
    assert!(matches!(refusals.first(), Some(Refusal::Unknown(_))), "{refusals:?}");
    assert!(matches!(refusals.last(), Some(Refusal::Throttled { retry_after: Some(_) })), "{refusals:?}");
    assert_eq!(vpsie.calls(Deed::Look), 10);
}

#[tokio::test]
async fn only_whom_tls_vouches_for() {
    let vpsie = vpsie(calm(), 1, Faults::none());
    let (elsewhere, old) = (&["elsewhere.test"][..], NewestTls::Tls12);
    for (called, newest, floor, trusted, expected) in [
        (HERE, NewestTls::Tls13, TlsFloor::Tls13, true, None),
        (HERE, NewestTls::Tls13, TlsFloor::Tls13, false, Some("UnknownIssuer")),
        (elsewhere, NewestTls::Tls13, TlsFloor::Tls13, true, Some("not valid for name")),
        (HERE, old, TlsFloor::Tls13, true, Some("no connection")),
        (HERE, old, TlsFloor::Tls12, true, None),
    ] {
        let served = vpsie.serve(LOOPBACK, called, newest).await.unwrap();
        let extra_roots = trusted.then(|| served.authority().to_owned());
        let transport = Arc::new(TlsTransport::new(&TlsSettings { floor, extra_roots }).unwrap());
        let cloud = process(&vpsie, Family::Servers, transport, static_credentials(&served.url()));
        match (cloud.list(None).await, expected) {
            (Ok(_), None) => {}
            (Err(Refusal::Unknown(words)), Some(expected)) => assert!(words.contains(expected), "{words}"),
            (told, expected) => panic!("{told:?} where {expected:?} was expected"),
        }
    }
}

#[tokio::test]
async fn quotas_are_told_as_such() {
    let quota = Quota { name: "servers".into(), machines_max: Some(0), ..Quota::default() };
    for family in Family::ALL {
        let vpsie = vpsie(Weather { quotas: vec![quota.clone()], ..calm() }, 1, Faults::none());
        let served = served(&vpsie).await;
        let cloud = buyer(&vpsie, &served, family, static_credentials);
        let mut claim = Claim::new("uid-1", &["small", "big"]);
        let refusal = step(&cloud, &mut claim, Arc::default()).await.unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "none of the offerings can be had: any type is beyond the quota Quota exceeded: servers",
            "{family:?}"
        );
        // It is certain that nothing came of it, and stays so.
        assert_eq!(step(&cloud, &mut claim, Arc::default()).await, Ok(None));
        assert_eq!(claim.note, None);
        assert_eq!(vpsie.calls(Deed::Create), 1);
    }
}
