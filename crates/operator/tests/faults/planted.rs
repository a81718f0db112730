//! Which runs catch which of the planted bugs.

use berth_operator::PlantedBug;
use serde_json::json;

use crate::faults::{Case, Injection};
use crate::leaders::Leaders;
use crate::meddling::{Deed, Meddler};
use crate::play;
use crate::workloads::Workload;

/// The runs that should catch it, the likeliest first.
fn runs(bug: PlantedBug) -> Vec<(Workload, Injection)> {
    let one = |workload, injection| vec![(workload, injection)];
    match bug {
        PlantedBug::MarkAfterwards | PlantedBug::InFlightIgnored | PlantedBug::TwoCounts => {
            one(Workload::W1, Injection::Nothing)
        }
        PlantedBug::CountNodes => one(Workload::W2, Injection::Nothing),
        PlantedBug::QueueInMemory
        | PlantedBug::DecideBeforeTaint
        | PlantedBug::DeleteByCount
        | PlantedBug::DeletePods => one(Workload::W4, Injection::Nothing),
        PlantedBug::NoReservation => {
            let late = |nth: u64| format!("berth before event nodeclaims.karpenter.sh #{nth}: delay 60s");
            let late = (1..=5).map(|nth| Injection::Api(late(nth).parse().expect("a fault")));
            late.map(|injection| (Workload::W2, injection)).collect()
        }
        PlantedBug::OneList => {
            // The first joins late, and one list meanwhile ends before it should.
            let weather = json!({
                "joins": { "late": { "nth": [1, 2, 3] } },
                "lists": {
                    "pageSize": 1,
                    "cut": { "permille": 1000, "between": { "fromMs": 400_000, "untilMs": 450_000 } },
                },
            });
            one(Workload::W1, Injection::Weather(weather))
        }
        PlantedBug::GhostEntry => {
            let at_once = Meddler { deed: Deed::ClaimDeletedAtOnce, nth: 1 };
            one(Workload::W1, Injection::Meddle(at_once))
        }
        PlantedBug::LeadRemembered => {
            let both = Injection::Leaders(Leaders::Both { first: 1, second: 2 });
            [Workload::W1, Workload::W2, Workload::W4].map(|workload| (workload, both.clone())).to_vec()
        }
        PlantedBug::NewToken => {
            let lost = json!({ "calls": { "launch": { "replyLost": { "nth": [1] } } } });
            one(Workload::W1, Injection::Weather(lost))
        }
        PlantedBug::LaunchUnnoted => one(Workload::V1Managed, Injection::Nothing),
        PlantedBug::ChecksSkipped => one(Workload::V2Servers, Injection::Nothing),
        PlantedBug::FailureIsGone => {
            let window = json!({ "fromMs": 0, "untilMs": 1_200_000 });
            let failing = json!({ "permille": 1000, "between": window });
            let failing = json!({ "deeds": { "delete": { "failed": failing } } });
            one(Workload::V2Managed, Injection::Vpsie(failing))
        }
        PlantedBug::DrainGivenUp => {
            let refused = "berth before create pods/eviction #1: status 429";
            one(Workload::V2Managed, Injection::Api(refused.parse().expect("a fault")))
        }
    }
}

/// Which run caught it, and by which invariant.
pub(crate) fn caught(bug: PlantedBug) -> Option<String> {
    let catalog = play::catalog();
    PlantedBug::plant(Some(bug));
    let found = runs(bug).into_iter().find_map(|(workload, injection)| {
        let kind = u8::from(injection != Injection::Nothing);
        let case = Case { workload, seed: 1, kind, injection };
        let broken = play::play(&case, &catalog).broken?;
        Some(format!("{bug:?}: {broken} in {case}"))
    });
    PlantedBug::plant(None);
    found
}
