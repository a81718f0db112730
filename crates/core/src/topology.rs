//! Where pods may go because of other pods: spread, affinity, anti-affinity.
//!
//! Pods are counted per group and domain. A group is one selector over one topology key; a domain is one
//! value of that key. The counts follow kube-scheduler's filters: affinity counts pods that match all of
//! a pod's terms, spread counts only nodes that the constraint's policies include. One thing is
//! Karpenter's: a domain that could be bought counts as a domain, empty, before any node is in it.

use rustc_hash::FxHashMap;

use crate::names::{self, Text};

/// An index into the hosts: existing nodes first, then planned ones in the order they were planned.
pub(crate) type HostId = usize;
pub(crate) type KeyId = usize;
pub(crate) type GroupId = usize;
type DomainId = u32;

const NO_DOMAIN: DomainId = DomainId::MAX;

/// A topology key and which domain each host is in.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: Text,
    /// Every new host is a domain of its own.
    pub(crate) is_hostname: bool,
    domain_ids: FxHashMap<Text, DomainId>,
    domains: Vec<Text>,
    host_domains: Vec<DomainId>,
    cell_domains: Vec<DomainId>,
}

impl Key {
    fn new(name: Text) -> Self {
        let is_hostname = &*name == names::HOSTNAME;
        Self {
            name,
            is_hostname,
            domain_ids: FxHashMap::default(),
            domains: Vec::new(),
            host_domains: Vec::new(),
            cell_domains: Vec::new(),
        }
    }

    fn domain(&mut self, value: Option<&str>) -> DomainId {
        let Some(value) = value else { return NO_DOMAIN };
        if let Some(id) = self.domain_ids.get(value) {
            return *id;
        }
        let value = Text::from(value);
        let id = self.fresh(value.clone());
        self.domain_ids.insert(value, id);
        id
    }

    fn fresh(&mut self, value: Text) -> DomainId {
        self.domains.push(value);
        DomainId::try_from(self.domains.len() - 1).unwrap_or(NO_DOMAIN)
    }
}

/// What a group counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupUse {
    /// Domains and their minimum matter, and only included hosts count.
    Spread,
    /// Only "is one there" matters.
    Nearness,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: KeyId,
    usage: GroupUse,
    /// Hosts and cells that count; `None` counts all.
    included_hosts: Option<Vec<bool>>,
    included_cells: Option<Vec<bool>>,
    counts: Vec<u32>,
    /// Pods that have this group as a required anti-affinity of their own.
    owners: Vec<u32>,
    /// How many domains have each count; its first non-zero entry is the minimum.
    domains_by_count: Vec<u32>,
    /// How many hosts and cells make each domain exist.
    supporters: Vec<u32>,
    domain_count: u32,
    total: u64,
}

impl Group {
    fn includes_host(&self, host: HostId) -> bool {
        self.included_hosts.as_ref().is_none_or(|included| included.get(host).copied().unwrap_or(false))
    }

    fn count(&self, domain: DomainId) -> u32 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    fn add_domain(&mut self, domain: DomainId) {
        if domain == NO_DOMAIN {
            return;
        }
        let index = domain as usize;
        self.reach(index);
        if self.supporters[index] == 0 {
            self.domain_count += 1;
            let count = self.counts[index] as usize;
            if count >= self.domains_by_count.len() {
                self.domains_by_count.resize(count + 1, 0);
            }
            self.domains_by_count[count] += 1;
        }
        self.supporters[index] += 1;
    }

    /// One host less makes the domain exist.
    fn remove_domain(&mut self, domain: DomainId) {
        if domain == NO_DOMAIN {
            return;
        }
        let index = domain as usize;
        self.supporters[index] -= 1;
        if self.supporters[index] == 0 {
            self.domain_count -= 1;
            self.domains_by_count[self.counts[index] as usize] -= 1;
        }
    }

    fn reach(&mut self, index: usize) {
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
            self.supporters.resize(index + 1, 0);
        }
    }

    fn change(&mut self, domain: DomainId, by: i64) {
        let index = domain as usize;
        self.reach(index);
        self.total = self.total.saturating_add_signed(by);
        self.recount(index, changed(self.counts[index], by));
    }

    fn change_owners(&mut self, domain: DomainId, by: i64) {
        let index = domain as usize;
        if index >= self.owners.len() {
            self.owners.resize(index + 1, 0);
        }
        self.owners[index] = changed(self.owners[index], by);
    }

    fn recount(&mut self, index: usize, count: u32) {
        let before = std::mem::replace(&mut self.counts[index], count) as usize;
        let after = count as usize;
        if self.supporters[index] > 0 {
            if after >= self.domains_by_count.len() {
                self.domains_by_count.resize(after + 1, 0);
            }
            self.domains_by_count[before] -= 1;
            self.domains_by_count[after] += 1;
        }
    }

    /// The lowest count of any domain; zero while there are fewer domains than wanted.
    fn min(&self, min_domains: u32) -> u32 {
        if self.domain_count < min_domains {
            return 0;
        }
        let min = self.domains_by_count.iter().position(|domains| *domains > 0).unwrap_or(0);
        u32::try_from(min).unwrap_or(u32::MAX)
    }
}

fn changed(count: u32, by: i64) -> u32 {
    u32::try_from(i64::from(count) + by).unwrap_or(0)
}

/// For which rules a pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    Everywhere,
    /// Not for spread: the pod is terminating.
    OnlyNearness,
}

impl Counting {
    fn of_running(terminating: bool) -> Self {
        if terminating { Self::OnlyNearness } else { Self::Everywhere }
    }
}

/// A place that a pod could go to: a host, or a new node of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host(HostId),
    NewIn(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct SpreadRule {
    pub(crate) group: GroupId,
    pub(crate) max_skew: u32,
    pub(crate) min_domains: u32,
    pub(crate) matches_itself: bool,
}

/// One pod's affinity terms: pods that match all of them must be near under each key.
#[derive(Clone, Debug)]
pub(crate) struct AffinityRule {
    pub(crate) groups: Vec<GroupId>,
    pub(crate) matches_itself: bool,
}

/// What a class of pods asks of other pods at its present level of preference.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodRules {
    pub(crate) spread: Vec<SpreadRule>,
    pub(crate) affinity: Vec<AffinityRule>,
    /// No pod of these groups may be near.
    pub(crate) anti_affinity: Vec<GroupId>,
}

/// How a class of pods appears to others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Appearance {
    /// Groups that count it.
    pub(crate) counted_by: Vec<GroupId>,
    /// Groups of other pods' required anti-affinity that match it: their owners keep it away.
    pub(crate) shunned_by: Vec<GroupId>,
    /// Groups of its own required anti-affinity.
    pub(crate) owns: Vec<GroupId>,
}

/// Why a place is not open to a pod because of other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopologyRefusal {
    KeyMissing(KeyId),
    Spread(GroupId),
    Affinity(GroupId),
    AntiAffinity(GroupId),
    Shunned(GroupId),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    pub(crate) keys: Vec<Key>,
    pub(crate) groups: Vec<Group>,
    hosts: usize,
}

impl Topology {
    pub(crate) fn key(&mut self, name: &Text) -> KeyId {
        if let Some(id) = self.keys.iter().position(|key| key.name == *name) {
            return id;
        }
        self.keys.push(Key::new(name.clone()));
        self.keys.len() - 1
    }

    /// Declares all hosts and cells of the start; all keys must be known by now.
    pub(crate) fn place_all<'a>(
        &mut self,
        hosts: usize,
        host_label: impl Fn(HostId, &str) -> Option<&'a str>,
        cells: usize,
        cell_label: impl Fn(usize, &str) -> Option<&'a str>,
    ) {
        self.hosts = hosts;
        for key in &mut self.keys {
            let name = key.name.clone();
            key.host_domains = (0..hosts).map(|host| key.domain(host_label(host, &name))).collect();
            key.cell_domains = if key.is_hostname {
                vec![NO_DOMAIN; cells]
            } else {
                (0..cells).map(|cell| key.domain(cell_label(cell, &name))).collect()
            };
        }
    }

    pub(crate) fn add_nearness_group(&mut self, key: KeyId) -> GroupId {
        self.add_group(key, GroupUse::Nearness, None, None)
    }

    /// A spread over the included hosts, and over what could be bought in the included cells.
    pub(crate) fn add_spread_group(
        &mut self,
        key: KeyId,
        included_hosts: Vec<bool>,
        included_cells: Vec<bool>,
    ) -> GroupId {
        let group = self.add_group(key, GroupUse::Spread, Some(included_hosts), Some(included_cells));
        let Self { keys, groups, .. } = self;
        let (key, group_state) = (&keys[key], &mut groups[group]);
        for (host, domain) in key.host_domains.iter().enumerate() {
            if group_state.includes_host(host) {
                group_state.add_domain(*domain);
            }
        }
        for (cell, domain) in key.cell_domains.iter().enumerate() {
            if group_state.included_cells.as_ref().is_some_and(|included| included[cell]) {
                group_state.add_domain(*domain);
            }
        }
        group
    }

    fn add_group(
        &mut self,
        key: KeyId,
        usage: GroupUse,
        included_hosts: Option<Vec<bool>>,
        included_cells: Option<Vec<bool>>,
    ) -> GroupId {
        self.groups.push(Group {
            key,
            usage,
            included_hosts,
            included_cells,
            counts: Vec::new(),
            owners: Vec::new(),
            domains_by_count: Vec::new(),
            supporters: Vec::new(),
            domain_count: 0,
            total: 0,
        });
        self.groups.len() - 1
    }

    /// A node of `cell` joins.
    pub(crate) fn join(&mut self, cell: usize) {
        let host = self.hosts;
        self.hosts += 1;
        for key in &mut self.keys {
            let domain = if key.is_hostname { key.fresh(Text::from("")) } else { key.cell_domains[cell] };
            key.host_domains.push(domain);
        }
        for group in &mut self.groups {
            let Some(cells) = &group.included_cells else { continue };
            let included = cells[cell];
            if let Some(hosts) = &mut group.included_hosts {
                hosts.push(included);
            }
            let key = &self.keys[group.key];
            if included && key.is_hostname {
                group.add_domain(key.host_domains[host]);
            }
        }
    }

    /// Whether every host is a domain of its own to the group.
    pub(crate) fn is_over_hosts(&self, group: GroupId) -> bool {
        self.keys[self.groups[group].key].is_hostname
    }

    /// The last host that joined was never there.
    pub(crate) fn part(&mut self, cell: usize) {
        self.hosts -= 1;
        let host = self.hosts;
        for group in &mut self.groups {
            let Some(cells) = &group.included_cells else { continue };
            let key = &self.keys[group.key];
            if cells[cell] && key.is_hostname {
                group.remove_domain(key.host_domains[host]);
            }
            if let Some(hosts) = &mut group.included_hosts {
                hosts.pop();
            }
        }
        for key in &mut self.keys {
            key.host_domains.pop();
            if key.is_hostname {
                key.domains.pop();
            }
        }
    }

    /// A host that was there from the start goes, with the domains that only it made exist.
    pub(crate) fn leave(&mut self, host: HostId) {
        let Self { keys, groups, .. } = self;
        for group in groups.iter_mut().filter(|group| group.usage == GroupUse::Spread) {
            if group.includes_host(host) {
                group.remove_domain(keys[group.key].host_domains[host]);
            }
        }
    }

    /// It did not go after all.
    pub(crate) fn come_back(&mut self, host: HostId) {
        let Self { keys, groups, .. } = self;
        for group in groups.iter_mut().filter(|group| group.usage == GroupUse::Spread) {
            if group.includes_host(host) {
                group.add_domain(keys[group.key].host_domains[host]);
            }
        }
    }

    fn domain(&self, place: Place, key: KeyId) -> DomainId {
        match place {
            Place::Host(host) => self.keys[key].host_domains[host],
            Place::NewIn(cell) => self.keys[key].cell_domains[cell],
        }
    }

    /// Whether the node has the key at all; a new node always has a hostname.
    fn has_key(&self, place: Place, key: KeyId) -> bool {
        matches!(place, Place::NewIn(_) if self.keys[key].is_hostname) || self.domain(place, key) != NO_DOMAIN
    }

    pub(crate) fn domain_name(&self, place: Place, key: KeyId) -> Option<&Text> {
        self.keys[key].domains.get(self.domain(place, key) as usize)
    }

    /// How many pods of a class may be put in this place, one after the other, or why none.
    pub(crate) fn room(
        &self,
        rules: &PodRules,
        appearance: &Appearance,
        place: Place,
    ) -> Result<u32, TopologyRefusal> {
        let mut room = u32::MAX;
        for rule in &rules.spread {
            let group = &self.groups[rule.group];
            if !self.has_key(place, group.key) {
                return Err(TopologyRefusal::KeyMissing(group.key));
            }
            let is_new_domain = matches!(place, Place::NewIn(_)) && self.keys[group.key].is_hostname;
            let min = if is_new_domain { 0 } else { group.min(rule.min_domains) };
            let limit = rule.max_skew.saturating_add(min);
            let count = group.count(self.domain(place, group.key));
            if rule.matches_itself {
                let left = limit.saturating_sub(count);
                if left == 0 {
                    return Err(TopologyRefusal::Spread(rule.group));
                }
                room = room.min(left);
            } else if count > limit {
                return Err(TopologyRefusal::Spread(rule.group));
            }
        }
        for rule in &rules.affinity {
            room = room.min(self.affinity_room(rule, place)?);
        }
        for group_id in &rules.anti_affinity {
            let group = &self.groups[*group_id];
            if self.has_key(place, group.key) {
                if group.count(self.domain(place, group.key)) > 0 {
                    return Err(TopologyRefusal::AntiAffinity(*group_id));
                }
                if appearance.counted_by.contains(group_id) {
                    room = room.min(1);
                }
            }
        }
        for group_id in &appearance.shunned_by {
            let group = &self.groups[*group_id];
            let domain = self.domain(place, group.key) as usize;
            if group.owners.get(domain).copied().unwrap_or(0) > 0 {
                return Err(TopologyRefusal::Shunned(*group_id));
            }
        }
        Ok(room)
    }

    fn affinity_room(&self, rule: &AffinityRule, place: Place) -> Result<u32, TopologyRefusal> {
        for group in &rule.groups {
            let key = self.groups[*group].key;
            if !self.has_key(place, key) {
                return Err(TopologyRefusal::KeyMissing(key));
            }
        }
        let lacking = rule.groups.iter().find(|group| {
            let group = &self.groups[**group];
            group.count(self.domain(place, group.key)) == 0
        });
        let Some(lacking) = lacking else { return Ok(u32::MAX) };
        // The first of a group that wants to be together may start anywhere.
        let nobody_yet = rule.groups.iter().all(|group| self.groups[*group].total == 0);
        if nobody_yet && rule.matches_itself { Ok(1) } else { Err(TopologyRefusal::Affinity(*lacking)) }
    }

    /// The key, other than the hostname, under which pods that want to be together have yet to settle.
    pub(crate) fn key_to_settle(&self, rules: &PodRules) -> Option<KeyId> {
        rules
            .affinity
            .iter()
            .filter(|rule| {
                rule.matches_itself && rule.groups.iter().all(|group| self.groups[*group].total == 0)
            })
            .flat_map(|rule| &rule.groups)
            .map(|group| self.groups[*group].key)
            .find(|key| !self.keys[*key].is_hostname)
    }

    /// Puts `count` pods on a host.
    pub(crate) fn add(&mut self, appearance: &Appearance, host: HostId, count: u32) {
        self.change(appearance, host, i64::from(count), Counting::Everywhere);
    }

    /// Takes `count` pods off a host.
    pub(crate) fn remove(&mut self, appearance: &Appearance, host: HostId, count: u32) {
        self.change(appearance, host, -i64::from(count), Counting::Everywhere);
    }

    /// Counts a running pod.
    pub(crate) fn add_running(&mut self, appearance: &Appearance, host: HostId, terminating: bool) {
        self.change(appearance, host, 1, Counting::of_running(terminating));
    }

    /// Undoes [`Self::add_running`].
    pub(crate) fn remove_running(&mut self, appearance: &Appearance, host: HostId, terminating: bool) {
        self.change(appearance, host, -1, Counting::of_running(terminating));
    }

    fn change(&mut self, appearance: &Appearance, host: HostId, by: i64, counting: Counting) {
        for group_id in &appearance.counted_by {
            let group = &mut self.groups[*group_id];
            let domain = self.keys[group.key].host_domains[host];
            let counts = counting == Counting::Everywhere || group.usage == GroupUse::Nearness;
            if counts && domain != NO_DOMAIN && group.includes_host(host) {
                group.change(domain, by);
            }
        }
        for group_id in &appearance.owns {
            let group = &mut self.groups[*group_id];
            let domain = self.keys[group.key].host_domains[host];
            if domain != NO_DOMAIN {
                group.change_owners(domain, by);
            }
        }
    }

    /// What decides whether a place that was closed to these rules may have opened: the minima of the
    /// spreads, and whether any partner exists yet.
    pub(crate) fn openness(&self, rules: &PodRules) -> Vec<u64> {
        let minima = rules.spread.iter().map(|rule| u64::from(self.groups[rule.group].min(rule.min_domains)));
        let partners =
            rules.affinity.iter().flat_map(|rule| &rule.groups).map(|group| self.groups[*group].total);
        minima.chain(partners).collect()
    }
}
