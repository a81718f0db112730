//! The same seed gives the same life, to the byte. `BERTH_SEEDS=200 cargo test -p berth-world --test life` tries more.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a life that cannot be played is a mistake in the test"
)]

#[path = "../../benches/life/script.rs"]
mod script;
mod storm;

use script::{Script, play};

const SEEDS: u64 = 4;

fn seeds() -> u64 {
    std::env::var("BERTH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

fn assert_same(seed: u64, once: &str, again: &str) {
    let differ = once.lines().zip(again.lines()).enumerate().find(|(_, (left, right))| left != right);
    if let Some((line, (left, right))) = differ {
        panic!("seed {seed} lives differently from line {line}:\n  {left}\n  {right}");
    }
    assert_eq!(once.len(), again.len(), "seed {seed}");
}

#[test]
fn a_seed_is_a_life() {
    let mut traces = Vec::new();
    for seed in 0..seeds() {
        let script = Script { seed, nodes: 6, pods: 60, minutes: 10 };
        let (once, again) = (play(script, true), play(script, true));
        assert_same(seed, &once.trace, &again.trace);
        assert_eq!(once, again, "seed {seed}");
        // One node is cordoned and one is gone: the rest holds all pods.
        assert_eq!((once.nodes_ready, once.pods_running), (5, 60), "seed {seed}");
        traces.push(once.trace);
    }
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len() as u64, seeds(), "different seeds live differently");
}

/// Also with a cloud in a storm, a webhook and two clients that faults strike, of which each sees something else.
#[test]
fn a_seed_is_a_life_in_any_weather() {
    let mut lives = Vec::new();
    for seed in 0..seeds() {
        let (once, again) = (storm::play(seed), storm::play(seed));
        for (once, again) in
            [(&once.heard, &again.heard), (&once.cloud, &again.cloud), (&once.trace, &again.trace)]
        {
            assert_same(seed, once, again);
        }
        assert_eq!(once, again, "seed {seed}");
        assert!(once.pods_marked > 0, "seed {seed}: both clients have marked something");
        assert!(once.struck.len() > 10, "seed {seed}: {:?}", once.struck);
        lives.push((once.trace, once.heard));
    }
    lives.sort();
    lives.dedup();
    assert_eq!(lives.len() as u64, seeds(), "different seeds live differently");
}
