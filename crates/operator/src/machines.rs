//! What a cloud says: what it offers, which machines it has, list after list, which of them it takes back, and which
//! offerings it turned out not to have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_cloud::machine::{Machine, MachineId, MachineState};
use berth_cloud::provider::{Lack, Listing, Trouble, Unavailable};
use berth_core::catalog::{Catalog, InstanceType, OfferingPattern};
use berth_core::claim::MachineSight;
use berth_core::names::Text;
use tokio::time::Instant;

use crate::planted::PlantedBug;

/// How long an offering is not asked for again once it could not be had; twice as long each time, unless that was long ago.
const UNAVAILABLE_MIN: Duration = Duration::from_mins(3);
const UNAVAILABLE_MAX: Duration = Duration::from_mins(30);
/// For so long after that it may be asked for and not refused yet: who tells of it does not say in between that all is
/// well.
const ASKED_WITHIN: Duration = Duration::from_mins(2);
/// A list without any of so many known machines is not believed.
const VANISHED_MAX: usize = 1;

#[derive(Debug, Default)]
pub(crate) struct Machines {
    /// What it offers, once it has told.
    catalog: Option<Arc<Catalog>>,
    /// The zones about which it was asked then.
    zones: BTreeSet<Text>,
    /// Why it does not tell what it offers.
    withheld: Option<String>,
    interrupted: BTreeSet<MachineId>,
    /// The last complete lists, the newest last; two at most.
    lists: Vec<BTreeMap<MachineId, Machine>>,
    /// What is wrong with what the cloud told last.
    pub(crate) trouble: Option<String>,
    /// What it goes on without.
    troubles: BTreeSet<Trouble>,
    unavailable: BTreeMap<OfferingPattern, Absence>,
}

#[derive(Clone, Debug)]
struct Absence {
    until: Instant,
    times: u32,
    lack: Lack,
}

impl Machines {
    /// Takes what is offered now, in these zones among others. Whether it is news.
    pub(crate) fn offered(&mut self, catalog: Arc<Catalog>, zones: BTreeSet<Text>) -> bool {
        let is_news = self.catalog.as_ref().is_none_or(|known| *known != catalog) || self.zones != zones;
        self.catalog = Some(catalog);
        self.zones = zones;
        self.withheld = None;
        is_news
    }

    /// A zone of these about which it has not been asked yet.
    pub(crate) fn unasked<'z>(&self, zones: &'z BTreeSet<Text>) -> Option<&'z Text> {
        zones.iter().find(|zone| !self.zones.contains(*zone))
    }

    /// Whether it offers anything in this zone, as far as it has told.
    pub(crate) fn sells_in(&self, zone: &str) -> bool {
        let mut types = self.catalog.iter().flat_map(|catalog| &catalog.types);
        types.any(|known| known.offerings.iter().any(|offering| *offering.zone == *zone))
    }

    /// Takes why it does not tell what it offers. Whether that is news.
    pub(crate) fn withheld(&mut self, why: String) -> bool {
        let is_news = self.catalog.is_none() && self.withheld.as_ref() != Some(&why);
        self.withheld = Some(why);
        is_news
    }

    /// Takes what it goes on without. Whether that is news.
    pub(crate) fn troubled(&mut self, troubles: BTreeSet<Trouble>) -> bool {
        for trouble in troubles.difference(&self.troubles) {
            tracing::warn!("{trouble}");
        }
        let is_news = self.troubles != troubles;
        self.troubles = troubles;
        is_news
    }

    pub(crate) fn troubles(&self) -> &BTreeSet<Trouble> {
        &self.troubles
    }

    /// It has told what it offers, or why it does not.
    pub(crate) fn has_answered(&self) -> bool {
        self.catalog.is_some() || self.withheld.is_some()
    }

    /// Whether it told what it was last asked, or why not. What it offered before may still be bought from meanwhile.
    pub(crate) fn health(&self) -> Result<(), String> {
        let trouble = self.trouble.clone().or_else(|| self.withheld.clone());
        trouble.map_or_else(|| self.offers().map(drop), Err)
    }

    /// What it offers, or why that is not known.
    pub(crate) fn offers(&self) -> Result<Arc<Catalog>, String> {
        let unknown =
            || self.withheld.clone().unwrap_or_else(|| "it has not told yet what it offers".to_owned());
        self.catalog.clone().ok_or_else(unknown)
    }

    /// Takes the names of machines that are to end. Whether any is news.
    pub(crate) fn noticed(&mut self, ending: impl Iterator<Item = MachineId>) -> bool {
        let count = self.interrupted.len();
        self.interrupted.extend(ending);
        self.interrupted.len() > count
    }

    pub(crate) fn is_interrupted(&self, id: &MachineId) -> bool {
        self.interrupted.contains(id)
    }

    /// Takes a list. One that is not complete proves nothing, and so does one that says that all is gone. Whether it
    /// is news.
    pub(crate) fn listed(&mut self, listing: Listing) -> bool {
        if let Some(refusal) = listing.stopped_by {
            self.trouble = Some(format!("the cloud's list broke off: {refusal}"));
            return false;
        }
        let alive: BTreeMap<MachineId, Machine> =
            listing.machines.into_iter().filter(|(_, machine)| machine.state != MachineState::Gone).collect();
        let known = self.lists.last().map_or(0, BTreeMap::len);
        if alive.is_empty() && known > VANISHED_MAX {
            self.trouble =
                Some(format!("the cloud tells of none of {known} machines, which is not believed"));
            return false;
        }
        // Of machines that are gone nobody speaks any more.
        self.interrupted.retain(|id| alive.contains_key(id));
        let is_news = self.trouble.take().is_some() || self.lists.last() != Some(&alive);
        self.lists.push(alive);
        if self.lists.len() > 2 {
            self.lists.remove(0);
        }
        is_news
    }

    pub(crate) fn sight(&self, id: &MachineId) -> MachineSight {
        match &self.lists[..] {
            [.., last] if find(last, id).is_some() => MachineSight::Present,
            [.., _] if PlantedBug::OneList.is_planted() => MachineSight::Absent,
            // Lists that are no longer renewed know nothing of what was launched since.
            _ if self.trouble.is_some() => MachineSight::Unseen,
            [before, last] if !before.contains_key(id) && !last.contains_key(id) => MachineSight::Absent,
            _ => MachineSight::Unseen,
        }
    }

    /// The cloud says that it has this one no more: whoever lists none after that is believed.
    pub(crate) fn gone(&mut self, id: &MachineId) {
        for list in &mut self.lists {
            list.remove(id);
        }
    }

    /// Forgets which machines there are: others may have bought and ended some by the time it is asked again.
    pub(crate) fn forget(&mut self) {
        self.lists.clear();
        self.interrupted.clear();
    }

    /// Machines of the last list.
    pub(crate) fn last(&self) -> impl Iterator<Item = &Machine> {
        self.lists.last().into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn get(&self, id: &MachineId) -> Option<&Machine> {
        find(self.lists.last()?, id)
    }

    /// Machines that both of the last two lists have.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = &Machine> {
        let both = match &self.lists[..] {
            [before, last] => Some((before, last)),
            _ => None,
        };
        both.into_iter()
            .flat_map(|(before, last)| last.values().filter(|machine| before.contains_key(&machine.id)))
    }

    /// Offerings could not be had. Launches that were under way together hear the same of them, and that counts once.
    pub(crate) fn lacked(&mut self, offerings: &[Unavailable]) {
        let now = Instant::now();
        for Unavailable { offerings, lack } in offerings {
            let (times, until) = match self.unavailable.get(offerings) {
                Some(known) if known.until > now => (known.times, known.until),
                Some(known) if known.until + UNAVAILABLE_MAX > now => {
                    let wait = UNAVAILABLE_MIN.saturating_mul(1 << known.times.min(8));
                    (known.times.saturating_add(1), now + wait.min(UNAVAILABLE_MAX))
                }
                _ => (1, now + UNAVAILABLE_MIN),
            };
            self.unavailable.insert(offerings.clone(), Absence { until, times, lack: lack.clone() });
        }
    }

    /// An offering could be had, so whatever is said of it and others is no longer so.
    pub(crate) fn had(&mut self, machine: &Machine) {
        let covers = |pattern: &OfferingPattern| {
            let OfferingPattern { instance_type, zone, capacity_type } = pattern;
            instance_type.as_ref().is_none_or(|name| *name == machine.instance_type)
                && zone.as_ref().is_none_or(|zone| *zone == machine.zone)
                && capacity_type.is_none_or(|kind| kind == machine.capacity_type)
        };
        self.unavailable.retain(|pattern, _| !covers(pattern));
    }

    /// The quota that keeps something of these types from being bought, if one does.
    pub(crate) fn quota_on(&self, types: &[Arc<InstanceType>]) -> Option<&str> {
        let now = Instant::now();
        let is_met = |pattern: &OfferingPattern| {
            let has = |known: &Arc<InstanceType>| {
                known.offerings.iter().any(|offering| pattern.matches(&known.name, offering))
            };
            types.iter().any(has)
        };
        let met = self.unavailable.iter().filter(|(pattern, _)| is_met(pattern));
        let current = met.filter(|(_, absence)| absence.until + ASKED_WITHIN > now);
        current.map(|(_, absence)| &absence.lack).find_map(|lack| match lack {
            Lack::Quota(name) => Some(&**name),
            Lack::Stock | Lack::NotOffered => None,
        })
    }

    /// What is not to be asked for now.
    pub(crate) fn unavailable(&self) -> Vec<OfferingPattern> {
        let now = Instant::now();
        let is_current = |absence: &Absence| absence.until > now;
        let current = self.unavailable.iter().filter(|(_, absence)| is_current(absence));
        current.map(|(pattern, _)| pattern.clone()).collect()
    }
}

/// The machine of this id, or of this number: claims that another autoscaler has made may know no more.
fn find<'m>(list: &'m BTreeMap<MachineId, Machine>, id: &MachineId) -> Option<&'m Machine> {
    let number = || id.as_str().parse::<i64>().ok();
    let by_number = || {
        let number = number()?;
        list.values().find(|machine| machine.extras.number == Some(number))
    };
    list.get(id).or_else(by_number)
}

#[cfg(test)]
mod tests {
    use berth_api::Timestamp;
    use berth_core::catalog::CapacityType;
    use berth_core::names::Labels;
    use berth_core::units::Price;

    use super::*;

    fn listing(ids: &[&str]) -> Listing {
        let machine = |id: &&str| {
            let machine = Machine {
                id: MachineId::from(*id),
                provider_id: (*id).into(),
                token: None,
                name: (*id).into(),
                address: None,
                instance_type: "small".into(),
                zone: "a".into(),
                capacity_type: CapacityType::OnDemand,
                price: Price::ZERO,
                state: MachineState::Running,
                tags: Labels::new(),
                launched_at: Timestamp::UNIX_EPOCH,
                extras: Box::default(),
            };
            (machine.id.clone(), machine)
        };
        Listing { machines: ids.iter().map(machine).collect(), ..Listing::default() }
    }

    /// What was refused is asked for again later and later, until something of it could be had.
    #[tokio::test(start_paused = true)]
    async fn a_success_ends_what_was_lacking() {
        let bought = listing(&["m"]).machines.into_values().next().unwrap();
        let exactly = OfferingPattern {
            instance_type: Some("small".into()),
            zone: Some("a".into()),
            capacity_type: Some(CapacityType::OnDemand),
        };
        let elsewhere = OfferingPattern { zone: Some("b".into()), ..exactly.clone() };
        for (pattern, is_ended) in [(OfferingPattern::default(), true), (exactly, true), (elsewhere, false)] {
            let lacking = [Unavailable { offerings: pattern.clone(), lack: Lack::Quota("q".into()) }];
            let mut machines = Machines::default();
            machines.lacked(&lacking);
            tokio::time::advance(UNAVAILABLE_MIN).await;
            machines.lacked(&lacking);
            machines.had(&bought);
            assert_eq!(machines.unavailable().is_empty(), is_ended, "{pattern:?}");
            machines.lacked(&lacking);
            tokio::time::advance(UNAVAILABLE_MIN).await;
            assert_eq!(machines.unavailable().is_empty(), is_ended, "{pattern:?}: it begins anew");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_left_alone_longer_each_time() {
        let minutes = |minutes: u64| Duration::from_mins(minutes);
        // How long ago it was refused the last time, how many claims hear it, and for how long it is left alone.
        let cases = [
            (minutes(0), 1, minutes(3)),
            (minutes(3), 5, minutes(6)),
            (minutes(6), 2, minutes(12)),
            (minutes(12), 1, minutes(24)),
            (minutes(24), 1, minutes(30)),
            (minutes(31), 1, minutes(30)),
            (minutes(61), 5, minutes(3)),
        ];
        let lacking = [Unavailable { offerings: OfferingPattern::default(), lack: Lack::Stock }];
        let mut machines = Machines::default();
        for (ago, claims, left_alone) in cases {
            tokio::time::advance(ago).await;
            let now = Instant::now();
            (0..claims).for_each(|_| machines.lacked(&lacking));
            let until = machines.unavailable.values().map(|absence| absence.until).max();
            assert_eq!(until, Some(now + left_alone), "refused again after {ago:?}");
        }
    }

    #[test]
    fn a_list_of_none_is_believed_only_after_their_end() {
        for (ended, is_believed) in [(&[][..], false), (&["m-1"][..], true), (&["m-1", "m-2"][..], true)] {
            let mut machines = Machines::default();
            machines.listed(listing(&["m-1", "m-2"]));
            for id in ended {
                machines.gone(&MachineId::from(*id));
            }
            machines.listed(listing(&[]));
            assert_eq!(machines.trouble.is_none(), is_believed, "after {ended:?}");
        }
    }
}
