//! Replicas that would lead, on the in-process world, in virtual time.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use berth_operator::{Clock, Cluster, Elector, Lead, Terms, Wish};
use berth_world::World;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

const BEGAN: &str = "2026-03-01T09:00:00Z";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";

/// A process that can be stopped and goes on later.
struct Replica {
    elector: Option<Elector>,
    lead: Lead,
    wish: watch::Sender<Wish>,
    is_paused: AtomicBool,
}

impl Replica {
    fn new(world: &World, name: &str) -> Self {
        let cluster = Cluster::through(Client::new(world.client(name), "default"), "the world");
        let (of, client) = (world.clone(), name.to_owned());
        let clock = Clock::new(move || of.clock_of(&client));
        let elector = Elector::new(cluster, clock, ("kube-system", "berth"), name);
        Self {
            lead: elector.lead(),
            elector: Some(elector),
            wish: watch::Sender::new(Wish::Lead),
            is_paused: AtomicBool::new(false),
        }
    }

    fn epoch(&self) -> Option<u64> {
        *self.lead.borrow()
    }

    fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }
}

/// Polls the replica's elector, but not while it is paused.
async fn live(elector: Elector, wish: watch::Receiver<Wish>, is_paused: &AtomicBool) {
    let mut running = pin!(elector.run(wish));
    loop {
        let tick = sleep(Duration::from_millis(50));
        let mut tick = pin!(tick);
        let is_over = std::future::poll_fn(|context| {
            if !is_paused.load(Ordering::Relaxed) && running.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            tick.as_mut().poll(context).map(|()| false)
        })
        .await;
        if is_over {
            return;
        }
    }
}

/// Two replicas in a world with these faults. Never do both lead, but for one that was stopped and does not know yet.
fn played(faults: &str, script: impl AsyncFnOnce(&World, &Replica, &Replica)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let world = World::new(1, BEGAN.parse().expect("a time"));
        world.plan_faults(faults.parse().expect("a plan"));
        let mut first = Replica::new(&world, "berth-1");
        let mut second = Replica::new(&world, "berth-2");
        let electors = (first.elector.take().expect("it is new"), second.elector.take().expect("it is new"));
        let (first, second) = (&first, &second);
        let one = live(electors.0, first.wish.subscribe(), &first.is_paused);
        let two = async {
            // One comes before the other.
            sleep(Duration::from_millis(300)).await;
            live(electors.1, second.wish.subscribe(), &second.is_paused).await;
        };
        let watching = async {
            loop {
                let both = first.epoch().is_some() && second.epoch().is_some();
                assert!(!both || first.is_paused.load(Ordering::Relaxed), "both lead");
                sleep(Duration::from_millis(20)).await;
            }
        };
        let ever = std::future::pending::<()>;
        tokio::select! {
            biased;
            () = async { one.await; ever().await } => {}
            () = async { two.await; ever().await } => {}
            () = watching => {}
            () = script(&world, first, second) => {}
        }
    });
}

/// How long until it holds.
async fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_mins(2), "{what}: not after 120 s");
        sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

async fn asked(world: &World, request: http::Request<Vec<u8>>) -> Value {
    Client::new(world.client("test"), "default").request(request).await.expect("an answer")
}

async fn spec(world: &World) -> Value {
    asked(world, http::Request::get(LEASE).body(Vec::new()).expect("a request")).await["spec"].take()
}

const SECS_15: Duration = Duration::from_secs(15);

#[test]
fn the_first_leads_and_goes_on_leading() {
    played("", async |world, first, second| {
        until("the first leads", || first.epoch() == Some(1)).await;
        sleep(Duration::from_mins(5)).await;
        assert_eq!((first.epoch(), second.epoch()), (Some(1), None));
        let spec = spec(world).await;
        assert_eq!(spec["holderIdentity"], "berth-1");
        assert_eq!(spec["leaseDurationSeconds"], 15);
    });
}

#[test]
fn another_takes_over_from_one_that_is_gone() {
    for (what, faults) in [
        ("it crashes", "berth-1 before patch leases.coordination.k8s.io #3: crash"),
        ("its connection is gone", "berth-1 before any * #5x1000: lost"),
        ("nothing is answered", "berth-1 before any * #5x1000: delay 1h"),
        ("the API refuses it", "berth-1 before write * #5x1000: status 403"),
        ("all of its writes fail", "berth-1 before patch * #5x1000: status 500"),
    ] {
        played(faults, async |_, first, second| {
            until("the first leads", || first.epoch() == Some(1)).await;
            let gave_up = until("the first gives up", || first.epoch().is_none()).await;
            // It knew before anybody else could know.
            assert_eq!(second.epoch(), None, "{what}");
            let took = until("the second leads", || second.epoch() == Some(2)).await;
            assert!(gave_up > Duration::from_secs(8) && took < SECS_15, "{what}: {gave_up:?}, {took:?}");
            sleep(Duration::from_mins(1)).await;
            assert_eq!((first.epoch(), second.epoch()), (None, Some(2)), "{what}");
        });
    }
}

#[test]
fn trouble_that_passes_changes_nothing() {
    for faults in [
        "berth-1 before patch leases.coordination.k8s.io #3x2: status 503",
        "berth-1 after patch leases.coordination.k8s.io #3: lost",
        "berth-1 before patch leases.coordination.k8s.io #3: delay 4s",
        "berth-1 after create leases.coordination.k8s.io #1: lost",
        "berth-2 before any * #1x20: status 409",
        "berth-2 before any * #1x20: lost",
        // Nobody's clock is believed.
        "berth-1 before any * #4: clock -1h",
        "berth-2 before any * #4: clock +1h",
    ] {
        played(faults, async |_, first, second| {
            until("the first leads", || first.epoch() == Some(1)).await;
            for _ in 0..600 {
                sleep(Duration::from_millis(100)).await;
                assert_eq!((first.epoch().unwrap_or(1), second.epoch()), (1, None), "{faults}");
            }
            assert_eq!(first.epoch(), Some(1), "{faults}");
        });
    }
}

#[test]
fn one_that_was_stopped_and_goes_on_learns_that_it_does_not_lead() {
    played("", async |_, first, second| {
        until("the first leads", || first.epoch() == Some(1)).await;
        first.pause(true);
        until("the second leads", || second.epoch() == Some(2)).await;
        sleep(SECS_15).await;
        first.pause(false);
        sleep(Duration::from_millis(60)).await;
        assert_eq!(first.epoch(), None, "it asks nobody before it gives up");
        sleep(Duration::from_mins(1)).await;
        assert_eq!((first.epoch(), second.epoch()), (None, Some(2)));
    });
}

#[test]
fn one_that_ends_hands_over_at_once() {
    played("", async |world, first, second| {
        until("the first leads", || first.epoch() == Some(1)).await;
        sleep(SECS_15).await;
        first.wish.send_replace(Wish::Finish);
        sleep(Duration::from_mins(1)).await;
        assert_eq!((first.epoch(), second.epoch()), (None, None), "what was begun is finished first");
        assert_eq!(spec(world).await["holderIdentity"], "berth-1");
        first.wish.send_replace(Wish::Leave);
        let took = until("the second leads", || second.epoch() == Some(2)).await;
        assert!(took < Duration::from_secs(3), "{took:?}");
    });
}

/// A pool whose ledger was last written in this epoch.
async fn with_ledger_of(world: &World, epoch: u64) {
    let (definitions, problems) = berth_api::objects(&[berth_api::Source::Text {
        name: "crds".to_owned(),
        text: berth_api::crds::yaml().expect("they can be written"),
    }]);
    assert!(problems.is_empty());
    for definition in definitions {
        world.apply("test", &definition.value).await.expect("it is applied");
    }
    let record = berth_core::commitment::Commitments { epoch, ..Default::default() };
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {
            "name": "default",
            "annotations": { berth_api::ledger::LEDGER: berth_api::ledger::written(&record) },
        },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [],
        } } },
    });
    world.apply("test", &pool).await.expect("it is applied");
}

#[test]
fn one_that_led_without_the_lease_does_not_keep_others_from_leading() {
    played("", async |world, first, second| {
        until("the first leads", || first.epoch() == Some(1)).await;
        with_ledger_of(world, 41).await;
        first.wish.send_replace(Wish::Leave);
        until("the second leads after all of them", || second.epoch() == Some(42)).await;
    });
}

/// Who has nobody beside them may have had somebody before them.
#[test]
fn one_that_leads_alone_waits_for_who_led_before() {
    const WAIT: Duration = Duration::from_secs(90);
    for (before, epoch, wait) in [(None, 1, Duration::ZERO), (Some(41), 42, WAIT)] {
        for is_given_up in [false, true] {
            played("", async |world, _, _| {
                if let Some(before) = before {
                    with_ledger_of(world, before).await;
                }
                let cluster = Cluster::through(Client::new(world.client("alone"), "default"), "the world");
                let terms = Terms { succession_min: WAIT, ..Terms::default() };
                let known = berth_operator::epoch_alone(&cluster, &terms).await.expect("ledgers");
                assert_eq!(known, (epoch, wait));
                let (sender, lead) = watch::channel(None);
                let wish = watch::Sender::new(Wish::Lead);
                let task = tokio::spawn(berth_operator::lead_alone(sender, known, wish.subscribe()));
                sleep(wait.saturating_sub(Duration::from_secs(1))).await;
                assert!(wait.is_zero() || lead.borrow().is_none(), "{before:?}");
                if is_given_up {
                    wish.send_replace(Wish::Finish);
                }
                sleep(Duration::from_secs(2)).await;
                assert_eq!(*lead.borrow(), Some(epoch).filter(|_| !is_given_up), "{before:?}");
                wish.send_replace(Wish::Leave);
                task.await.expect("it ends");
                assert_eq!(*lead.borrow(), None, "{before:?}");
            });
        }
    }
}

#[test]
fn a_lease_that_somebody_deletes_does_not_turn_back_the_epoch() {
    played("", async |world, first, second| {
        with_ledger_of(world, 41).await;
        until("the first leads", || first.epoch().is_some()).await;
        asked(world, http::Request::delete(LEASE).body(Vec::new()).expect("a request")).await;
        until("another epoch begins", || first.epoch().or(second.epoch()) == Some(42)).await;
    });
}
