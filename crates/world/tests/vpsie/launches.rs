//! Launches that are found again, in virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_cloud::Cloud;
use berth_cloud::machine::{MachineId, Note, Order, Requested};
use berth_cloud::provider::{Launched, Refusal, list_all};
use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::{Delay, ListFaults, Odds, StockChange, Times, Which};
use berth_world::cloud::{Account, Weather};
use berth_world::vpsie::{Deed, DeedFaults, Faults, InProcess, Vpsie};
use jiff::SignedDuration;
use serde_json::json;
use tokio::time::{advance, sleep};

use super::rig::{
    Claim, SMALL, alive, calm, credentials, instant, process, process_here, step, taken, vpsie,
};

/// Steps of all claims, one after the other, every ten seconds, for so long.
async fn lived(vpsie: &Vpsie, family: Family, claims: &mut [Claim], secs: u64) -> Vec<Refusal> {
    let cloud = process_here(vpsie, family);
    let mut refusals = Vec::new();
    for _ in 0..secs / 10 {
        for place in 0..claims.len() {
            let taken = taken(claims);
            if claims[place].machine.is_none() {
                refusals.extend(step(&cloud, &mut claims[place], taken).await.err());
            }
        }
        sleep(Duration::from_secs(10)).await;
    }
    refusals
}

fn eventual(secs: u64) -> Weather {
    Weather { times: Times { appear: Delay::secs(secs), ..instant() }, ..Weather::default() }
}

fn machines(claims: &[Claim]) -> BTreeSet<MachineId> {
    claims.iter().filter_map(|claim| claim.machine.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn five_at_once_get_five() {
    for family in Family::ALL {
        for appear in [0, 30, 290] {
            let vpsie = vpsie(eventual(appear), 1, Faults::none());
            let cloud = Arc::new(process_here(&vpsie, family));
            let mut tasks = Vec::new();
            for n in 0..5 {
                let cloud = Arc::clone(&cloud);
                tasks.push(tokio::spawn(async move {
                    let mut claim = Claim::new(&format!("uid-{n}"), &["small"]);
                    while claim.machine.is_none() {
                        step(&cloud, &mut claim, Arc::default()).await.unwrap();
                        sleep(Duration::from_secs(5)).await;
                    }
                    claim
                }));
            }
            let mut claims = Vec::new();
            for task in tasks {
                claims.push(task.await.unwrap());
            }
            assert_eq!(machines(&claims).len(), 5, "{family:?} {appear}");
            assert_eq!(alive(&vpsie), 5, "{family:?} {appear}");
            // The public API has no groups.
            let groups = u64::from(family != Family::Vm);
            assert_eq!(vpsie.calls(Deed::AddGroup), groups, "{family:?} {appear}");
            assert!(vpsie.most_calls_in_a_minute() <= 100);
            sleep(Duration::from_mins(5)).await;
            let listed = list_all(&*cloud).await.machines;
            for claim in &claims {
                let machine = &listed[claim.machine.as_ref().unwrap()];
                assert_eq!(machine.token.as_ref(), Some(&claim.order.token));
                assert_eq!(machine.tags, claim.order.machine_tags());
            }
        }
    }
}

/// Whoever comes after a crash finds what was bought, and buys what was not.
#[tokio::test(start_paused = true)]
async fn a_crash_before_and_after_sending() {
    for family in Family::ALL {
        for (was_sent, appear) in [(false, 0), (true, 0), (true, 280)] {
            let vpsie = vpsie(eventual(appear), 1, Faults::none());
            let mut claims = [Claim::new("uid-1", &["small"])];
            let crashed = process_here(&vpsie, family);
            if was_sent {
                step(&crashed, &mut claims[0], Arc::default()).await.unwrap();
                claims[0].machine = None;
            } else {
                claims[0].note = crashed.prepare(&claims[0].order).await.unwrap();
            }
            drop(crashed);
            assert_eq!(alive(&vpsie), usize::from(was_sent));
            let refusals = lived(&vpsie, family, &mut claims, 3600).await;
            assert_eq!(refusals, [], "{family:?} {was_sent}");
            assert_eq!((alive(&vpsie), machines(&claims).len()), (1, 1), "{family:?} {was_sent} {appear}");
        }
    }
}

/// What a list says of a server need not be what it was sold as: then it is what was ordered, for whoever bought it and for
/// who comes after.
#[tokio::test(start_paused = true)]
async fn a_server_is_what_was_ordered() {
    for family in [Family::Servers, Family::Vm] {
        for (types, appear) in [(&["small"][..], 0), (&["small", "big"], 0), (&["big", "small"], 120)] {
            let faults = Faults { bare_servers: true, ..Faults::none() };
            let vpsie = vpsie(eventual(appear), 1, faults);
            let mut claims = [Claim::new("uid-1", types)];
            let buyer = process_here(&vpsie, family);
            let machine = step(&buyer, &mut claims[0], Arc::default()).await.unwrap().expect("it is told");
            sleep(Duration::from_mins(5)).await;
            let later = process_here(&vpsie, family);
            let asked = later.get(&machine.id).await.unwrap();
            // Whoever does not know what became of the launch finds it.
            claims[0].machine = None;
            let found = step(&later, &mut claims[0], Arc::default()).await.unwrap().expect("it is found");
            let mut told = vec![machine.clone(), asked, found];
            for cloud in [&buyer, &later] {
                told.extend(list_all(cloud).await.machines.into_values());
            }
            assert_eq!(told.len(), 5);
            for one in told {
                let is = (&one.id, &*one.instance_type, &*one.zone, &one.provider_id, &one.tags);
                let tags = claims[0].order.machine_tags();
                assert_eq!(is, (&machine.id, types[0], "dc-1", &machine.provider_id, &tags), "{family:?}");
                assert_eq!(one.price, machine.price);
            }
            assert!(machine.provider_id.starts_with("vpsie://dc-1/"), "{}", machine.provider_id);
        }
    }
}

/// A server whose tags cannot be read may be what was bought before a crash, if it has that name: then none is bought. One of
/// a stranger's holds up nobody.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_read_may_be_the_one() {
    let own = Claim::new("uid-1", &["small"]).order.name.to_string();
    for (odd, bought) in [
        (json!({ "id": "x", "hostname": own, "tags": { "a": "b" } }), 0),
        (json!({ "id": "x", "hostname": own.to_uppercase(), "status": {} }), 0),
        (json!({ "id": "x", "hostname": {}, "tags": 5 }), 0),
        (json!({ "id": "x", "hostname": "theirs", "tags": 5 }), 1),
        (json!({ "id": "x", "name": own, "tags": [] }), 1),
    ] {
        let vpsie = vpsie(calm(), 1, Faults { odd_servers: vec![odd.clone()], ..Faults::none() });
        let mut claims = [Claim::new("uid-1", &["small"])];
        // Perhaps it was sent.
        claims[0].note = process_here(&vpsie, Family::Servers).prepare(&claims[0].order).await.unwrap();
        let refusals = lived(&vpsie, Family::Servers, &mut claims, 3600).await;
        assert_eq!((refusals, alive(&vpsie)), (Vec::new(), bought), "{odd}");
        let listed = list_all(&process_here(&vpsie, Family::Servers)).await;
        assert_eq!((listed.stopped_by, listed.machines.len()), (None, bought + 1), "{odd}");
    }
}

/// A list that is empty for a moment, just when it would be believed.
#[tokio::test(start_paused = true)]
async fn a_list_that_lies_once_is_not_believed() {
    for (family, settled_secs) in [(Family::Servers, 390), (Family::Vm, 390), (Family::Managed, 990)] {
        let empty = Odds::always().between(0, (settled_secs + 15) * 1000);
        let lists = ListFaults { empty, ..ListFaults::default() };
        let vpsie = vpsie(Weather { lists, ..calm() }, 1, Faults::none());
        let mut claims = [Claim::new("uid-1", &["small"])];
        step(&process_here(&vpsie, family), &mut claims[0], Arc::default()).await.unwrap();
        claims[0].machine = None;
        assert_eq!(lived(&vpsie, family, &mut claims, 3600).await, []);
        assert_eq!((alive(&vpsie), machines(&claims).len()), (1, 1), "{family:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_is_sent_at_once_or_not_at_all() {
    for family in Family::ALL {
        let vpsie = vpsie(calm(), 1, Faults::none());
        let cloud = process_here(&vpsie, family);
        let mut claim = Claim::new("uid-1", &["small"]);
        claim.note = cloud.prepare(&claim.order).await.unwrap();
        advance(Duration::from_secs(61)).await;
        assert_eq!(step(&cloud, &mut claim, Arc::default()).await, Ok(None));
        assert_eq!((claim.note, alive(&vpsie)), (None, 0), "{family:?}");
        let without = cloud.launch(&claim.order).await.unwrap_err();
        assert!(matches!(without, Refusal::Invalid(_)), "{without}");
        let foreign = Order { note: Some(Note("ab".into())), ..claim.order };
        assert!(matches!(cloud.launch(&foreign).await, Err(Refusal::Invalid(_))));
    }
}

/// A group to which a person adds nodes too.
#[tokio::test(start_paused = true)]
async fn a_strangers_node_is_not_claimed() {
    let vpsie = vpsie(eventual(20), 1, Faults::none());
    let mut claims = vec![Claim::new("uid-0", &["small"])];
    lived(&vpsie, Family::Managed, &mut claims, 120).await;
    let before = vpsie.add_by_hand(SMALL).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    // One that was there before the launch is known.
    claims.push(Claim::new("uid-1", &["small"]));
    assert_eq!(lived(&vpsie, Family::Managed, &mut claims, 120).await, []);
    assert_eq!(machines(&claims).len(), 2);
    assert!(!machines(&claims).contains(&before));
    // One that comes with it cannot be told apart: none is claimed.
    claims.push(Claim::new("uid-2", &["small"]));
    let cloud = process_here(&vpsie, Family::Managed);
    let known = taken(&claims);
    step(&cloud, &mut claims[2], known).await.unwrap();
    vpsie.add_by_hand(SMALL).await.unwrap();
    let told = lived(&vpsie, Family::Managed, &mut claims, 1800).await;
    assert_eq!(claims[2].machine, None);
    let words = told.first().map(ToString::to_string).unwrap_or_default();
    assert!(words.contains("has 2 new nodes where Berth launched 1: somebody else adds nodes"), "{words}");
    assert!(told.iter().all(|refusal| matches!(refusal, Refusal::Denied(_))), "{told:?}");
}

/// Each launch is about one size: what cannot be had is passed over, launch by launch.
#[tokio::test(start_paused = true)]
async fn the_next_size_if_the_first_is_sold_out() {
    for family in Family::ALL {
        let which = Which { instance_type: Some("small".into()), ..Which::default() };
        let weather = Weather { stock: vec![StockChange { at_ms: 0, which, count: 0 }], ..calm() };
        let vpsie = vpsie(weather, 1, Faults::none());
        let mut claims = [Claim::new("uid-1", &["small", "big"])];
        assert_eq!(lived(&vpsie, family, &mut claims, 120).await, []);
        let bought = vpsie.cloud().inspect(|account| account.records()[0].machine.instance_type.clone());
        assert_eq!((&*bought, alive(&vpsie)), ("big", 1), "{family:?}");
        let mut only = [Claim::new("uid-2", &["small", "tiny"])];
        let refusals = lived(&vpsie, family, &mut only, 60).await;
        let words = "none of the offerings can be had: small in dc-1 as on-demand is out of stock; \
                     tiny in dc-1 as on-demand is not offered";
        assert_eq!(refusals.first().map(ToString::to_string).as_deref(), Some(words), "{family:?}");
    }
}

/// Nodes need a group of their size first, and that can be refused as they can. What is about a size leaves the others.
#[tokio::test(start_paused = true)]
async fn the_next_size_if_the_first_gets_no_group() {
    type Refused = fn(Odds) -> DeedFaults;
    let quota: Refused = |over_quota| DeedFaults { over_quota, ..DeedFaults::default() };
    let plan: Refused = |not_in_plan| DeedFaults { not_in_plan, ..DeedFaults::default() };
    let stock: Refused = |sold_out| DeedFaults { sold_out, ..DeedFaults::default() };
    let of_account = "any type is beyond the quota Quota exceeded: groups";
    let of_plan = "small in dc-1 as on-demand is beyond the quota Your plan does not allow this size; \
                   big in dc-1 as on-demand is beyond the quota Your plan does not allow this size";
    let of_stock = "small in dc-1 as on-demand is out of stock; big in dc-1 as on-demand is out of stock";
    for (refused, odds, bought, words) in [
        (quota, Odds::always(), None, of_account),
        // It is told at once, and a moment later may be otherwise.
        (quota, Odds::nth(1), Some("small"), of_account),
        (plan, Odds::always(), None, of_plan),
        (plan, Odds::nth(1), Some("big"), ""),
        (stock, Odds::always(), None, of_stock),
        (stock, Odds::nth(1), Some("big"), ""),
    ] {
        let case = format!("{:?}", refused(odds.clone()));
        let vpsie = vpsie(calm(), 1, Faults::of(Deed::AddGroup, refused(odds)));
        let mut claims = [Claim::new("uid-1", &["small", "big"])];
        let refusals = lived(&vpsie, Family::Managed, &mut claims, 60).await;
        let told = refusals.first().map(ToString::to_string).unwrap_or_default();
        let told = told.strip_prefix("none of the offerings can be had: ").unwrap_or(&told);
        assert_eq!(told, words, "{case}");
        let has = vpsie.cloud().inspect(|account| {
            account.records().first().map(|record| record.machine.instance_type.to_string())
        });
        assert_eq!(has.as_deref(), bought, "{case}");
    }
}

/// Servers of a pool are in one group, whoever buys them. Where there are no groups they are bought all the same.
#[tokio::test(start_paused = true)]
async fn servers_are_entered_in_the_group_of_their_pool() {
    let garbled = DeedFaults { garbled: Odds::always(), ..DeedFaults::default() };
    let slow = DeedFaults { slow: Odds::always(), slow_by_ms: 20_000, ..DeedFaults::default() };
    let refused = DeedFaults { over_quota: Odds::always(), ..DeedFaults::default() };
    let unheard = DeedFaults { lost: Odds::nth(1), ..DeedFaults::default() };
    for (what, faults, groups, made) in [
        ("it is made once", Faults::none(), [Some(500), Some(500)], 1),
        ("it is found by its name", Faults::of(Deed::AddGroup, unheard), [None, Some(500)], 1),
        ("there is no such path", Faults::of(Deed::Groups, garbled), [None, None], 0),
        ("nobody waits for long", Faults::of(Deed::Groups, slow), [None, None], 0),
        ("each process tries it once", Faults::of(Deed::AddGroup, refused), [None, None], 2),
    ] {
        let vpsie = vpsie(calm(), 1, faults);
        for (process, group) in groups.into_iter().enumerate() {
            let cloud = process_here(&vpsie, Family::Servers);
            for n in 0..3 {
                let mut claim = Claim::new(&format!("uid-{process}-{n}"), &["small"]);
                let machine = step(&cloud, &mut claim, Arc::default()).await.unwrap();
                assert_eq!(machine.map(|machine| machine.extras.group), Some(group), "{what}");
            }
        }
        assert_eq!((vpsie.calls(Deed::AddGroup), alive(&vpsie)), (made, 6), "{what}");
    }
}

/// What is not there is only not there if VPSie says so.
#[tokio::test(start_paused = true)]
async fn absence_is_said_and_not_guessed() {
    let cases = [
        ("gone", DeedFaults::default(), true),
        ("garbled", DeedFaults { garbled: Odds::always(), ..DeedFaults::default() }, false),
        ("failed", DeedFaults { failed: Odds::always(), ..DeedFaults::default() }, false),
        ("unheard", DeedFaults { unheard: Odds::always(), ..DeedFaults::default() }, false),
    ];
    for family in Family::ALL {
        for (name, faults, is_absent) in &cases {
            let deeds = [Deed::Look, Deed::Delete].map(|deed| (deed, faults.clone()));
            let vpsie = vpsie(calm(), 1, Faults { deeds: deeds.into(), ..Faults::default() });
            let cloud = process_here(&vpsie, family);
            let id = MachineId::from("i-1");
            for told in [cloud.get(&id).await.map(drop), cloud.terminate(&id).await] {
                let not_found = told == Err(Refusal::NotFound(id.clone()));
                assert_eq!(not_found, *is_absent, "{name} {family:?}: {told:?}");
                assert!(told.is_err());
            }
        }
    }
}

/// An answer that a path is not there says nothing of machines: they go on costing.
#[tokio::test(start_paused = true)]
async fn a_wrong_path_is_no_absence() {
    for family in Family::ALL {
        let vpsie = vpsie(calm(), 1, Faults::none());
        let mut claims = [Claim::new("uid-1", &["small"])];
        lived(&vpsie, family, &mut claims, 60).await;
        let id = claims[0].machine.clone().unwrap();
        let transport = Arc::new(InProcess(vpsie.clone()));
        let lost = process(&vpsie, family, transport, credentials("https://vpsie.test/v3"));
        for told in [lost.get(&id).await.map(drop), lost.terminate(&id).await] {
            assert!(matches!(told, Err(Refusal::Unknown(_))), "{family:?}: {told:?}");
        }
        let order = Order { note: claims[0].note.clone(), is_given_up: true, ..claims[0].order.clone() };
        let told = lost.launch(&order).await;
        assert!(matches!(told, Err(Refusal::Unknown(_))), "{family:?}: {told:?}");
        assert_eq!(alive(&vpsie), 1);
    }
}

/// What VPSie's own autoscaler asked for before Berth came: it is taken for the claim's if nothing else can be meant.
#[tokio::test(start_paused = true)]
async fn what_another_asked_for_is_found_and_never_bought() {
    // When it was made, relative to the request; under which name; and whether that is found.
    for (family, made_secs, name, is_found) in [
        (Family::Servers, 5, "node-uid-1", true),
        (Family::Servers, -30, "node-uid-1", true),
        (Family::Servers, -90, "node-uid-1", false),
        (Family::Servers, 5, "web-1", false),
        (Family::Managed, 5, "", true),
        (Family::Managed, -90, "", false),
        // It is a node already, and that one is another.
        (Family::Managed, 5, "joined", false),
    ] {
        let vpsie = vpsie(calm(), 1, Faults::none());
        // There are others, which are nobody's concern.
        let strange = match family {
            Family::Servers | Family::Vm => vpsie.create_by_hand("db", SMALL).await,
            Family::Managed => vpsie.add_by_hand(SMALL).await,
        };
        advance(Duration::from_mins(5)).await;
        let at = vpsie.cloud().inspect(Account::now) - SignedDuration::from_secs(made_secs);
        let made = match family {
            Family::Servers | Family::Vm => vpsie.create_by_hand(name, SMALL).await,
            Family::Managed => vpsie.add_by_hand(SMALL).await,
        };
        let mut claims = [Claim::new("uid-1", &["small"])];
        assert!(strange.is_some() && made.is_some());
        let names = vec![claims[0].order.name.to_uppercase().into()];
        claims[0].order.requested =
            Some(Requested { at, names, has_joined: name == "joined", machine: None });
        let refusals = lived(&vpsie, family, &mut claims, 1800).await;
        let case = format!("{family:?} {made_secs} {name}");
        assert_eq!(refusals, [], "{case}");
        assert_eq!(claims[0].machine, made.filter(|_| is_found), "{case}");
        assert_eq!((vpsie.calls(Deed::Create), alive(&vpsie)), (0, 2), "{case}");
    }
}

/// As what it was asked for may not be sold any more: then its node or its name says which it is.
#[tokio::test(start_paused = true)]
async fn what_another_asked_for_need_not_be_sold() {
    for family in Family::ALL {
        for says in [true, false] {
            let vpsie = vpsie(calm(), 1, Faults::none());
            let at = vpsie.cloud().inspect(Account::now);
            let mut claims = [Claim::new("uid-1", &["retired"])];
            let made = match family {
                Family::Servers | Family::Vm => vpsie.create_by_hand(&claims[0].order.name, SMALL).await,
                Family::Managed => vpsie.add_by_hand(SMALL).await,
            };
            let machine = made.as_ref().filter(|_| says).map(|id| id.as_str().to_uppercase().into());
            let names = vec![claims[0].order.name.clone()];
            claims[0].order.requested = Some(Requested { at, names, has_joined: says, machine });
            let refusals = lived(&vpsie, family, &mut claims, 1800).await;
            let is_found = says || family != Family::Managed;
            assert_eq!(refusals, [], "{family:?} {says}");
            assert_eq!(claims[0].machine, made.filter(|_| is_found), "{family:?} {says}");
            assert_eq!((vpsie.calls(Deed::Create), alive(&vpsie)), (0, 1), "{family:?} {says}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_questions_keep_to_the_limit() {
    for family in Family::ALL {
        let vpsie = vpsie(eventual(60), 1, Faults::none());
        let cloud = Arc::new(process_here(&vpsie, family));
        let mut tasks = Vec::new();
        for n in 0..150 {
            let cloud = Arc::clone(&cloud);
            tasks.push(tokio::spawn(async move {
                let mut claim = Claim::new(&format!("uid-{n}"), &["small"]);
                while claim.machine.is_none() {
                    cloud.get(&MachineId::from("i-1")).await.unwrap_err();
                    cloud.list(None).await.unwrap();
                    // What had to wait for too long is noted anew.
                    let _ = step(&cloud, &mut claim, Arc::default()).await;
                    sleep(Duration::from_secs(5)).await;
                }
                claim.machine.unwrap()
            }));
        }
        let mut bought = BTreeSet::new();
        for task in tasks {
            bought.insert(task.await.unwrap());
        }
        assert_eq!((bought.len(), alive(&vpsie)), (150, 150), "{family:?}");
        // The rest of the hundred is for whoever takes over.
        let most = vpsie.most_calls_in_a_minute();
        assert!((50..=60).contains(&most), "{family:?}: {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_found_stays_found() {
    for family in Family::ALL {
        let vpsie = vpsie(calm(), 1, Faults::none());
        let cloud = process_here(&vpsie, family);
        let mut claim = Claim::new("uid-1", &["small"]);
        while claim.machine.is_none() {
            step(&cloud, &mut claim, Arc::default()).await.unwrap();
            sleep(Duration::from_secs(5)).await;
        }
        let order = Order { note: claim.note.clone(), ..claim.order.clone() };
        for _ in 0..3 {
            match cloud.launch(&order).await.unwrap() {
                Launched::Machine { machine, .. } => assert_eq!(Some(machine.id), claim.machine),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(alive(&vpsie), 1);
    }
}
