//! `berth run` on a whole cluster, and what that comes to, as a line of JSON:
//!
//! - `e2e basic BERTH PODS IDLE_SECS`: Karpenter's basic performance test on a real control plane;
//! - `e2e large BERTH NODES PODS`: a large cluster, served by the in-process world;
//! - `e2e vpsie FAMILY BERTH LONE_PODS NODES`: a group of VPSie's on a real control plane, and VPSie over TLS.
//!
//! `BERTH` is the program.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a scene that cannot be played is a mistake in the benchmark"
)]

#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../tests/shared/account.rs"]
mod account;
mod basic;
mod large;
mod process;
#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../tests/e2e/stage.rs"]
mod stage;
mod vpsie;
mod workload;
#[path = "../../tests/e2e/yard.rs"]
mod yard;

fn main() {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u32>().expect("a number");
    match words[..] {
        ["basic", berth, pods, idle_secs] => {
            println!("{}", basic::play(berth, number(pods), number(idle_secs)));
        }
        ["large", berth, nodes, pods] => println!("{}", large::play(berth, number(nodes), number(pods))),
        ["vpsie", family, berth, lone, nodes] => {
            println!("{}", vpsie::play(family, berth, number(lone), number(nodes)));
        }
        _ => panic!(
            "e2e basic BERTH PODS IDLE_SECS | large BERTH NODES PODS | vpsie FAMILY BERTH LONE_PODS NODES"
        ),
    }
}
