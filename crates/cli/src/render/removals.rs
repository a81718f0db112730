//! What a plan takes away, and why the rest stays.

use std::collections::BTreeMap;

use berth_core::disruption::{DisruptionPolicy, DisruptionReason, SavingMin};
use berth_core::plan::{DisruptionStep, Kept, Launch, Plan};
use berth_core::reason::Reason;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;

use super::money::hourly;
use super::shorten::shorten;
use super::view::counted;

/// More steps than this nobody reads; programs get all of them.
const STEPS_MAX: usize = 50;

#[derive(Debug)]
pub(crate) struct Removals {
    /// All nodes that there are.
    pub(crate) nodes: usize,
    pub(crate) nodes_removed: usize,
    pub(crate) nodes_bought: usize,
    pub(crate) pods_moved: usize,
    pub(crate) saves: Price,
    pub(crate) steps: Vec<Step>,
    /// Steps that are not listed, and what they save.
    pub(crate) further: Option<(usize, Price)>,
    pub(crate) staying: Vec<Staying>,
    /// What a step had to be worth.
    pub(crate) terms: String,
}

/// Nodes that go together.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) action: &'static str,
    pub(crate) reason: DisruptionReason,
    pub(crate) node_count: usize,
    pub(crate) nodes: String,
    /// `2 s-4x-amd64-linux spot`; empty where nothing is bought.
    pub(crate) replacements: String,
    pub(crate) pods_moved: usize,
    pub(crate) saves: Price,
    pub(crate) why: String,
}

/// Nodes that stay for the same reason.
#[derive(Debug)]
pub(crate) struct Staying {
    pub(crate) count: usize,
    pub(crate) nodes: String,
    pub(crate) reason: Reason,
    /// Of the first of them.
    pub(crate) message: String,
}

impl Removals {
    pub(crate) fn of(plan: &Plan, snapshot: &Snapshot, policy: &DisruptionPolicy) -> Self {
        let steps = plan.disruptions.iter().enumerate().take(STEPS_MAX).map(|(i, step)| {
            Step::of(i + 1, step, step.replacements.iter().map(|l| &plan.launches[*l]), snapshot)
        });
        let further = plan.disruptions.get(STEPS_MAX..).unwrap_or_default();
        Self {
            nodes: snapshot.nodes.len(),
            nodes_removed: plan.nodes_removed(),
            nodes_bought: plan.disruptions.iter().map(|step| step.replacements.len()).sum(),
            pods_moved: plan.pods_moved(),
            saves: saved_by(&plan.disruptions),
            steps: steps.collect(),
            further: (!further.is_empty()).then(|| (further.len(), saved_by(further))),
            staying: staying(&plan.kept, snapshot),
            terms: terms(policy),
        }
    }

    /// `3 of 8 nodes can go, 1 is bought instead and 7 pods move: saves $0.3515 an hour.`
    pub(crate) fn verdict(&self) -> String {
        if self.nodes_removed == 0 {
            return "No node can go.".to_owned();
        }
        let bought = match self.nodes_bought {
            0 => String::new(),
            1 => ", 1 is bought instead".to_owned(),
            count => format!(", {count} are bought instead"),
        };
        let moved = match self.pods_moved {
            0 => "no pod moves".to_owned(),
            1 => "1 pod moves".to_owned(),
            count => format!("{count} pods move"),
        };
        let money = match self.saves.micro_usd() {
            0 => "at the same price".to_owned(),
            1.. => format!("saves {} an hour", hourly(self.saves)),
            _ => format!("costs {} an hour more", hourly(Price::ZERO.minus(self.saves))),
        };
        format!(
            "{} of {} can go{bought} and {moved}: {money}.",
            self.nodes_removed,
            counted(self.nodes, "node")
        )
    }
}

fn saved_by(steps: &[DisruptionStep]) -> Price {
    steps.iter().fold(Price::ZERO, |sum, step| sum.plus(step.saves))
}

impl Step {
    pub(crate) fn of<'l>(
        number: usize,
        step: &DisruptionStep,
        replacements: impl Iterator<Item = &'l Launch>,
        snapshot: &Snapshot,
    ) -> Self {
        let names = step.nodes.iter().map(|node| snapshot.nodes[*node].name.to_string());
        Self {
            number,
            action: step.action(),
            reason: step.reason,
            node_count: step.nodes.len(),
            nodes: shorten(names.collect()),
            replacements: counted_types(replacements),
            pods_moved: step.pods_moved,
            saves: step.saves,
            why: why(step, snapshot),
        }
    }
}

fn counted_types<'l>(launches: impl Iterator<Item = &'l Launch>) -> String {
    let mut alike = BTreeMap::<_, usize>::new();
    for launch in launches {
        *alike.entry((&launch.instance_type, launch.capacity_type)).or_default() += 1;
    }
    let words = alike.into_iter().map(|((name, capacity), count)| format!("{count} {name} {capacity}"));
    words.collect::<Vec<_>>().join(", ")
}

/// What is the matter with its nodes, and what the change is worth.
fn why(step: &DisruptionStep, snapshot: &Snapshot) -> String {
    let nodes = || step.nodes.iter().map(|node| &snapshot.nodes[*node].disruption);
    let own = match step.reason {
        DisruptionReason::Drifted => nodes().find_map(|node| node.drifted.as_deref()),
        DisruptionReason::Unhealthy => nodes().find_map(|node| Some(&*node.unhealthy.as_ref()?.message)),
        _ => None,
    };
    let matter = own.unwrap_or(match step.reason {
        DisruptionReason::Empty => "nothing to move",
        DisruptionReason::Underutilized if step.replacements.is_empty() => "its pods fit on other nodes",
        DisruptionReason::Underutilized => "its pods fit on cheaper nodes",
        DisruptionReason::Overprovisioned => "beyond the number that its pool should have",
        DisruptionReason::Drifted => "no longer what its pool asks for",
        DisruptionReason::Expired => "older than its pool lets it be",
        DisruptionReason::Unhealthy => "broken",
    });
    let matter = match step.optimization {
        Some(optimization) => format!("{optimization}: {matter}"),
        None => matter.to_owned(),
    };
    if step.saves <= Price::ZERO || step.pods_moved == 0 {
        return matter;
    }
    format!("{matter}; {} an hour for each unit of disruption", hourly(step.saves_per_cost()))
}

fn staying(kept: &[Kept], snapshot: &Snapshot) -> Vec<Staying> {
    let mut alike = BTreeMap::<Reason, Vec<&Kept>>::new();
    for kept in kept {
        alike.entry(kept.refusal.reason).or_default().push(kept);
    }
    alike
        .into_iter()
        .map(|(reason, kept)| {
            let name = |kept: &Kept| snapshot.nodes[kept.node].name.to_string();
            let messages = kept.iter().map(|kept| &kept.refusal.message);
            let alike = messages.clone().all(|message| message == &kept[0].refusal.message);
            let message = if alike {
                kept[0].refusal.message.clone()
            } else {
                format!("{}: {}", name(kept[0]), kept[0].refusal.message)
            };
            Staying {
                count: kept.len(),
                nodes: shorten(kept.iter().map(|kept| name(kept)).collect()),
                reason,
                message,
            }
        })
        .collect()
}

pub(crate) fn terms(policy: &DisruptionPolicy) -> String {
    let least = match policy.saving_min {
        SavingMin::Amount(amount) => format!("{} an hour", hourly(amount)),
        SavingMin::Percent(percent) => format!("{percent}% of what its nodes cost"),
    };
    format!(
        "To save money, a step must save at least {least}, and more than {} an hour for each unit of \
         disruption: one for each node, about one for each pod.",
        hourly(policy.price)
    )
}
