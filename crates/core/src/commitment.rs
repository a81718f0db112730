//! What a pool has committed itself to: its ledger, as one record that is written before anything is bought.
//!
//! Whoever wants to buy, or to take a node away, first adds it here and writes the record on condition that nobody
//! else has written it since it was read. So limits and budgets hold whoever else believes to lead, and whatever was
//! seen late: what counts is the record, not what is remembered of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::disruption::DisruptionReason;
use crate::names::Text;
use crate::pool::Limits;
use crate::reason::{Reason, Refusal};
use crate::resources::{Resources, format_amount};

/// A pool's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commitments {
    /// Whose word it is: a leader of an earlier epoch must not write any more.
    pub epoch: u64,
    /// The number of the next claim. It only grows, so no name is given twice.
    pub next: u64,
    /// The claims that may exist, with the most that each may have of anything.
    pub claims: BTreeMap<Text, Resources>,
    /// Those of them that had not been seen when they were last written of, and when they were added, in seconds
    /// since 1970.
    pub unborn: BTreeMap<Text, i64>,
    /// Those of them that are being taken away for a reason that can wait.
    pub leaving: BTreeMap<Text, Departure>,
    /// When nodes were last committed to be replaced by others, in seconds since 1970.
    pub replaced_secs: Option<i64>,
}

/// A node that is going to be taken away once all that is bought for it is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub reason: DisruptionReason,
    /// Claims of any pool that have to be up before.
    pub replacements: Vec<Text>,
    /// When it was decided, in seconds since 1970.
    pub since_secs: i64,
}

/// Why a record cannot be added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// Another leads, since a later epoch.
    Superseded { epoch: u64 },
    /// It is over a limit that was not, or is no longer, seen.
    Limit(Refusal),
}

/// A claim that was committed and is not there is either about to be made, or was unmade by somebody else. After so
/// long it is not about to be made: whoever makes claims gives up much earlier.
pub const UNBORN_SECS_MAX: i64 = 300;

/// What there is of a pool's claims, read just now.
pub type Living = BTreeMap<Text, Resources>;

impl Commitments {
    /// Adds claims with at most these capacities. Their names are in the same order.
    ///
    /// Names that were committed to and never used are used first: if whoever committed to them still makes those
    /// claims, they do not add to the ones that are counted.
    pub fn with_claims(
        &self,
        pool: &str,
        wanted: &[Resources],
        living: &Living,
        limits: &Limits,
        (epoch, now_secs): (u64, i64),
    ) -> Result<(Self, Vec<Text>), Objection> {
        let mut next = self.settled(living, (epoch, now_secs))?;
        // What is limited by now need not have been when they were committed to.
        for (name, capacity) in living {
            let committed = next.claims.entry(name.clone()).or_default();
            for (resource, _) in limits.resources.iter() {
                let amount = committed.get(resource).max(capacity.get(resource));
                if amount > 0 {
                    committed.set(resource, amount);
                }
            }
        }
        let mut unborn: BTreeSet<Text> = next.unborn.keys().cloned().collect();
        let mut names = Vec::with_capacity(wanted.len());
        for capacity in wanted {
            let name = unborn.pop_first().unwrap_or_else(|| next.fresh_name(pool));
            // Whoever committed to it first may yet make it as they meant it.
            next.claims.entry(name.clone()).or_default().max(capacity);
            next.unborn.insert(name.clone(), now_secs);
            names.push(name);
        }
        match next.over(limits) {
            Some(refusal) => Err(Objection::Limit(refusal)),
            None => Ok((next, names)),
        }
    }

    /// One that no claim has: where a ledger was lost, claims of its numbers are still there.
    fn fresh_name(&mut self, pool: &str) -> Text {
        loop {
            self.next += 1;
            let name = Text::from(format!("{pool}-{}", self.next));
            if !self.claims.contains_key(&name) {
                return name;
            }
        }
    }

    /// Marks nodes that are to go, at most `allowed` of them at a time with those that are going.
    pub fn with_departures(
        &self,
        departures: &BTreeMap<Text, Departure>,
        allowed: u32,
        living: &Living,
        (epoch, now_secs): (u64, i64),
    ) -> Result<Self, Objection> {
        let mut next = self.settled(living, (epoch, now_secs))?;
        next.leaving.extend(departures.iter().map(|(name, departure)| (name.clone(), departure.clone())));
        if next.leaving.len() > allowed as usize {
            let message = format!("{} nodes would go at once; {allowed} may", next.leaving.len());
            return Err(Objection::Limit(Reason::DisruptionBudget.because(message)));
        }
        if departures.values().any(|departure| !departure.replacements.is_empty()) {
            next.replaced_secs = Some(now_secs);
        }
        Ok(next)
    }

    /// Without claims that are gone, and departures that are undone.
    pub fn without(
        &self,
        gone: &BTreeSet<Text>,
        staying: &BTreeSet<Text>,
        epoch: u64,
    ) -> Result<Self, Objection> {
        let mut next = self.clone();
        next.take_over(epoch)?;
        next.claims.retain(|name, _| !gone.contains(name));
        next.unborn.retain(|name, _| !gone.contains(name));
        next.leaving.retain(|name, _| !gone.contains(name) && !staying.contains(name));
        Ok(next)
    }

    /// The claims that are neither among these nor about to be made.
    pub fn ghosts(&self, is_living: impl Fn(&Text) -> bool, now_secs: i64) -> BTreeSet<Text> {
        let is_awaited = |name: &Text| {
            self.unborn.get(name).is_some_and(|at| now_secs.saturating_sub(*at) <= UNBORN_SECS_MAX)
        };
        self.claims.keys().filter(|name| !is_living(name) && !is_awaited(name)).cloned().collect()
    }

    /// As it stands by what there is: claims of others are counted, those that are gone are not, and those that never
    /// came are forgotten in time.
    fn settled(&self, living: &Living, (epoch, now_secs): (u64, i64)) -> Result<Self, Objection> {
        let mut next = self.clone();
        next.take_over(epoch)?;
        for ghost in self.ghosts(|name| living.contains_key(name), now_secs) {
            next.claims.remove(&ghost);
            next.unborn.remove(&ghost);
        }
        next.unborn.retain(|name, _| !living.contains_key(name));
        for (name, capacity) in living {
            next.claims.entry(name.clone()).or_insert_with(|| capacity.clone());
        }
        next.leaving.retain(|name, _| living.contains_key(name));
        Ok(next)
    }

    fn take_over(&mut self, epoch: u64) -> Result<(), Objection> {
        if self.epoch > epoch {
            return Err(Objection::Superseded { epoch: self.epoch });
        }
        self.epoch = epoch;
        Ok(())
    }

    /// The first limit that is exceeded.
    fn over(&self, limits: &Limits) -> Option<Refusal> {
        if let Some(max) = limits.nodes
            && self.claims.len() > max as usize
        {
            let message = format!("the pool would have {} of at most {max} nodes", self.claims.len());
            return Some(Reason::NodeLimit.because(message));
        }
        limits.resources.iter().find_map(|(resource, limit)| {
            let used: i64 = self.claims.values().map(|capacity| capacity.get(resource)).sum();
            (used > limit).then(|| {
                let amount = |amount| format_amount(resource, amount);
                Reason::PoolLimit.because(format!(
                    "the pool would have {} of at most {} {resource}",
                    amount(used),
                    amount(limit)
                ))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::CPU;

    fn cpu(cores: i64) -> Resources {
        Resources::of(&[(CPU, cores * 1000)])
    }

    fn living(names: &[(&str, i64)]) -> Living {
        names.iter().map(|(name, cores)| (Text::from(*name), cpu(*cores))).collect()
    }

    fn limits(nodes: Option<u32>, cores: i64) -> Limits {
        Limits { nodes, resources: cpu(cores) }
    }

    fn record(names: &[(&str, i64)], next: u64) -> Commitments {
        let unborn = names.iter().map(|(name, _)| (Text::from(*name), 1000)).collect();
        Commitments { epoch: 3, next, claims: living(names), unborn, ..Commitments::default() }
    }

    /// What it is, the record, what is there, the time, and the names that are given.
    type Case<'a> = (&'a str, Commitments, &'a [(&'a str, i64)], i64, Result<&'a [&'a str], Reason>);

    #[test]
    fn claims_are_counted_before_they_exist() {
        let roomy = limits(Some(3), 100);
        let cases: [Case<'_>; 11] = [
            ("the ledger was lost", record(&[], 0), &[("p-1", 4)], 1010, Ok(&["p-2", "p-3"])),
            ("the first", record(&[], 0), &[], 1010, Ok(&["p-1", "p-2"])),
            ("numbers go on", record(&[("p-4", 4)], 4), &[("p-4", 4)], 1010, Ok(&["p-5", "p-6"])),
            ("unborn names are used", record(&[("p-1", 4), ("p-2", 4)], 2), &[], 1010, Ok(&["p-1", "p-2"])),
            ("one is unborn", record(&[("p-1", 4), ("p-2", 4)], 2), &[("p-1", 4)], 1010, Ok(&["p-2", "p-3"])),
            (
                "all count",
                record(&[("p-1", 4), ("p-2", 4)], 2),
                &[("p-1", 4), ("p-2", 4)],
                1010,
                Err(Reason::NodeLimit),
            ),
            ("those of others too", record(&[], 2), &[("x", 4), ("y", 4)], 1010, Err(Reason::NodeLimit)),
            ("what never came is forgotten", record(&[("p-1", 4)], 1), &[], 1301, Ok(&["p-2", "p-3"])),
            ("what is there is not", record(&[("p-1", 97)], 1), &[("p-1", 97)], 9999, Err(Reason::PoolLimit)),
            (
                "what is limited only now counts as it is",
                record(&[("p-1", 0)], 1),
                &[("p-1", 97)],
                1010,
                Err(Reason::PoolLimit),
            ),
            (
                "what was there and is gone is forgotten at once",
                Commitments { unborn: BTreeMap::new(), ..record(&[("p-1", 97)], 1) },
                &[],
                1010,
                Ok(&["p-2", "p-3"]),
            ),
        ];
        for (what, record, there, now, expected) in cases {
            let added = record.with_claims("p", &[cpu(2), cpu(2)], &living(there), &roomy, (3, now));
            match (added, expected) {
                (Ok((next, names)), Ok(expected)) => {
                    assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{what}");
                    // What was meant first may yet come of names that are used again.
                    let most = |name: &Text| if record.unborn.contains_key(name) { cpu(4) } else { cpu(2) };
                    let is_most = |name: &Text| next.claims[name] == most(name);
                    assert!(what.contains("forgotten") || names.iter().all(is_most), "{what}");
                }
                (Err(Objection::Limit(refusal)), Err(reason)) => assert_eq!(refusal.reason, reason, "{what}"),
                (found, _) => panic!("{what}: {found:?}"),
            }
        }
    }

    #[test]
    fn an_earlier_leader_adds_nothing() {
        let record = record(&[("p-1", 4)], 1);
        let superseded = Err(Objection::Superseded { epoch: 3 });
        let limits = limits(None, 100);
        let claims = record.with_claims("p", &[cpu(1)], &Living::new(), &limits, (2, 1010));
        assert_eq!(claims.map(|(next, _)| next), superseded);
        assert_eq!(record.with_departures(&BTreeMap::new(), 1, &Living::new(), (2, 1010)), superseded);
        assert_eq!(record.without(&BTreeSet::new(), &BTreeSet::new(), 2), superseded);
    }

    #[test]
    fn departures_are_counted() {
        let there = living(&[("p-1", 4), ("p-2", 4), ("p-3", 4)]);
        let record = Commitments { claims: there.clone(), ..record(&[], 3) };
        let departure = |name: &str| {
            let departure = Departure {
                reason: DisruptionReason::Underutilized,
                replacements: vec!["p-4".into()],
                since_secs: 1010,
            };
            BTreeMap::from([(Text::from(name), departure)])
        };
        let one = record.with_departures(&departure("p-1"), 1, &there, (3, 1010)).unwrap();
        let refused = one.with_departures(&departure("p-2"), 1, &there, (3, 1011)).unwrap_err();
        assert!(matches!(refused, Objection::Limit(refusal) if refusal.reason == Reason::DisruptionBudget));
        // One that has gone makes room for another.
        let fewer = living(&[("p-2", 4), ("p-3", 4)]);
        let other = one.with_departures(&departure("p-2"), 1, &fewer, (3, 1012)).unwrap();
        assert_eq!(other.leaving.keys().map(|name| &**name).collect::<Vec<_>>(), ["p-2"]);
        let stays = BTreeSet::from(["p-2".into()]);
        assert!(other.without(&BTreeSet::new(), &stays, 3).unwrap().leaving.is_empty());
    }
}
