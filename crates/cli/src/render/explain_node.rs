//! Why a node stays, or what taking it away saves and moves.

use std::collections::BTreeMap;

use berth_core::disruption::{DisruptionPolicy, Leaving};
use berth_core::explain::{Checked, Removal, Way};
use berth_core::reason::Refusal;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use comfy_table::CellAlignment;

use super::money::{hourly, monthly};
use super::removals::{Step, terms};
use super::style::{Style, Tone, cell, printable, toned_cell};
use super::view::{counted, pod_names};

/// Whether the node goes and why, what each rule says, and where its pods would go.
pub(crate) fn node_text(
    index: usize,
    removal: &Removal,
    snapshot: &Snapshot,
    policy: &DisruptionPolicy,
    style: Style,
) -> String {
    let mut paragraphs = vec![fate(index, removal, snapshot, style)];
    let mut section = |heading: &str, body: &str| {
        paragraphs.push(format!("{}\n{body}", style.heading(heading)));
    };
    let heading = format!("Rules for taking it away as {}", removal.reason.name());
    section(&heading, &rules(removal, style));
    if !removal.checks.is_empty() {
        let checks = removal.checks.iter().map(|(check, checked)| (check.name(), checked));
        section("VPSie's checks", &verdicts(checks, style));
    }
    if !removal.rebalancing.is_empty() {
        let checks = removal.rebalancing.iter().map(|(check, checked)| (check.name(), checked));
        section("Checks of VPSie's rebalancer, for a cheaper node instead", &verdicts(checks, style));
    }
    if let Some(way) = &removal.way {
        let heading = if removal.planned { "How it goes" } else { "How it would go, alone" };
        section(heading, &how(way, snapshot, style));
    }
    paragraphs.push(style.paragraph(&terms(policy)));
    paragraphs.join("\n\n") + "\n"
}

fn fate(index: usize, removal: &Removal, snapshot: &Snapshot, style: Style) -> String {
    let node = &snapshot.nodes[index];
    let name = printable(&node.name);
    if removal.planned {
        return format!(
            "{}, as {}",
            style.toned(&format!("{name} can go"), Tone::Good),
            removal.reason.name()
        );
    }
    let price = node.price.map_or("at an unknown price".to_owned(), |price| {
        format!("at {} an hour, {} a month", hourly(price), monthly(price))
    });
    let mut text = format!("{}, {price}", style.toned(&format!("{name} stays"), Tone::Bad));
    let by_rules = removal.verdicts.iter().filter_map(|verdict| verdict.refusal.as_ref());
    for Refusal { reason, message } in by_rules.chain(&removal.refusal) {
        let meaning = format!("{reason}: {} To change that, {}.", reason.meaning(), reason.remedy());
        text = format!("{text}\n\n{}\n{}", style.paragraph(&printable(message)), style.paragraph(&meaning));
    }
    text
}

fn rules(removal: &Removal, style: Style) -> String {
    let mut table = style.table(["RULE", "", "BECAUSE"], [CellAlignment::Left; 3]);
    for verdict in &removal.verdicts {
        let (word, tone, because) = match &verdict.refusal {
            None => ("passed", Tone::Good, ""),
            Some(refusal) if verdict.only == Some(Leaving::ForGood) => {
                ("unless replaced", Tone::Quiet, &*refusal.message)
            }
            Some(refusal) => ("stands in the way", Tone::Bad, &*refusal.message),
        };
        table.add_row([cell(verdict.rule.name()), toned_cell(word, tone), cell(because)]);
    }
    table.trim_fmt()
}

fn verdicts<'c>(checks: impl Iterator<Item = (&'static str, &'c Checked)>, style: Style) -> String {
    let mut table = style.table(["CHECK", "", "BECAUSE"], [CellAlignment::Left; 3]);
    for (check, checked) in checks {
        let (word, tone, because) = match checked {
            Checked::Passed => ("passed", Tone::Good, ""),
            Checked::Failed(refusal) => ("failed", Tone::Bad, &*refusal.message),
            Checked::Unasked => ("not looked at", Tone::Quiet, "the node is going already"),
        };
        table.add_row([cell(check), toned_cell(word, tone), cell(because)]);
    }
    table.trim_fmt()
}

fn how(way: &Way, snapshot: &Snapshot, style: Style) -> String {
    use CellAlignment::{Left, Right};
    let step = Step::of(1, &way.step, way.replacements.iter(), snapshot);
    let mut facts = vec![format!("{} {}: {}.", step.action, printable(&step.nodes), printable(&step.why))];
    if !step.replacements.is_empty() {
        facts.push(format!("Bought instead: {}.", printable(&step.replacements)));
    }
    let saves = if step.saves < Price::ZERO {
        let more = Price::ZERO.minus(step.saves);
        format!("costs {} an hour more, {} a month", hourly(more), monthly(more))
    } else {
        format!("saves {} an hour, {} a month", hourly(step.saves), monthly(step.saves))
    };
    facts.push(format!(
        "Moves {}, a disruption of {}, and {saves}.",
        counted(step.pods_moved, "pod"),
        way.step.cost
    ));
    let mut lines: Vec<String> = facts.iter().map(|fact| style.paragraph(fact)).collect();
    let mut by_host = BTreeMap::<_, Vec<usize>>::new();
    for moved in &way.moves {
        by_host.entry(&moved.to).or_default().push(moved.pod);
    }
    if !by_host.is_empty() {
        let mut table = style.table(["TO", "PODS", "WHICH"], [Left, Right, Left]);
        for (host, pods) in by_host {
            table.add_row([cell(host), cell(&pods.len().to_string()), cell(&pod_names(snapshot, &pods))]);
        }
        lines.push(table.trim_fmt());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use berth_core::explain::{Move, checks as checks_of};
    use berth_core::reason::Reason;
    use berth_core::safety::Safety;

    use super::super::fixtures::{assert_golden, scenes};
    use super::*;

    #[test]
    fn every_fate_of_a_node_has_words() {
        let scene = scenes().into_iter().find(|scene| scene.name == "scattered").expect("it exists");
        let (plan, snapshot) = (&scene.plan, &scene.snapshot);
        let judged = |node: usize| {
            let safety = Safety::judge(snapshot).nodes.swap_remove(node);
            let (reason, cost, verdicts) = (safety.reason, safety.cost, safety.verdicts);
            let checks = checks_of(&verdicts, None);
            let rebalancing = Vec::new();
            Removal { reason, cost, verdicts, checks, rebalancing, planned: false, refusal: None, way: None }
        };
        let way = |step: usize, pods: &[usize]| {
            let step = plan.disruptions[step].clone();
            let replacements: Vec<_> = step.replacements.iter().map(|l| plan.launches[*l].clone()).collect();
            let to = replacements.first().map(|launch| launch.name.clone()).unwrap_or_default();
            let moves = pods.iter().map(|pod| Move { pod: *pod, to: to.clone() }).collect();
            Some(Way { step, replacements, moves })
        };
        let mut dearer = way(2, &[6]);
        if let Some(way) = &mut dearer {
            way.step.saves = Price::from_micro_usd(-1000);
        }
        let too_small = Reason::SavingTooSmall.because("it would save $0.0010 an hour");
        let texts = [
            (1, Removal { planned: true, way: way(0, &[]), ..judged(1) }),
            (5, Removal { planned: true, way: way(1, &[1, 2]), ..judged(5) }),
            (4, Removal { planned: true, way: dearer, ..judged(4) }),
            (2, judged(2)),
            (0, Removal { refusal: Some(too_small), way: way(2, &[7]), ..judged(0) }),
        ]
        .map(|(node, removal)| {
            let policy = scene.removing.clone().unwrap_or_default();
            node_text(node, &removal, snapshot, &policy, Style { colour: false, width: Some(100) })
        });
        assert_golden("explain-node.txt", &texts.join("\n"));
    }
}
