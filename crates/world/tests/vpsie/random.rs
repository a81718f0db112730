//! Random faults and crashes, from seeds. `BERTH_SEEDS=5000 cargo test -p berth-world --test vpsie random` tries more.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_cloud::machine::MachineId;
use berth_cloud::vpsie::Family;
use berth_world::cloud::Weather;
use berth_world::cloud::weather::{Delay, Times};
use berth_world::vpsie::{Faults, Vpsie};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use super::rig::{Claim, instant, process_here, step, taken, vpsie};

const SEEDS: u64 = 300;
/// Then the storm is over.
const STORM_MS: u64 = 20 * 60 * 1000;
/// More than anybody needs after it.
const ROUNDS_MAX: u32 = 500;
const ROUND: Duration = Duration::from_secs(20);

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// An operator that crashes, forgets what it did not write down, and gives up calls in the middle.
async fn life(seed: u64, family: Family) -> (Vpsie, Vec<Claim>) {
    let mut dice = Dice(seed);
    let appear = Delay { least_ms: 0, most_ms: dice.below(290_000) };
    let weather = Weather { times: Times { appear, ..instant() }, ..Weather::default() };
    let vpsie = vpsie(weather, seed, Faults::storm(seed, STORM_MS));
    let mut claims: Vec<Claim> =
        (0..=dice.below(5)).map(|n| Claim::new(&format!("uid-{n}"), &["small", "big"])).collect();
    let mut cloud = process_here(&vpsie, family);
    let began = Instant::now();
    for round in 0..ROUNDS_MAX {
        let in_storm = began.elapsed() < Duration::from_millis(STORM_MS);
        if claims.iter().all(|claim| claim.machine.is_some()) {
            break;
        }
        assert!(round + 1 < ROUNDS_MAX, "seed {seed} {family:?}: {claims:?}");
        if in_storm && dice.below(10) == 0 {
            cloud = process_here(&vpsie, family);
        }
        for place in 0..claims.len() {
            if claims[place].machine.is_some() {
                continue;
            }
            let known = taken(&claims);
            // What is written is the note before the launch and the machine after it: a crash in between loses what
            // was not written yet.
            let mut tried = claims[place].clone();
            let patience = if in_storm && dice.below(4) == 0 { dice.below(3000) } else { 600_000 };
            let ended = timeout(Duration::from_millis(patience), step(&cloud, &mut tried, known)).await;
            let is_written = !in_storm || dice.below(8) > 0;
            claims[place].note = tried.note;
            if ended.is_ok() && is_written {
                claims[place].machine = tried.machine;
            } else if !is_written {
                cloud = process_here(&vpsie, family);
            }
        }
        sleep(ROUND).await;
    }
    (vpsie, claims)
}

fn seeds() -> u64 {
    std::env::var("BERTH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn one_machine_for_each_claim_whatever_happens() {
    for seed in 0..seeds() {
        let family = Family::ALL[usize::try_from(seed % 3).unwrap()];
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (vpsie, claims) = runtime.block_on(life(seed, family));
        let mut owners: BTreeMap<MachineId, usize> = BTreeMap::new();
        for claim in &claims {
            *owners.entry(claim.machine.clone().unwrap()).or_default() += 1;
        }
        let bought: BTreeMap<MachineId, usize> = vpsie.cloud().inspect(|account| {
            account.records().iter().map(|record| (record.machine.id.clone(), 1)).collect()
        });
        assert_eq!(owners, bought, "seed {seed} {family:?}: owned and bought");
        let most = vpsie.most_calls_in_a_minute();
        assert!(most <= 100, "seed {seed}: {most} calls in a minute");
        if family != Family::Managed {
            let tokens: Vec<String> = vpsie.cloud().inspect(|account| {
                let tokens = account.records().iter().filter_map(|record| record.machine.token.as_ref());
                tokens.map(ToString::to_string).filter(|token| token.contains('~')).collect()
            });
            assert!(tokens.is_empty(), "seed {seed}: {tokens:?}");
        }
    }
}
