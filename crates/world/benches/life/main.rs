//! Plays a cluster's life in virtual time and prints a line about it: `life NODES PODS MINUTES SEED`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a life that cannot be played is a mistake in the benchmark"
)]

mod script;

use std::time::Instant;

use script::{Script, play};
use serde_json::json;

fn main() {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let numbers: Vec<u64> = words.iter().map(|word| word.parse().unwrap()).collect();
    let [nodes, pods, minutes, seed] = numbers[..] else { panic!("life NODES PODS MINUTES SEED") };
    let count = |number: u64| usize::try_from(number).unwrap();
    let began = Instant::now();
    let lived = play(Script { seed, nodes: count(nodes), pods: count(pods), minutes }, false);
    let microseconds = began.elapsed().as_micros();
    let line = json!({
        "nodes": nodes, "pods": pods, "minutes": minutes, "seed": seed,
        "microseconds": u64::try_from(microseconds).unwrap(), "peakKiB": peak_kib(),
        "nodesReady": lived.nodes_ready, "podsRunning": lived.pods_running, "changes": lived.changes,
    });
    println!("{line}");
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
