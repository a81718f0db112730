//! The operator in a process of its own on a whole cluster, and what that comes to, as a line of JSON:
//!
//! - `e2e basic PODS IDLE_SECS [BERTH]`: Karpenter's basic performance test on a real control plane;
//! - `e2e large NODES PODS [BERTH]`: a large cluster, served by the in-process world;
//! - `e2e operate KUBECONFIG`: the operator alone.
//!
//! `BERTH` is the program whose `run` is measured; without it this one's `operate` is.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a scene that cannot be played is a mistake in the benchmark"
)]

mod basic;
mod large;
mod operate;
mod process;
#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../tests/e2e/stage.rs"]
mod stage;
mod workload;

use std::path::Path;

fn main() {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u32>().expect("a number");
    match words[..] {
        ["operate", kubeconfig] => operate::forever(Path::new(kubeconfig)),
        ["basic", pods, idle_secs, ref rest @ ..] => {
            println!("{}", basic::play(number(pods), number(idle_secs), rest.first().copied()));
        }
        ["large", nodes, pods, ref rest @ ..] => {
            println!("{}", large::play(number(nodes), number(pods), rest.first().copied()));
        }
        _ => panic!("e2e basic PODS IDLE_SECS [BERTH] | large NODES PODS [BERTH] | operate KUBECONFIG"),
    }
}
