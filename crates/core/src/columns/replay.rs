//! An arrangement of patterns as steps of the packer, in an order in which every rule holds.

use std::collections::BTreeMap;

use crate::host::HostOrigin;
use crate::pack::Packer;
use crate::topology::{HostId, Place};

use super::model::{Model, Part, Pattern, SiteKind};

/// Pods of a class that go to one machine.
struct Move {
    part: Part,
    machine: usize,
}

/// A machine of the arrangement, bought when its first pod comes.
enum Machine {
    Bought(HostId),
    Wanted { cell: usize, candidate: usize },
}

/// Does with `fresh` what `patterns` say, and with the pods that stay what `packer` did. Pods of which the
/// patterns say nothing, or that no order of steps brings there, are packed as usual.
pub(super) fn replay<'a>(
    packer: &Packer<'a>,
    mut fresh: Packer<'a>,
    model: &Model,
    patterns: &[Pattern],
) -> Packer<'a> {
    let mut machines: Vec<Machine> = (0..packer.existing()).map(Machine::Bought).collect();
    let mut machine_of: BTreeMap<HostId, usize> = (0..packer.existing()).map(|host| (host, host)).collect();
    let fixed_nodes: Vec<HostId> = packer.fixed_nodes().collect();
    for host in &model.kept {
        if let HostOrigin::Planned { cell, candidate } = packer.hosts[*host].origin {
            machine_of.insert(*host, machines.len());
            // A node that exists whatever the pods want is there from the start.
            machines.push(if fixed_nodes.contains(host) {
                Machine::Bought(fresh.buy_fixed(cell, candidate))
            } else {
                Machine::Wanted { cell, candidate }
            });
        }
    }
    let mut moves: BTreeMap<usize, Vec<Move>> = BTreeMap::new();
    for (host, part) in &model.fixed {
        moves.entry(part.class).or_default().push(Move { part: *part, machine: machine_of[host] });
    }
    let mut shares: Vec<Vec<Part>> = model.items.iter().map(|item| item.parts.clone()).collect();
    for pattern in patterns {
        let machine = match model.sites[pattern.site].kind {
            SiteKind::Host(host) => machine_of[&host],
            SiteKind::New { cell, candidate } => {
                machines.push(Machine::Wanted { cell, candidate });
                machines.len() - 1
            }
        };
        for (item, pods) in &pattern.items {
            for part in take(&mut shares[*item], *pods) {
                moves.entry(part.class).or_default().push(Move { part, machine });
            }
        }
    }
    let order = packer.order.clone();
    loop {
        let mut progress = false;
        for class in &order {
            if let Some(moves) = moves.get_mut(class) {
                progress |= make(&mut fresh, moves, &mut machines);
            }
        }
        moves.retain(|_, moves| !moves.is_empty());
        if moves.is_empty() || !progress {
            break;
        }
    }
    // What costs less leaves more of a limit: there may be room now for pods that had none.
    if fresh.left.iter().any(|left| *left > 0) {
        fresh.pack();
    }
    fresh
}

/// So many pods of an item, from whichever classes have any left.
fn take(parts: &mut Vec<Part>, mut pods: u32) -> Vec<Part> {
    let mut taken = Vec::new();
    while pods > 0
        && let Some(last) = parts.last_mut()
    {
        let part = Part { pods: last.pods.min(pods), ..*last };
        last.pods -= part.pods;
        pods -= part.pods;
        taken.push(part);
        if last.pods == 0 {
            parts.pop();
        }
    }
    taken
}

/// Makes the moves of a class that the rules allow now, again while that allows others.
fn make(fresh: &mut Packer<'_>, moves: &mut Vec<Move>, machines: &mut [Machine]) -> bool {
    let mut any = false;
    loop {
        let mut progress = false;
        moves.retain_mut(|next| {
            let placed = make_one(fresh, next.part, &mut machines[next.machine]);
            next.part.pods -= placed;
            progress |= placed > 0;
            next.part.pods > 0
        });
        if !progress {
            return any;
        }
        any = true;
    }
}

fn make_one(fresh: &mut Packer<'_>, part: Part, machine: &mut Machine) -> u32 {
    let host = match *machine {
        Machine::Bought(host) => host,
        Machine::Wanted { cell, candidate } => {
            let class = &fresh.classes.all[part.class];
            let rules = &class.levels[part.level].rules;
            if fresh.topology.room(rules, &class.appearance, Place::NewIn(cell)).is_err()
                || !fresh.can_buy(cell, candidate)
            {
                return 0;
            }
            let host = fresh.buy(cell, candidate);
            *machine = Machine::Bought(host);
            host
        }
    };
    fresh.place_up_to(part.pods, part.class, part.level, host)
}
