//! What a simulated cloud is like. By default nothing goes wrong.
//!
//! Times are milliseconds: how long something takes, or how long after the cloud's beginning it happens.
//! Calls are counted by kind from 1, and so are the machines that were bought.

use std::collections::{BTreeMap, BTreeSet};

use berth_cloud::machine::NoticeKind;
use berth_core::catalog::CapacityType;
use berth_core::names::{Labels, Text};
use serde::{Deserialize, Serialize};

use super::history::Call;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Weather {
    pub times: Times,
    pub stock: Vec<StockChange>,
    pub quotas: Vec<Quota>,
    pub prices: Vec<PriceChange>,
    pub withdrawals: Vec<Withdrawal>,
    /// While one lasts, the catalog is told as it was when it began.
    pub stale_catalogs: Vec<Window>,
    pub calls: BTreeMap<Call, CallFaults>,
    pub launches: LaunchFaults,
    pub joins: JoinFaults,
    pub terminations: TerminationFaults,
    pub lists: ListFaults,
    pub reclaims: Vec<Reclaim>,
    pub notices: NoticeFaults,
    /// Machines of others in the same account.
    pub strangers: Vec<Stranger>,
}

/// How long things take that go well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Times {
    /// From a call to its answer. What was asked is done at once; only the answer takes its time.
    pub answer: Delay,
    /// From the order until the machine runs.
    pub launch: Delay,
    /// From then until its kubelet registers the node.
    pub join: Delay,
    /// From the end of its kubelet until the machine is gone.
    pub stop: Delay,
    /// Until a new machine can be got and listed.
    pub appear: Delay,
    /// How long a machine that is gone is still shown as it was.
    pub disappear: Delay,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            answer: Delay { least_ms: 100, most_ms: 100 },
            launch: Delay::secs(20),
            join: Delay::secs(25),
            stop: Delay::secs(10),
            appear: Delay::secs(0),
            disappear: Delay::secs(0),
        }
    }
}

/// Drawn evenly between the two, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Delay {
    pub least_ms: u64,
    pub most_ms: u64,
}

impl Delay {
    pub const fn secs(secs: u64) -> Self {
        let ms = secs.saturating_mul(1000);
        Self { least_ms: ms, most_ms: ms }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Window {
    pub from_ms: u64,
    /// No longer included.
    pub until_ms: u64,
}

impl Window {
    pub fn holds(self, at_ms: u64) -> bool {
        (self.from_ms..self.until_ms).contains(&at_ms)
    }
}

/// How often something goes wrong: a share of all, those that are named by their number, or both; always, or
/// within a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Odds {
    pub permille: u16,
    pub nth: BTreeSet<u64>,
    pub between: Option<Window>,
}

impl Odds {
    pub fn never() -> Self {
        Self::default()
    }

    pub fn always() -> Self {
        Self::permille(1000)
    }

    pub fn permille(permille: u16) -> Self {
        Self { permille, ..Self::default() }
    }

    pub fn nth(nth: u64) -> Self {
        Self { nth: BTreeSet::from([nth]), ..Self::default() }
    }

    #[must_use]
    pub fn between(self, from_ms: u64, until_ms: u64) -> Self {
        Self { between: Some(Window { from_ms, until_ms }), ..self }
    }
}

/// Offerings; what is `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Which {
    /// A name, or the beginning of names with a `*` after it (`c-*`).
    pub instance_type: Option<Text>,
    pub zone: Option<Text>,
    pub capacity_type: Option<CapacityType>,
}

impl Which {
    pub fn matches(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> bool {
        let of_type = |wanted: &Text| match wanted.strip_suffix('*') {
            Some(beginning) => instance_type.starts_with(beginning),
            None => **wanted == *instance_type,
        };
        self.instance_type.as_ref().is_none_or(of_type)
            && self.zone.as_ref().is_none_or(|wanted| **wanted == *zone)
            && self.capacity_type.is_none_or(|wanted| wanted == capacity_type)
    }
}

/// From then on the cloud has so many more of each of these offerings. Machines that end are put back.
/// What nothing is said about never runs out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StockChange {
    pub at_ms: u64,
    #[serde(rename = "of")]
    pub which: Which,
    pub count: u32,
}

/// What the account may have at a time. From `at_ms` on it replaces the quota of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Quota {
    pub name: Text,
    pub at_ms: u64,
    #[serde(rename = "of")]
    pub which: Which,
    pub machines_max: Option<u32>,
    pub vcpus_max: Option<u32>,
}

/// From then on these offerings cost something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PriceChange {
    pub at_ms: u64,
    #[serde(rename = "of", default)]
    pub which: Which,
    pub price: NewPrice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NewPrice {
    /// So much of what it costs just then.
    Permille(u32),
    /// Nothing keeps it from being absurd: zero, negative, a million.
    MicroUsd(i64),
}

/// For that time the offerings are neither in the catalog nor for sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Withdrawal {
    #[serde(rename = "of", default)]
    pub which: Which,
    pub window: Window,
}

/// What can go wrong with a call, whatever it asks. By the number of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CallFaults {
    pub denied: Odds,
    pub throttled: Odds,
    pub retry_after_ms: Option<u64>,
    /// It never reaches the cloud.
    pub unreachable: Odds,
    /// It is done, and the answer is lost.
    pub reply_lost: Odds,
    /// The answer takes `slow_by_ms` longer.
    pub slow: Odds,
    pub slow_by_ms: u64,
}

/// By the number of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LaunchFaults {
    /// No machine is named in the answer until it runs.
    pub underway: Odds,
    /// Another type is sold than any that was asked for.
    pub substituted: Odds,
    /// Its tags, and so its token, are not shown.
    pub untagged: Odds,
    /// It is sold, and ends instead of running.
    pub stillborn: Odds,
}

/// By the number of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct JoinFaults {
    pub never: Odds,
    /// So much later than usual.
    pub late: Odds,
    pub late_by: Delay,
    /// The node leaves and registers once more.
    pub again: Odds,
    pub again_after: Delay,
    /// It has the host name of the machine bought before it.
    pub namesake: Odds,
    /// Its kubelet calls its node something else.
    pub renamed: Odds,
    /// Its kubelet gives its node no provider id.
    pub unidentified: Odds,
    /// Or one that says nothing of the machine.
    pub misidentified: Odds,
    /// The labels of the order are missing.
    pub unlabelled: Odds,
    /// The taints of the order are missing.
    pub untainted: Odds,
    /// The labels of zone and capacity type are wrong.
    pub mislabelled: Odds,
}

impl Default for JoinFaults {
    fn default() -> Self {
        Self {
            never: Odds::never(),
            late: Odds::never(),
            // Beyond the quarter of an hour after which one gives up.
            late_by: Delay { least_ms: 600_000, most_ms: 1_200_000 },
            again: Odds::never(),
            again_after: Delay::secs(60),
            namesake: Odds::never(),
            renamed: Odds::never(),
            unidentified: Odds::never(),
            misidentified: Odds::never(),
            unlabelled: Odds::never(),
            untainted: Odds::never(),
            mislabelled: Odds::never(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TerminationFaults {
    /// Accepted, and nothing comes of it. By the number of the call.
    pub ignored: Odds,
    /// Accepted, and the machine goes on running for so long. By the number of the machine.
    pub slow: Odds,
    pub slow_by: Delay,
}

impl Default for TerminationFaults {
    fn default() -> Self {
        Self { ignored: Odds::never(), slow: Odds::never(), slow_by: Delay::secs(300) }
    }
}

/// By the number of the call, each page being one. None of them is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ListFaults {
    pub page_size: usize,
    pub empty: Odds,
    /// There are more pages, and this one is said to be the last.
    pub cut: Odds,
    /// Every machine of the page is in it twice.
    pub doubled: Odds,
    /// Only the strangers are listed, as if another region had been asked.
    pub elsewhere: Odds,
}

impl Default for ListFaults {
    fn default() -> Self {
        Self {
            page_size: 100,
            empty: Odds::never(),
            cut: Odds::never(),
            doubled: Odds::never(),
            elsewhere: Odds::never(),
        }
    }
}

/// The cloud tells of the end of some machines, and ends them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Reclaim {
    pub at_ms: u64,
    pub kind: NoticeKind,
    #[serde(rename = "of")]
    pub which: Which,
    pub pool: Option<Text>,
    /// So much of those that live then, rounded up.
    pub share_permille: u16,
    /// No more than these.
    pub machines_max: Option<u32>,
    pub notice_ms: u64,
}

impl Default for Reclaim {
    fn default() -> Self {
        Self {
            at_ms: 0,
            kind: NoticeKind::Reclaim,
            which: Which { capacity_type: Some(CapacityType::Spot), ..Which::default() },
            pool: None,
            share_permille: 1000,
            machines_max: None,
            notice_ms: 120_000,
        }
    }
}

/// By the number of the notice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct NoticeFaults {
    /// It is never told.
    pub lost: Odds,
    /// It is told twice.
    pub repeated: Odds,
}

/// A machine that was there before, and was bought by somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Stranger {
    pub name: Text,
    pub instance_type: Text,
    pub zone: Text,
    pub capacity_type: CapacityType,
    #[serde(default)]
    pub tags: Labels,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offerings_match_by_name_or_its_beginning() {
        for (instance_type, zone, capacity_type, expected) in [
            (None, None, None, true),
            (Some("c-4x"), None, None, true),
            (Some("c-*"), Some("a"), Some(CapacityType::Spot), true),
            (Some("*"), None, None, true),
            (Some("c"), None, None, false),
            (Some("s-*"), None, None, false),
            (None, Some("b"), None, false),
            (None, None, Some(CapacityType::OnDemand), false),
        ] {
            let which = Which {
                instance_type: instance_type.map(Text::from),
                zone: zone.map(Text::from),
                capacity_type,
            };
            assert_eq!(which.matches("c-4x", "a", CapacityType::Spot), expected, "{which:?}");
        }
    }

    #[test]
    fn it_is_written_by_hand_and_read_back() {
        assert_eq!(serde_json::from_str::<Weather>("{}").unwrap(), Weather::default());
        let text = r#"{
            "times": {"launch": {"leastMs": 1000, "mostMs": 90000}},
            "stock": [{"of": {"instanceType": "c-*", "capacityType": "spot"}, "count": 3}, {"atMs": 60000, "count": 0}],
            "quotas": [{"name": "all", "vcpusMax": 64}],
            "prices": [{"atMs": 1000, "price": {"permille": 1500}}, {"atMs": 2000, "price": {"microUsd": -1}}],
            "withdrawals": [{"of": {"zone": "a"}, "window": {"fromMs": 0, "untilMs": 5}}],
            "calls": {"launch": {"replyLost": {"nth": [1, 4]}, "throttled": {"permille": 50}}},
            "joins": {"never": {"permille": 100, "between": {"fromMs": 0, "untilMs": 60000}}},
            "reclaims": [{"atMs": 300000, "sharePermille": 300, "kind": "rebalance"}]
        }"#;
        let weather: Weather = serde_json::from_str(text).unwrap();
        assert_eq!(weather.times.join, Delay::secs(25));
        assert_eq!(weather.calls[&Call::Launch].reply_lost.nth, BTreeSet::from([1, 4]));
        assert_eq!(weather.reclaims[0].which.capacity_type, Some(CapacityType::Spot));
        let written = serde_json::to_string(&weather).unwrap();
        assert_eq!(serde_json::from_str::<Weather>(&written).unwrap(), weather);
        assert!(serde_json::from_str::<Weather>(r#"{"launchs": {}}"#).is_err());
    }
}
