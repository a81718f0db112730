//! Weather from a seed: each kind of fault is there or not, and as often as it happens to be.

use std::collections::BTreeMap;

use berth_cloud::machine::NoticeKind;

use super::fate::Fate;
use super::history::Call;
use super::weather::{
    CallFaults, Delay, JoinFaults, LaunchFaults, ListFaults, NewPrice, NoticeFaults, Odds, PriceChange,
    Reclaim, StockChange, TerminationFaults, Times, Weather, Which, Window,
};

/// More than this, and nothing would ever be done.
const PERMILLE_MAX: u64 = 300;

impl Weather {
    /// About half of all faults, each at a rate of its own, none of them after `until_ms`.
    pub fn storm(seed: u64, until_ms: u64) -> Self {
        let dice = Dice { fate: Fate(seed), until_ms };
        let calls = [Call::Launch, Call::Get, Call::List, Call::Terminate, Call::Catalog, Call::Notices];
        Self {
            times: dice.times(),
            stock: dice.stock(),
            prices: dice.prices(),
            stale_catalogs: dice.some("stale catalog", || dice.window("stale catalog")),
            calls: calls.into_iter().map(|call| (call, dice.call(call))).collect::<BTreeMap<_, _>>(),
            launches: LaunchFaults {
                underway: dice.odds("underway"),
                substituted: dice.odds("substituted"),
                untagged: dice.odds("untagged"),
                stillborn: dice.odds("stillborn"),
            },
            joins: JoinFaults {
                never: dice.odds("never joins"),
                late: dice.odds("joins late"),
                again: dice.odds("joins again"),
                namesake: dice.odds("namesake"),
                unlabelled: dice.odds("unlabelled"),
                untainted: dice.odds("untainted"),
                mislabelled: dice.odds("mislabelled"),
                ..JoinFaults::default()
            },
            terminations: TerminationFaults {
                ignored: dice.odds("termination ignored"),
                slow: dice.odds("slow termination"),
                ..TerminationFaults::default()
            },
            lists: ListFaults {
                page_size: if dice.on("small pages") { 2 } else { 100 },
                empty: dice.odds("list empty"),
                cut: dice.odds("list cut"),
                doubled: dice.odds("list doubled"),
                elsewhere: dice.odds("list elsewhere"),
            },
            reclaims: dice.reclaims(),
            notices: NoticeFaults { lost: dice.odds("notice lost"), repeated: dice.odds("notice repeated") },
            ..Self::default()
        }
    }
}

struct Dice {
    fate: Fate,
    until_ms: u64,
}

impl Dice {
    fn on(&self, kind: &str) -> bool {
        self.fate.lot(kind, 0).is_multiple_of(2)
    }

    fn below(&self, kind: &str, nth: u64, limit: u64) -> u64 {
        self.fate.lot(kind, nth) % limit.max(1)
    }

    fn some<T>(&self, kind: &str, make: impl FnOnce() -> T) -> Vec<T> {
        self.on(kind).then(make).into_iter().collect()
    }

    fn odds(&self, kind: &str) -> Odds {
        if !self.on(kind) {
            return Odds::never();
        }
        let permille = u16::try_from(1 + self.below(kind, 1, PERMILLE_MAX)).unwrap_or(1);
        Odds::permille(permille).between(0, self.until_ms)
    }

    fn window(&self, kind: &str) -> Window {
        let from_ms = self.below(kind, 1, self.until_ms);
        Window { from_ms, until_ms: from_ms + self.below(kind, 2, self.until_ms - from_ms) }
    }

    fn up_to_secs(&self, kind: &str, secs: u64) -> Delay {
        let most_ms = if self.on(kind) { self.below(kind, 1, secs * 1000) } else { 0 };
        Delay { least_ms: 0, most_ms }
    }

    fn times(&self) -> Times {
        Times {
            launch: Delay { least_ms: 5000, ..self.up_to_secs("launch takes", 90) },
            join: Delay { least_ms: 5000, ..self.up_to_secs("join takes", 120) },
            stop: self.up_to_secs("stop takes", 120),
            appear: self.up_to_secs("appearing takes", 300),
            disappear: self.up_to_secs("disappearing takes", 300),
            ..Times::default()
        }
    }

    fn call(&self, call: Call) -> CallFaults {
        let odds = |fault: &str| self.odds(&format!("{} {fault}", call.name()));
        CallFaults {
            denied: Odds::never(),
            throttled: odds("throttled"),
            retry_after_ms: self.on(call.name()).then_some(2000),
            unreachable: odds("unreachable"),
            reply_lost: odds("reply lost"),
            slow: odds("slow"),
            slow_by_ms: 60_000,
        }
    }

    /// A few shelves are emptied, and all filled again in the end.
    fn stock(&self) -> Vec<StockChange> {
        let empty = |kind: &str, which: Which| {
            let window = self.window(kind);
            let count = u32::try_from(self.below(kind, 3, 3)).unwrap_or(0);
            [
                StockChange { at_ms: window.from_ms, which: which.clone(), count },
                StockChange { at_ms: window.until_ms, which, count: u32::MAX },
            ]
        };
        let spot = Reclaim::default().which;
        let shelves = [("spot stock", spot), ("all stock", Which::default())];
        shelves
            .into_iter()
            .filter(|(kind, _)| self.on(kind))
            .flat_map(|(kind, which)| empty(kind, which))
            .collect()
    }

    fn prices(&self) -> Vec<PriceChange> {
        let changes = (1..=4).filter(|_| self.on("prices")).map(|nth| PriceChange {
            at_ms: self.below("prices at", nth, self.until_ms),
            which: Reclaim::default().which,
            price: NewPrice::Permille(500 + u32::try_from(self.below("prices", nth, 1000)).unwrap_or(0)),
        });
        changes.collect()
    }

    fn reclaims(&self) -> Vec<Reclaim> {
        let reclaim = |kind: &str, notice: NoticeKind| {
            (1..=3)
                .filter(|_| self.on(kind))
                .map(|nth| Reclaim {
                    at_ms: self.below(kind, nth, self.until_ms),
                    kind: notice,
                    share_permille: u16::try_from(1 + self.below(kind, nth + 10, 1000)).unwrap_or(1000),
                    ..Reclaim::default()
                })
                .collect::<Vec<_>>()
        };
        let kinds = [
            ("reclaim", NoticeKind::Reclaim),
            ("rebalance", NoticeKind::Rebalance),
            ("maintenance", NoticeKind::Maintenance),
        ];
        kinds.into_iter().flat_map(|(kind, notice)| reclaim(kind, notice)).collect()
    }
}
