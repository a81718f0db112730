//! The cloud behind the trait, in tokio's paused time.

use std::sync::Arc;
use std::time::Duration;

use berth_cloud::Cloud;
use berth_cloud::machine::MachineId;
use berth_cloud::provider::{Launched, Refusal, list_all};
use tokio::time::{Instant, sleep, timeout};

use super::super::weather::{CallFaults, Odds, Weather};
use super::super::{Account, Call, Event, SimulatedCloud};
use super::{began, catalog, order};

fn cloud(weather: Weather) -> SimulatedCloud {
    SimulatedCloud::new(Account::new(catalog(), weather, 1, began()))
}

async fn launched(cloud: &dyn Cloud, token: &str) -> MachineId {
    match cloud.launch(&order(token, "c-1/a/spot")).await.unwrap() {
        Launched::Machine { machine, .. } => machine.id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn machines_join_when_it_is_time() {
    let cloud = cloud(Weather::default());
    let mut happenings = cloud.happenings();
    let kubelets = tokio::spawn(async move {
        let started = Instant::now();
        let mut seen = Vec::new();
        while seen.len() < 4 {
            match happenings.next().await.event {
                Event::Joins(registration) => seen.push(("joins", registration.node, started.elapsed())),
                Event::Leaves { node, .. } => seen.push(("leaves", node, started.elapsed())),
                _ => {}
            }
        }
        seen
    });
    // The reader waits already when the first order comes.
    sleep(Duration::from_secs(5)).await;
    let first = launched(&cloud, "a").await;
    sleep(Duration::from_secs(10)).await;
    let second = launched(&cloud, "b").await;
    sleep(Duration::from_secs(100)).await;
    cloud.terminate(&first).await.unwrap();
    cloud.terminate(&second).await.unwrap();
    let seen = kubelets.await.unwrap();
    let seen: Vec<_> = seen.iter().map(|(what, node, at)| (*what, &**node, at.as_millis())).collect();
    assert_eq!(
        seen,
        [
            ("joins", "n-a", 50_000),
            ("joins", "n-b", 60_100),
            ("leaves", "n-a", 115_200),
            ("leaves", "n-b", 115_300)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_takes_its_time_and_may_be_given_up() {
    let slow = CallFaults { slow: Odds::nth(1), slow_by_ms: 600_000, ..CallFaults::default() };
    let cloud = cloud(Weather { calls: [(Call::Launch, slow)].into(), ..Weather::default() });
    let order = order("a", "c-1/a/spot");
    assert!(timeout(Duration::from_secs(30), cloud.launch(&order)).await.is_err());
    let started = Instant::now();
    let id = launched(&cloud, "a").await;
    assert_eq!(started.elapsed(), Duration::from_millis(100));
    assert_eq!(cloud.inspect(|account| account.records().len()), 1);
    drop(cloud.terminate(&id));
    assert!(
        cloud.inspect(|account| account.records()[0].terminations_asked.is_empty()),
        "nobody waited for it"
    );
}

#[tokio::test(start_paused = true)]
async fn pages_are_put_together() {
    let mut weather = Weather::default();
    weather.lists.page_size = 3;
    weather.lists.doubled = Odds::always();
    let lost = CallFaults { unreachable: Odds::nth(6), ..CallFaults::default() };
    weather.calls.insert(Call::List, lost);
    let cloud: Arc<dyn Cloud> = Arc::new(cloud(weather));
    for number in 0..10 {
        launched(&*cloud, &format!("t{number}")).await;
    }
    let whole = list_all(&*cloud).await;
    assert_eq!((whole.machines.len(), whole.stopped_by), (10, None));
    let part = list_all(&*cloud).await;
    assert_eq!(part.machines.len(), 3);
    assert!(matches!(part.stopped_by, Some(Refusal::Unknown(_))));
}

#[tokio::test(start_paused = true)]
async fn every_reader_takes_everything() {
    let cloud = cloud(Weather::default());
    launched(&cloud, "a").await;
    for _ in 0..2 {
        let mut happenings = cloud.happenings();
        let mut names = Vec::new();
        for _ in 0..4 {
            let happening = happenings.next().await;
            names.push(format!("{:?}", happening.event).split([' ', '(']).next().unwrap().to_owned());
        }
        assert_eq!(names, ["Launched", "Asked", "Runs", "Joins"]);
        assert!(timeout(Duration::from_hours(1), happenings.next()).await.is_err(), "there is nothing more");
    }
    assert!(cloud.notices().await.unwrap().is_empty());
    assert_eq!(cloud.catalog().await.unwrap(), catalog());
}
