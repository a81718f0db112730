//! Long runs in storms: the same seed gives the same history, and some things are true in any weather.

use std::collections::BTreeMap;

use berth_cloud::machine::MachineState;

use super::super::weather::{Delay, Odds, Reclaim, Weather};
use super::super::{Account, Ending, Event};
use super::{Play, began, catalog, order};
use crate::cloud::account::later;
use crate::cloud::fate::Fate;

const STORM_MS: u64 = 1_200_000;

/// Half an hour of calls, drawn from the seed.
fn run(weather_seed: u64, seed: u64) -> Play {
    let mut play = Play::new(Weather::storm(weather_seed, STORM_MS), seed);
    let dice = Fate(seed);
    for second in 0..1800 {
        let drawn = dice.lot("call", second);
        let about = (drawn >> 8) % 40;
        let line = match drawn % 12 {
            0 => format!("{second} launch t{about} c-1/a/spot,c-2/b/spot,c-1/b/on-demand"),
            1 => format!("{second} get m{about}"),
            2 => format!("{second} list"),
            3 => format!("{second} list on"),
            4 => format!("{second} terminate m{about}"),
            5 => format!("{second} notices"),
            6 => format!("{second} price c-1/a/spot"),
            _ => continue,
        };
        play.step(&line);
    }
    play
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let mut different = 0;
    for seed in 0..40 {
        let (one, two) = (run(seed, seed), run(seed, seed));
        assert_eq!(one.text, two.text, "seed {seed}");
        assert_eq!(one.account.history(), two.account.history(), "seed {seed}");
        assert_eq!(one.account.records(), two.account.records(), "seed {seed}");
        different += usize::from(one.text != run(seed, seed + 1).text);
    }
    assert!(different > 35, "{different} of 40 runs depend on the seed");
}

#[test]
fn what_holds_in_any_weather() {
    for seed in 0..100 {
        let account = run(seed, seed).account;
        let history = account.history();
        assert!(history.is_sorted_by_key(|happening| happening.at), "seed {seed}: time goes back");

        let mut by_token: BTreeMap<&str, usize> = BTreeMap::new();
        for purchase in account.records().iter().filter_map(|record| record.purchase.as_ref()) {
            *by_token.entry(purchase.order.token.as_str()).or_insert(0) += 1;
        }
        assert!(by_token.values().all(|count| *count == 1), "seed {seed}: two machines for a token");

        let mut nodes: BTreeMap<&str, bool> = BTreeMap::new();
        let mut lives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for happening in history {
            let (id, now) = match &happening.event {
                Event::Launched { machine } => (machine, "launched"),
                Event::Runs { machine } => (machine, "runs"),
                Event::Ends { machine, .. } => (machine, "ends"),
                Event::Joins(registration) => {
                    let was_in = nodes.insert(registration.machine.as_str(), true);
                    assert_ne!(was_in, Some(true), "seed {seed}: joins while it is there");
                    let life = &lives[registration.machine.as_str()];
                    assert_eq!(life.last(), Some(&"runs"), "seed {seed}: joins while it does not run");
                    continue;
                }
                Event::Leaves { machine, .. } => {
                    assert_eq!(
                        nodes.insert(machine.as_str(), false),
                        Some(true),
                        "seed {seed}: leaves first"
                    );
                    continue;
                }
                Event::Asked { .. } | Event::Noticed { .. } => continue,
            };
            lives.entry(id.as_str()).or_default().push(now);
        }
        let legal =
            [&["launched"][..], &["launched", "runs"], &["launched", "ends"], &["launched", "runs", "ends"]];
        for record in account.records() {
            let life = &lives[record.machine.id.as_str()];
            assert!(legal.contains(&&life[..]), "seed {seed}: {life:?}");
            assert_eq!(life.last() == Some(&"ends"), record.machine.state == MachineState::Gone);
            assert_eq!(record.ended.is_some(), record.machine.state == MachineState::Gone);
        }
    }
}

/// Otherwise the storms would prove little.
#[test]
fn storms_bring_everything() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..40 {
        for line in run(seed, seed).text.lines() {
            for word in [
                "underway",
                "joins",
                "leaves",
                "Reclaim",
                "Rebalance",
                "Maintenance",
                "not told",
                "Stillborn",
                "Reclaimed",
                "Terminated",
                "throttled",
                "out of stock",
                "lost",
                "reached",
                "and more",
                ":-:",
                "= []",
            ] {
                if line.contains(word) {
                    *seen.entry(word.to_owned()).or_insert(0) += 1;
                }
            }
        }
    }
    assert_eq!(seen.len(), 17, "{seen:?}");
}

#[test]
fn a_share_is_taken_from_the_pool_and_differs_by_seed() {
    let chosen = |seed: u64, share_permille: u16| {
        let reclaim = Reclaim { at_ms: 10_000, share_permille, ..Reclaim::default() };
        let weather = Weather { reclaims: vec![reclaim], ..Weather::default() };
        let mut account = Account::new(catalog(), weather, seed, began());
        for number in 0..50 {
            account.launch(&order(&format!("t{number}"), "c-1/a/spot"), began()).answer.unwrap();
        }
        account.advance(later(began(), 200_000));
        let ended = account
            .records()
            .iter()
            .enumerate()
            .filter(|(_, record)| record.ended.is_some_and(|(_, ending)| ending == Ending::Reclaimed));
        ended.map(|(place, _)| place).collect::<Vec<_>>()
    };
    for (share_permille, count) in [(0, 0), (1, 1), (300, 15), (301, 16), (1000, 50)] {
        assert_eq!(chosen(1, share_permille).len(), count, "{share_permille}");
    }
    assert_ne!(chosen(1, 300), chosen(2, 300));
}

/// One call more must not change what happens to machines.
#[test]
fn a_machines_fate_is_its_own() {
    let mut weather = Weather::default();
    weather.times.launch = Delay { least_ms: 1000, most_ms: 60_000 };
    weather.joins.never = Odds::permille(500);
    let lives = |with_lists: bool| {
        let mut account = Account::new(catalog(), weather.clone(), 5, began());
        for number in 0..20 {
            account.launch(&order(&format!("t{number}"), "c-1/a/spot"), began()).answer.unwrap();
            if with_lists {
                account.list(None, began()).answer.unwrap();
            }
        }
        account.advance(later(began(), 600_000));
        let joins = account.history().iter().filter(|happening| matches!(happening.event, Event::Joins(_)));
        joins.cloned().collect::<Vec<_>>()
    };
    assert_eq!(lives(false), lives(true));
    assert!((3..18).contains(&lives(false).len()));
}

/// Whoever asks with a clock that went back is answered as of the latest time.
#[test]
fn time_never_goes_back() {
    let mut account = Account::new(catalog(), Weather::default(), 1, began());
    account.launch(&order("a", "c-1/a/spot"), later(began(), 60_000)).answer.unwrap();
    account.launch(&order("b", "c-1/a/spot"), began()).answer.unwrap();
    account.advance(later(began(), 80_000));
    assert!(account.records().iter().all(|record| record.machine.state == MachineState::Running));
    assert_eq!(account.next_due(), Some(later(began(), 105_000)));
}
