//! Where things can go wrong: all points of a workload for each kind of fault, by what a run without any did.

use berth_cloud::vpsie::Family;
use berth_world::cloud::Call;
use berth_world::vpsie::Deed as Request;
use serde_json::{Value, json};

use crate::account::DATACENTER;
use crate::cloud::CloudCrash;
use crate::dialect::Dialect;
use crate::faults::{Case, Injection};
use crate::leaders::Leaders;
use crate::meddling::{Deed, Meddler, Poison};
use crate::truth::Counts;
use crate::workloads::Workload;

/// The kinds of faults that there are for a dialect.
pub(crate) fn kinds(dialect: Dialect) -> &'static [u8] {
    match dialect {
        Dialect::Karpenter => &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22, 23],
        Dialect::Vpsie(_) => &[1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22, 23, 24],
    }
}

/// All cases of a kind.
pub(crate) fn cases(workload: Workload, kind: u8, counts: &Counts) -> Vec<Case> {
    let dialect = workload.dialect();
    let injections = match kind {
        1 => crashes(counts),
        2 => at_writes(counts, &["before * #N: status 409", "before * #Nx3: status 409"])
            .into_iter()
            .chain(lasting_conflicts(dialect))
            .collect(),
        3 => expired(dialect, counts),
        4 => throttled(counts),
        5 => failing(counts),
        6 => slow(dialect, counts),
        7 => stale(dialect, counts),
        8 => misheard(dialect, counts),
        10 => launches_lost(counts),
        11 => [30, 120, 300].map(|secs| weather(json!({ "times": { "appear": delay(secs) } }))).to_vec(),
        12 => terminations(counts),
        13 if dialect.is_vpsie() => lists_of_vpsie(),
        13 => lists(),
        14 if dialect.is_vpsie() => quotas(),
        14 => stock(),
        // Another size than was asked for is another end of the workload.
        15 if dialect.is_vpsie() => sold(counts, &["underway"]),
        15 => sold(counts, &["substituted", "underway"]),
        16 if dialect.is_vpsie() => joins(counts, &[&JOINS[..], &STRANGE_JOINS[..]].concat()),
        16 => joins(counts, &JOINS),
        17 => meddlers(&Deed::KUBELETS, counts.launches),
        18 => reclaims(workload),
        19 => leaders(counts),
        22 if dialect.is_vpsie() => {
            [meddlers(&Deed::RACES, 2), meddlers(&Deed::RACES_WITH_CHECKS, 2)].concat()
        }
        22 => meddlers(&Deed::RACES, 3),
        23 => Poison::of(dialect).map(Injection::Poison).collect(),
        24 => vpsie(dialect, counts),
        _ => Vec::new(),
    };
    injections.into_iter().map(|injection| Case { workload, seed: 1, kind, injection }).collect()
}

fn api(line: &str) -> Injection {
    Injection::Api(line.parse().unwrap_or_else(|error| panic!("{error}")))
}

fn weather(change: Value) -> Injection {
    Injection::Weather(change)
}

fn delay(secs: u64) -> Value {
    json!({ "leastMs": secs * 1000, "mostMs": secs * 1000 })
}

const READS: [&str; 3] = ["get", "list", "watch"];

/// Each of the harms, given as `before * #N: status 409`, at each write.
fn at_writes(counts: &Counts, harms: &[&str]) -> Vec<Injection> {
    let mut injections = Vec::new();
    for nth in 1..=counts.writes {
        for harm in harms {
            let (side, rest) = harm.split_once(' ').expect("a side");
            injections.push(api(&format!("berth {side} write {}", rest.replace('N', &nth.to_string()))));
        }
    }
    injections
}

/// Each of the harms, given as `before #N: lost`, at the first few of each kind of reads with one of the verbs.
fn at_reads(counts: &Counts, verbs: &[&str], each_max: u64, harms: &[&str]) -> Vec<Injection> {
    let mut injections = Vec::new();
    let reads = counts.asked.iter().filter(|((verb, _), _)| verbs.contains(&&**verb));
    for ((verb, resource), count) in reads {
        for nth in 1..=(*count).min(each_max) {
            for harm in harms {
                let (side, rest) = harm.split_once(' ').expect("a side");
                let rest = rest.replace('N', &nth.to_string());
                injections.push(api(&format!("berth {side} {verb} {resource} {rest}")));
            }
        }
    }
    injections
}

/// Each of the harms at the events of each kind of objects, at most so many.
fn at_events(dialect: Dialect, counts: &Counts, each_max: u64, harms: &[&str]) -> Vec<Injection> {
    let mut injections = Vec::new();
    for resource in dialect.judged() {
        let count = counts.changes.get(resource).copied().unwrap_or(0);
        let step = count.div_ceil(each_max).max(1);
        for nth in (1..=count).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            for harm in harms {
                injections.push(api(&format!("berth before event {resource} #{nth}: {harm}")));
            }
        }
    }
    injections
}

/// F1: the operator ends before each of its writes, and after each before it hears of it.
fn crashes(counts: &Counts) -> Vec<Injection> {
    let mut injections = at_writes(counts, &["before * #N: crash", "after * #N: crash"]);
    for (call, count) in [(Call::Launch, counts.launches), (Call::Terminate, counts.terminations)] {
        for nth in 1..=count {
            for is_after in [false, true] {
                injections.push(Injection::Cloud(CloudCrash { call, nth, is_after }));
            }
        }
    }
    injections
}

fn lasting_conflicts(dialect: Dialect) -> Vec<Injection> {
    let (pools, claims) = (dialect.pools(), dialect.claims());
    let lasting = [format!("patch {pools}"), format!("patch {claims}/status")];
    let lasting = lasting.into_iter().chain(["patch nodes", "write *"].map(str::to_owned));
    lasting.map(|deed| api(&format!("berth before {deed} #2x60: status 409"))).collect()
}

fn expired(dialect: Dialect, counts: &Counts) -> Vec<Injection> {
    let mut injections = at_events(dialect, counts, 20, &["status 410"]);
    injections.extend(at_reads(counts, &READS, 2, &["before #N: status 410"]));
    injections
}

fn throttled(counts: &Counts) -> Vec<Injection> {
    let mut injections = at_writes(counts, &["before * #N: status 429", "before * #N: status 429 retry 5s"]);
    injections.extend(at_reads(
        counts,
        &READS,
        3,
        &["before #N: status 429 retry 5s", "before #Nx10: status 429"],
    ));
    injections.push(api("berth before create pods/eviction #1x30: status 429"));
    injections
}

fn failing(counts: &Counts) -> Vec<Injection> {
    let mut injections = at_writes(
        counts,
        &[
            "before * #N: status 500",
            "before * #Nx2: status 502",
            "before * #Nx5: status 503",
            "before * #N: lost",
            "after * #N: lost",
            "after * #N: status 504",
            "after * #Nx2: status 500",
        ],
    );
    let harms =
        ["before #N: status 504", "before #N: status 502", "before #Nx20: status 503", "before #N: lost"];
    injections.extend(at_reads(counts, &READS, 3, &harms));
    injections
}

fn slow(dialect: Dialect, counts: &Counts) -> Vec<Injection> {
    let harms =
        ["before * #N: delay 15s", "before * #N: delay 30s", "after * #N: delay 30s", "after * #N: slow 30s"];
    let mut injections = at_writes(counts, &harms);
    let harms = [
        "before #N: delay 5s",
        "before #N: delay 90s",
        "before #N: delay 600s",
        "after #N: slow 5s",
        "after #N: slow 90s",
    ];
    injections.extend(at_reads(counts, &READS, 2, &harms));
    injections.extend(at_events(dialect, counts, 8, &["silence"]));
    injections
}

fn stale(dialect: Dialect, counts: &Counts) -> Vec<Injection> {
    let mut injections = at_writes(
        counts,
        &[
            "after * #N: freeze 5s",
            "after * #N: freeze 60s",
            "after * #N: freeze 600s",
            "after * #N: rewind 30 for 60s",
        ],
    );
    for nth in 1..=counts.writes {
        // One kind stands still while the others go on, each after other writes.
        let kinds = dialect.judged();
        let kind = kinds.iter().cycle().nth(usize::try_from(nth).unwrap_or(0)).copied().unwrap_or("pods");
        for secs in [60, 600] {
            injections.push(api(&format!("berth after write * #{nth}: freeze {secs}s of {kind}")));
        }
        let point = format!("berth after write * #{nth}");
        injections.push(api(&format!("{point}: rewind 30 for 120s; {point}: crash")));
    }
    injections.extend(at_reads(counts, &READS, 2, &["before #N: freeze 60s"]));
    injections.extend(at_reads(counts, &["list"], 2, &["before #N: partial 1", "before #N: partial 0"]));
    injections
}

fn misheard(dialect: Dialect, counts: &Counts) -> Vec<Injection> {
    at_events(dialect, counts, 30, &["drop", "repeat", "swap", "delay 5s", "lost", "end"])
}

/// A fault of the so many-th call of a kind, or machine.
fn nth_call(call: &str, fault: &str, nth: u64) -> Injection {
    weather(
        json!({ "calls": { call: { fault: { "nth": [nth] }, "slowByMs": 90_000, "retryAfterMs": 5000 } } }),
    )
}

fn launches_lost(counts: &Counts) -> Vec<Injection> {
    let faults = ["replyLost", "unreachable", "throttled", "denied", "slow"];
    (1..=counts.launches).flat_map(|nth| faults.map(|fault| nth_call("launch", fault, nth))).collect()
}

fn terminations(counts: &Counts) -> Vec<Injection> {
    let faults = ["replyLost", "unreachable", "throttled", "slow"];
    let mut injections = Vec::new();
    // Where no machine is ended, nothing can be wrong with that.
    if counts.terminations == 0 {
        return injections;
    }
    for nth in 1..=counts.terminations {
        injections.extend(faults.map(|fault| nth_call("terminate", fault, nth)));
        injections.push(weather(json!({ "terminations": { "ignored": { "nth": [nth] } } })));
    }
    for nth in 1..=counts.launches {
        injections.push(weather(json!({ "terminations": { "slow": { "nth": [nth] } } })));
    }
    injections.push(weather(json!({ "times": { "disappear": delay(120) } })));
    injections
}

fn lists() -> Vec<Injection> {
    let stranger = json!({
        "name": "default-1", "instanceType": "c-4x-amd64-linux", "zone": "test-zone-a",
        "capacityType": "on-demand",
    });
    let mut injections = vec![
        weather(json!({ "strangers": [stranger] })),
        weather(json!({ "lists": { "pageSize": 2 } })),
        weather(json!({ "lists": { "pageSize": 1, "cut": { "permille": 500 } } })),
        weather(json!({ "lists": { "doubled": { "permille": 1000 } } })),
        weather(json!({ "lists": { "elsewhere": { "permille": 1000 } }, "strangers": [stranger] })),
        weather(json!({ "launches": { "untagged": { "permille": 1000 } } })),
    ];
    for nth in 1..=8_u64 {
        injections.push(weather(json!({ "lists": { "empty": { "nth": [nth] } } })));
        injections.push(weather(json!({ "lists": { "empty": { "nth": [nth, nth + 1, nth + 2] } } })));
        injections
            .push(weather(json!({ "lists": { "pageSize": 1, "cut": { "nth": [nth, nth + 1, nth + 2] } } })));
        injections.push(nth_call("list", "unreachable", nth));
    }
    injections
}

/// F13 at VPSie, where a list that does not add up is none: what lies does so for a time.
fn lists_of_vpsie() -> Vec<Injection> {
    let stranger = json!({
        "name": "workers-1", "instanceType": "small", "zone": DATACENTER, "capacityType": "on-demand",
    });
    let mut injections = vec![
        weather(json!({ "strangers": [stranger] })),
        weather(json!({ "launches": { "untagged": { "permille": 1000 } } })),
    ];
    for from_secs in [0, 30, 60, 120, 240] {
        let lasting = json!({
            "permille": 1000, "between": { "fromMs": from_secs * 1000, "untilMs": (from_secs + 60) * 1000 },
        });
        for fault in ["empty", "cut", "doubled", "elsewhere"] {
            let lists = json!({ "pageSize": 1, (fault): lasting });
            injections.push(weather(json!({ "lists": lists, "strangers": [stranger] })));
        }
    }
    for nth in 1..=8_u64 {
        injections.push(weather(json!({ "lists": { "empty": { "nth": [nth] } } })));
        injections.push(weather(json!({ "lists": { "pageSize": 1, "cut": { "nth": [nth, nth + 1] } } })));
        injections.push(nth_call("list", "unreachable", nth));
    }
    injections
}

fn stock() -> Vec<Injection> {
    let none = |of: Value, until_ms: u64| {
        weather(json!({ "stock": [{ "of": of, "count": 0 }, { "of": of, "atMs": until_ms, "count": 100 }] }))
    };
    let all = json!({});
    let mut injections = vec![
        none(all.clone(), 60_000),
        none(all.clone(), 400_000),
        none(json!({ "capacityType": "spot", "zone": "test-zone-a" }), 3_000_000),
        none(json!({ "zone": "test-zone-b" }), 3_000_000),
        none(json!({ "instanceType": "c-*" }), 3_000_000),
        weather(json!({ "quotas": [
            { "name": "all", "machinesMax": 2 }, { "name": "all", "atMs": 600_000, "machinesMax": 100 },
        ] })),
        weather(
            json!({ "withdrawals": [{ "of": { "instanceType": "c-*" }, "window": { "fromMs": 0, "untilMs": 900_000 } }] }),
        ),
    ];
    for count in [1, 2, 3] {
        injections.push(weather(
            json!({ "stock": [{ "of": all, "count": count }, { "of": all, "atMs": 500_000, "count": 100 }] }),
        ));
    }
    injections
}

/// What an account may have, and what there is, for a time.
fn quotas() -> Vec<Injection> {
    let mut injections = Vec::new();
    for until_ms in [120_000, 600_000] {
        for count in 0..4 {
            injections.push(weather(json!({ "quotas": [
                { "name": "servers", "machinesMax": count },
                { "name": "servers", "atMs": until_ms, "machinesMax": 100 },
            ] })));
            injections.push(weather(
                json!({ "stock": [{ "of": {}, "count": count }, { "of": {}, "atMs": until_ms, "count": 100 }] }),
            ));
        }
    }
    injections
}

/// F24: VPSie's API, at single requests and for minutes.
fn vpsie(dialect: Dialect, counts: &Counts) -> Vec<Injection> {
    let mut injections = Vec::new();
    let mut at_request = |deed: &str, count: u64, faults: &[&str]| {
        for nth in 1..=count {
            for fault in faults {
                let faults =
                    json!({ (*fault): { "nth": [nth] }, "retryAfterSecs": nth % 2 * 7, "slowByMs": 45_000 });
                injections.push(Injection::Vpsie(json!({ "deeds": { deed: faults } })));
            }
        }
    };
    let of_writes = [
        "lost",
        "failedAfter",
        "failed",
        "unheard",
        "garbled",
        "throttled",
        "unauthorized",
        "expired",
        "slow",
    ];
    at_request("create", counts.launches, &of_writes);
    at_request("delete", counts.terminations, &of_writes);
    at_request("sign-in", 1, &["lost", "failed", "throttled", "garbled"]);
    at_request("offers", 2, &["failed", "throttled", "garbled"]);
    at_request("look", 6, &["failed", "throttled", "garbled", "expired"]);
    let groups = if dialect == Dialect::Vpsie(Family::Managed) { 2 } else { 1 };
    at_request("groups", groups, &["failed", "garbled", "slow"]);
    at_request("add-group", 1, &["lost", "failed", "failedAfter", "throttled"]);
    for from_secs in [0, 5, 30, 60, 120, 240] {
        for secs in [60, 300, 600] {
            let window = json!({ "fromMs": from_secs * 1000, "untilMs": (from_secs + secs) * 1000 });
            for fault in ["failed", "throttled", "unheard", "lost"] {
                let of_all = json!({ fault: { "permille": 1000, "between": window } });
                let deeds = Request::ALL.map(|deed| (json!(deed), of_all.clone()));
                let deeds: serde_json::Map<String, Value> = deeds
                    .into_iter()
                    .filter_map(|(deed, of)| Some((deed.as_str()?.to_owned(), of)))
                    .collect();
                injections.push(Injection::Vpsie(json!({ "deeds": deeds })));
            }
        }
    }
    injections
}

fn sold(counts: &Counts, faults: &[&str]) -> Vec<Injection> {
    let mut injections = Vec::new();
    for nth in 1..=counts.launches {
        for fault in faults {
            injections.push(weather(json!({ "launches": { (*fault): { "nth": [nth] } } })));
        }
    }
    injections
}

const JOINS: [&str; 7] = ["never", "late", "again", "namesake", "unlabelled", "untainted", "mislabelled"];
/// Of kubelets that do not say on which machine they run.
const STRANGE_JOINS: [&str; 3] = ["renamed", "unidentified", "misidentified"];

fn joins(counts: &Counts, faults: &[&str]) -> Vec<Injection> {
    let mut injections = Vec::new();
    for nth in 1..=counts.launches {
        let joins = faults.iter().map(|fault| weather(json!({ "joins": { (*fault): { "nth": [nth] } } })));
        injections.extend(joins);
        injections.push(weather(json!({ "launches": { "stillborn": { "nth": [nth] } } })));
    }
    injections
}

fn reclaims(workload: Workload) -> Vec<Injection> {
    let mut injections = Vec::new();
    let zone = if workload.dialect().is_vpsie() { DATACENTER } else { "test-zone-a" };
    for at_secs in (20..400).step_by(20) {
        for change in [
            json!({ "sharePermille": 1, "machinesMax": 1 }),
            json!({ "sharePermille": 300 }),
            json!({ "sharePermille": 1000, "of": { "zone": zone } }),
        ] {
            let mut reclaim = json!({ "atMs": at_secs * 1000, "of": {}, "noticeMs": 120_000 });
            if let (Value::Object(reclaim), Value::Object(change)) = (&mut reclaim, change) {
                reclaim.extend(change);
            }
            injections.push(weather(json!({ "reclaims": [reclaim] })));
            for fault in ["lost", "repeated"] {
                injections.push(weather(
                    json!({ "reclaims": [reclaim], "notices": { fault: { "permille": 1000 } } }),
                ));
            }
        }
    }
    injections
}

fn leaders(counts: &Counts) -> Vec<Injection> {
    let mut injections = vec![Leaders::Both { first: 1, second: 1 }, Leaders::Both { first: 1, second: 2 }];
    for nth in 1..=counts.writes {
        injections.extend([30, 120].map(|secs| Leaders::Paused { nth, secs }));
        injections.push(Leaders::Lost { nth });
    }
    injections.into_iter().map(Injection::Leaders).collect()
}

fn meddlers(deeds: &[Deed], victims: u64) -> Vec<Injection> {
    let mut injections = Vec::new();
    for deed in deeds {
        for nth in 1..=usize::try_from(victims).unwrap_or(usize::MAX) {
            injections.push(Injection::Meddle(Meddler { deed: *deed, nth }));
        }
    }
    injections
}
