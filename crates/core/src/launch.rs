//! What is bought, written out: each launch with its labels, its size and what could be bought instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::host::{Host, HostOrigin};
use crate::market;
use crate::names::{Labels, Text};
use crate::pack::{self, Packer};
use crate::plan::{Alternative, Launch};
use crate::pod::Taint;
use crate::provision::Prepared;
use crate::resources::Resources;
use crate::topology::HostId;

/// How many alternatives a launch names, at most, beyond what its pool's minValues ask for.
const ALTERNATIVES_MAX: usize = 15;

/// What all launches of one candidate have in common.
#[derive(Clone)]
struct Model {
    labels: Arc<Labels>,
    taints: Arc<[Taint]>,
    allocatable: Arc<Resources>,
}

/// A cell's candidate, with the pods on it by class.
type Filled<'a> = (usize, usize, &'a [(usize, u32)]);

impl Prepared<'_> {
    /// All that is planned, with the host of each. What is alike is written once.
    pub(crate) fn launches(&self, packer: &Packer<'_>) -> Vec<(HostId, Launch)> {
        let mut models: FxHashMap<(usize, usize), Model> = FxHashMap::default();
        let mut alike: FxHashMap<Filled<'_>, Launch> = FxHashMap::default();
        let mut launches = Vec::new();
        for (host_id, host) in packer.hosts.iter().enumerate() {
            let HostOrigin::Planned { cell, candidate } = host.origin else { continue };
            let launch = alike.entry((cell, candidate, &*host.placed)).or_insert_with(|| {
                let model = models.entry((cell, candidate)).or_insert_with(|| self.model(cell, candidate));
                self.launch_of_model(packer, host, cell, candidate, model.clone())
            });
            launches.push((host_id, launch.clone()));
        }
        self.name_launches(&mut launches);
        launches
    }

    pub(crate) fn launch(&self, packer: &Packer<'_>, host: &Host, cell: usize, candidate: usize) -> Launch {
        self.launch_of_model(packer, host, cell, candidate, self.model(cell, candidate))
    }

    fn model(&self, cell: usize, candidate: usize) -> Model {
        let cell = &self.market.cells[cell];
        let pool = &self.snapshot.pools[cell.pool];
        let chosen = &cell.candidates[candidate];
        let instance_type = &pool.types[chosen.instance_type];
        let offering = &instance_type.offerings[chosen.offering];
        Model {
            labels: Arc::new(market::node_labels(pool, &cell.custom, instance_type, offering)),
            taints: pool.taints.as_slice().into(),
            allocatable: Arc::new(instance_type.allocatable()),
        }
    }

    fn launch_of_model(
        &self,
        packer: &Packer<'_>,
        host: &Host,
        cell_index: usize,
        candidate: usize,
        model: Model,
    ) -> Launch {
        let cell = &self.market.cells[cell_index];
        let pool = &self.snapshot.pools[cell.pool];
        let chosen = &cell.candidates[candidate];
        let instance_type = &pool.types[chosen.instance_type];
        let offering = &instance_type.offerings[chosen.offering];
        let load = host.load(chosen);
        let mut requests = load.clone();
        pack::add_times(&mut requests, &cell.daemons, 1);
        let (alternatives, min_values_relaxed) = self.alternatives(packer, host, cell_index, chosen, &load);
        Launch {
            name: pool.name.clone(),
            pool: pool.name.clone(),
            instance_type: instance_type.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price: offering.price,
            estimated: offering.estimated,
            labels: model.labels,
            taints: model.taints,
            requests: Arc::new(self.dimensions.resources(&requests)),
            allocatable: model.allocatable,
            alternatives: alternatives.into(),
            min_values_relaxed,
        }
    }

    /// What could be bought in place of `chosen`, and whether minValues had to be given up.
    fn alternatives(
        &self,
        packer: &Packer<'_>,
        host: &Host,
        cell_index: usize,
        chosen: &market::Candidate,
        load: &[i64],
    ) -> (Vec<Alternative>, bool) {
        let pool_index = self.market.cells[cell_index].pool;
        let pool = &self.snapshot.pools[pool_index];
        let over_limit = |other: &market::Candidate| {
            packer.ledger.shortage_to_exchange(pool_index, chosen, other).is_some()
        };
        // Another zone or capacity type could break a spread or an affinity of the pods on it.
        let bound_to_cell = host.placed.iter().any(|(class, _)| {
            let class = &self.classes.all[*class];
            let rules = class.levels.last().map(|level| &level.rules);
            let near = rules.into_iter().flat_map(|rules| &rules.affinity).flat_map(|rule| &rule.groups);
            let spread = rules.into_iter().flat_map(|rules| &rules.spread).map(|rule| &rule.group);
            let groups = class.appearance.counted_by.iter().chain(&class.appearance.owns);
            groups.chain(near).chain(spread).any(|group| {
                let key = packer.topology.groups[*group].key;
                !packer.topology.keys[key].is_hostname
            })
        });
        // Cells are sorted by price: without minValues the first few of each are enough.
        let per_cell = if pool.requirements.has_min_values() { usize::MAX } else { ALTERNATIVES_MAX };
        // What would break a rule or a limit is only named for minValues, which count what the catalog has.
        let mut others: Vec<(bool, &market::Candidate)> = packer
            .cells_for(&host.placed, cell_index)
            .map(|cell| (bound_to_cell && cell != cell_index, cell))
            .filter(|(elsewhere, _)| per_cell == usize::MAX || !elsewhere)
            .flat_map(|(elsewhere, cell)| {
                packer
                    .substitutes_in(cell, cell_index, &host.placed, load)
                    .filter(|other| {
                        (other.instance_type, other.offering) != (chosen.instance_type, chosen.offering)
                    })
                    .map(move |other| (elsewhere || over_limit(other), other))
                    .filter(move |(last_resort, _)| per_cell == usize::MAX || !last_resort)
                    .take(per_cell)
            })
            .collect();
        others.sort_by_key(|(last_resort, other)| {
            (*last_resort, other.price, other.instance_type, other.offering)
        });
        let mut missing: Vec<(&Text, u32, BTreeSet<&str>)> = pool
            .requirements
            .min_values()
            .map(|(key, count)| (key, count, market::offered_label(pool, chosen, key).into_iter().collect()))
            .collect();
        let mut picked: Vec<&market::Candidate> = Vec::new();
        for (last_resort, other) in others {
            let helps = missing.iter().any(|(key, count, values)| {
                values.len() < *count as usize
                    && market::offered_label(pool, other, key).is_some_and(|value| !values.contains(value))
            });
            if helps || (picked.len() < ALTERNATIVES_MAX && !last_resort) {
                for (key, _, values) in &mut missing {
                    values.extend(market::offered_label(pool, other, key));
                }
                picked.push(other);
            }
        }
        picked.sort_by_key(|other| (other.price, other.instance_type, other.offering));
        let relaxed = missing.iter().any(|(_, count, values)| values.len() < *count as usize);
        let alternatives = picked
            .into_iter()
            .map(|other| {
                let instance_type = &pool.types[other.instance_type];
                let offering = &instance_type.offerings[other.offering];
                Alternative {
                    instance_type: instance_type.name.clone(),
                    zone: offering.zone.clone(),
                    capacity_type: offering.capacity_type,
                    price_per_hour: offering.price,
                }
            })
            .collect();
        (alternatives, relaxed)
    }

    /// Names launches `<pool>-1`, `<pool>-2`, … leaving out names that nodes already have.
    fn name_launches(&self, launches: &mut [(usize, Launch)]) {
        let taken: BTreeSet<&str> = self.snapshot.nodes.iter().map(|node| &*node.name).collect();
        let mut next: FxHashMap<Text, usize> = FxHashMap::default();
        let mut given: BTreeSet<Text> = BTreeSet::new();
        for (_, launch) in launches {
            let number = next.entry(launch.pool.clone()).or_insert(0);
            loop {
                *number += 1;
                let name = Text::from(format!("{}-{number}", launch.pool));
                if !taken.contains(&*name) && given.insert(name.clone()) {
                    launch.name = name;
                    break;
                }
            }
        }
    }
}
