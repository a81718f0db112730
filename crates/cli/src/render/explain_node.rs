//! Why a node stays, or what taking it away saves and moves.

use berth_core::disruption::DisruptionPolicy;
use berth_core::plan::{DisruptionStep, Plan};
use berth_core::safety::NodeSafety;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use comfy_table::CellAlignment;

use super::money::{hourly, monthly};
use super::removals::{Step, terms};
use super::style::{Style, Tone, cell, printable, toned_cell};
use super::view::{counted, pod_names};

/// Whether the node goes and why, what each rule says, and what is on it.
pub(crate) fn node_text(
    index: usize,
    plan: &Plan,
    safety: &NodeSafety,
    snapshot: &Snapshot,
    policy: &DisruptionPolicy,
    style: Style,
) -> String {
    let mut paragraphs = vec![fate(index, plan, snapshot, style)];
    let mut section = |heading: &str, body: &str| {
        paragraphs.push(format!("{}\n{body}", style.heading(heading)));
    };
    let heading = format!("Rules for taking it away as {}", safety.reason.name());
    section(&heading, &rules(safety, style));
    section("What is on it", &contents(index, snapshot, style));
    paragraphs.push(style.paragraph(&terms(policy)));
    paragraphs.join("\n\n") + "\n"
}

fn fate(index: usize, plan: &Plan, snapshot: &Snapshot, style: Style) -> String {
    let node = &snapshot.nodes[index];
    let name = printable(&node.name);
    let goes = |step: &DisruptionStep| step.nodes.contains(&index);
    if let Some(position) = plan.disruptions.iter().position(goes) {
        let verdict = style.toned(&format!("{name} can go"), Tone::Good);
        let step = Step::of(position + 1, &plan.disruptions[position], plan, snapshot);
        return format!("{verdict}: {}", of_step(&step, plan));
    }
    let price = node.price.map_or("of unknown price".to_owned(), |price| {
        format!("at {} an hour, {} a month", hourly(price), monthly(price))
    });
    let verdict = style.toned(&format!("{name} stays"), Tone::Bad);
    match plan.kept.iter().find(|kept| kept.node == index).map(|kept| &kept.refusal) {
        Some(refusal) => format!(
            "{verdict}, {price}: {}\n\n  {}: {} To change that, {}.",
            printable(&refusal.message),
            refusal.reason,
            refusal.reason.meaning(),
            refusal.reason.remedy(),
        ),
        None => format!("{verdict}, {price}"),
    }
}

fn of_step(step: &Step, plan: &Plan) -> String {
    let together = match step.node_count {
        1 => String::new(),
        _ => format!(", together: {}", printable(&step.nodes)),
    };
    let instead = match &*step.replacements {
        "" => String::new(),
        replacements => format!("; instead, buy {}", printable(replacements)),
    };
    let saves = if step.saves < Price::ZERO {
        let more = Price::ZERO.minus(step.saves);
        format!("costs {} an hour more, {} a month", hourly(more), monthly(more))
    } else {
        format!("saves {} an hour, {} a month", hourly(step.saves), monthly(step.saves))
    };
    format!(
        "{}; {}\n  Step {} of {}: {} {}{together}{instead}\n  It moves {} and {saves}",
        step.reason.name(),
        printable(&step.why),
        step.number,
        plan.disruptions.len(),
        step.action,
        counted(step.node_count, "node"),
        counted(step.pods_moved, "pod"),
    )
}

fn rules(safety: &NodeSafety, style: Style) -> String {
    let mut table = style.table(["RULE", "", "BECAUSE"], [CellAlignment::Left; 3]);
    for verdict in &safety.verdicts {
        let (word, tone, because) = match &verdict.refusal {
            None => ("passes", Tone::Good, ""),
            Some(refusal) => ("refuses", Tone::Bad, &*refusal.message),
        };
        table.add_row([cell(verdict.rule.name()), toned_cell(word, tone), cell(because)]);
    }
    table.trim_fmt()
}

fn contents(index: usize, snapshot: &Snapshot, style: Style) -> String {
    let node = &snapshot.nodes[index];
    let here = |pod: &usize| {
        let pod = &snapshot.pods[*pod];
        pod.is_active() && pod.node.as_ref() == Some(&node.name)
    };
    let (own, others): (Vec<usize>, Vec<usize>) =
        (0..snapshot.pods.len()).filter(here).partition(|pod| snapshot.pods[*pod].belongs_to_node());
    let mut table =
        style.table(["PODS", "", "WHICH"], [CellAlignment::Right, CellAlignment::Left, CellAlignment::Left]);
    for (pods, what) in [(others, "that would have to move"), (own, "that go with it")] {
        let names = if pods.is_empty() { "-".to_owned() } else { pod_names(snapshot, &pods) };
        table.add_row([cell(&pods.len().to_string()), cell(what), cell(&names)]);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use berth_core::disruption::{DisruptionCost, DisruptionReason};
    use berth_core::safety::Safety;

    use super::super::fixtures::{assert_golden, scenes};
    use super::*;

    #[test]
    fn every_fate_of_a_node_has_words() {
        let scene = scenes().into_iter().find(|scene| scene.name == "scattered").expect("it exists");
        let policy = scene.removing.clone().unwrap_or_default();
        let safety = Safety::judge(&scene.snapshot);
        let dearer = Plan {
            disruptions: vec![DisruptionStep {
                reason: DisruptionReason::Expired,
                nodes: vec![1],
                replacements: vec![0],
                first_bind: 0,
                pods_moved: 0,
                saves: Price::from_micro_usd(-1000),
                cost: DisruptionCost::NODE,
            }],
            ..scene.plan.clone()
        };
        let text: Vec<String> =
            [(&scene.plan, 0), (&scene.plan, 2), (&scene.plan, 4), (&scene.plan, 5), (&dearer, 1)]
                .into_iter()
                .map(|(plan, node)| {
                    node_text(node, plan, &safety.nodes[node], &scene.snapshot, &policy, Style::PLAIN)
                })
                .collect();
        assert_golden("explain-node.txt", &text.join("\n"));
    }
}
