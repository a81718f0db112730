//! What VPSie has of its own, beside the machines: tags, groups, tokens, and who called when.

use std::collections::BTreeMap;

use berth_cloud::machine::MachineId;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::faults::Deed;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Register {
    /// As they were given, for servers.
    pub(super) tags: BTreeMap<MachineId, Vec<String>>,
    /// The orders of servers, as they came.
    pub(super) orders: Vec<Value>,
    /// The groups that servers are entered in, by their names.
    pub(super) server_groups: Vec<String>,
    /// The groups of servers.
    pub(super) entered_in: BTreeMap<MachineId, u64>,
    pub(super) groups: Vec<Group>,
    /// The groups of nodes.
    pub(super) group_of: BTreeMap<MachineId, u64>,
    /// Tokens that were signed in for, and when they expire.
    pub(super) tokens: BTreeMap<String, Timestamp>,
    /// All tokens that ever were.
    pub(super) granted: Vec<String>,
    /// How many have been bought, by servers and nodes alike.
    pub(super) bought: u64,
    /// Requests that something went wrong with.
    pub(super) struck: u64,
    calls: BTreeMap<Deed, u64>,
    called_at: Vec<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) size: usize,
}

impl Register {
    /// The number of the request among those of its deed.
    pub(super) fn called(&mut self, deed: Deed, now: Timestamp) -> u64 {
        self.called_at.push(now);
        *self.calls.entry(deed).and_modify(|count| *count += 1).or_insert(1)
    }

    pub(super) fn calls(&self, deed: Deed) -> u64 {
        self.calls.get(&deed).copied().unwrap_or(0)
    }

    pub(super) fn most_calls_in_a_minute(&self) -> usize {
        let within = |(first, at): (usize, &Timestamp)| {
            let later = self.called_at.iter().skip(first);
            later.take_while(|later| later.duration_since(*at) < MINUTE).count()
        };
        self.called_at.iter().enumerate().map(within).max().unwrap_or(0)
    }

    pub(super) fn nodes_of(&self, group: u64) -> usize {
        self.group_of.values().filter(|number| **number == group).count()
    }
}
