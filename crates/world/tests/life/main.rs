//! The same seed gives the same life, to the byte. `BERTH_SEEDS=200 cargo test -p berth-world --test life` tries more.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a life that cannot be played is a mistake in the test"
)]

#[path = "../../benches/life/script.rs"]
mod script;

use script::{Script, play};

const SEEDS: u64 = 4;

fn seeds() -> u64 {
    std::env::var("BERTH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn a_seed_is_a_life() {
    let mut traces = Vec::new();
    for seed in 0..seeds() {
        let script = Script { seed, nodes: 6, pods: 60, minutes: 10 };
        let (once, again) = (play(script, true), play(script, true));
        if let Some((line, (left, right))) =
            once.trace.lines().zip(again.trace.lines()).enumerate().find(|(_, (left, right))| left != right)
        {
            panic!("seed {seed} lives differently from line {line}:\n  {left}\n  {right}");
        }
        assert_eq!(once, again, "seed {seed}");
        // One node is cordoned and one is gone: the rest holds all pods.
        assert_eq!((once.nodes_ready, once.pods_running), (5, 60), "seed {seed}");
        traces.push(once.trace);
    }
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len() as u64, seeds(), "different seeds live differently");
}
