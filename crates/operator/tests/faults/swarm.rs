//! Much goes wrong at once, as the seed draws it.

use berth_world::cloud::weather::Odds;
use berth_world::faults::FaultPlan;
use berth_world::vpsie::Faults;
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::leaders::Leaders;
use crate::lots::Lots;
use crate::play::{FIRST, SECOND};

/// Most of them matter in the first minute.
const FAULTS_MAX: u64 = 6;

/// After so long VPSie is well again.
pub(crate) const STORM_MS: u64 = 15 * 60 * 1000;

/// What goes wrong between the operators and the API.
pub(crate) fn faults(dialect: Dialect, seed: u64) -> FaultPlan {
    let mut lots = Lots::new(seed, 1);
    let (pools, claims) = (dialect.pools(), dialect.claims());
    let mut lines = Vec::new();
    for client in [FIRST, SECOND] {
        for _ in 0..lots.below(FAULTS_MAX + 1) {
            let nth = 1 + lots.below(40);
            let ms = 10 + lots.below(12_000);
            let secs = 1 + lots.below(90);
            let few = lots.below(10);
            lines.push(match lots.below(14) {
                0 => format!("{client} before any * #{nth}: delay {ms}ms"),
                1 => format!("{client} before write * #{nth}: delay {ms}ms"),
                2 => format!("{client} after write * #{nth}: delay {ms}ms"),
                3 => format!("{client} before write * #{nth}: status 409"),
                4 => format!("{client} after write * #{nth}: lost"),
                5 => format!("{client} before write * #{nth}: lost"),
                6 => format!("{client} after write * #{nth}: crash"),
                7 => format!("{client} after write * #{nth}: freeze {secs}s"),
                8 => format!("{client} before list {claims} #{nth}: partial {few}"),
                9 => format!("{client} before event {claims} #{nth}: drop"),
                10 => format!("{client} before event {pools} #{}: drop", 1 + few),
                11 => format!("{client} after write * #{nth}: status 504"),
                12 => format!("{client} before event {claims} #{nth}: end"),
                _ => format!("{client} before event {claims} #{nth}: delay {ms}ms"),
            });
        }
    }
    lines.join("\n").parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Two that both lead; at VPSie in one of four.
pub(crate) fn leaders(dialect: Dialect, seed: u64) -> Option<Leaders> {
    let mut lots = Lots::new(seed, 2);
    let first = 1 + lots.below(2);
    let both = Leaders::Both { first, second: 1 + lots.below(2) };
    (!dialect.is_vpsie() || lots.below(4) == 0).then_some(both)
}

/// What goes wrong with VPSie's API: a little of everything, and perhaps nothing else for minutes.
pub(crate) fn vpsie(seed: u64) -> Faults {
    let mut lots = Lots::new(seed, 4);
    let mut faults = Faults::storm(seed, STORM_MS);
    let from_ms = lots.below(8 * 60_000);
    let lasting = Odds::always().between(from_ms, from_ms + 30_000 + lots.below(6 * 60_000));
    let which = lots.below(4);
    for deed in faults.deeds.values_mut() {
        match which {
            0 => deed.failed = lasting.clone(),
            1 => deed.throttled = lasting.clone(),
            2 => deed.lost = lasting.clone(),
            _ => {}
        }
    }
    faults
}

pub(crate) fn weather(dialect: Dialect, seed: u64) -> Value {
    let mut lots = Lots::new(seed, 3);
    if dialect.is_vpsie() {
        let machines_max = if lots.below(3) == 0 { lots.below(4) } else { 100 };
        return json!({
            "times": {
                "answer": { "leastMs": 10, "mostMs": 10 + lots.below(3000) },
                "appear": { "leastMs": 0, "mostMs": lots.below(280_000) },
                "disappear": { "leastMs": 0, "mostMs": lots.below(60_000) },
            },
            "quotas": [
                { "name": "servers", "machinesMax": machines_max },
                { "name": "servers", "atMs": lots.below(STORM_MS), "machinesMax": 100 },
            ],
        });
    }
    json!({
        "times": { "answer": { "leastMs": 10, "mostMs": 10 + lots.below(5000) } },
        "calls": { "launch": { "replyLost": { "permille": lots.below(200) } } },
    })
}
