//! One pod's fate, in words.

use berth_core::plan::{Host, Plan};
use berth_core::pod::{Pod, PodPhase};
use berth_core::snapshot::Snapshot;

use super::money::hourly;
use super::style::{Style, Tone, printable};
use super::table::refusals;
use super::view::merged;

/// Where the pod is or goes, or why it cannot go anywhere.
pub(crate) fn pod_text(index: usize, plan: &Plan, snapshot: &Snapshot, style: Style) -> String {
    let pod = &snapshot.pods[index];
    let id = printable(&pod.id());
    if let Some(unplaced) = plan.unplaced.iter().find(|unplaced| unplaced.pod == index) {
        let verdict = style.toned(&format!("{id} has no place"), Tone::Bad);
        let groups = merged(&unplaced.refusals);
        let meanings: Vec<String> = groups
            .iter()
            .map(|group| format!("  {}: {}", style.heading(group.reason.name()), group.reason.meaning()))
            .collect();
        return format!("{verdict}\n{}\n\n{}\n", refusals(&groups, style), unique(meanings).join("\n"));
    }
    let fate = match plan.binds.iter().find(|bind| bind.pod == index).map(|bind| bind.host) {
        Some(Host::Node(node)) => {
            format!("fits on the existing node {}", printable(&snapshot.nodes[node].name))
        }
        Some(Host::Launch(launch)) => {
            let launch = &plan.launches[launch];
            format!(
                "needs a new node: {} in {} as {} from pool {}, at {} an hour{}",
                printable(&launch.instance_type),
                printable(&launch.zone),
                launch.capacity_type,
                printable(&launch.pool),
                hourly(launch.price),
                if launch.estimated { " (estimated)" } else { "" },
            )
        }
        None => standing(pod),
    };
    format!("{id} {fate}\n")
}

/// Of a pod with which the plan does nothing.
fn standing(pod: &Pod) -> String {
    match (&pod.node, pod.phase) {
        (_, PodPhase::Succeeded | PodPhase::Failed) => "has finished and needs no place".to_owned(),
        (Some(node), _) => format!("has its place on node {}", printable(node)),
        (None, _) if pod.deleting => "is being deleted and needs no place".to_owned(),
        (None, _) if pod.belongs_to_node() => "comes with its node and is not placed on its own".to_owned(),
        (None, _) => "is not part of the plan".to_owned(),
    }
}

fn unique(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{assert_golden, scenes};
    use super::*;

    #[test]
    fn every_fate_has_words() {
        let scene = scenes().into_iter().find(|scene| scene.name == "shop").expect("it exists");
        let text: Vec<String> = [0, 11, 12, 14, 15]
            .map(|pod| pod_text(pod, &scene.plan, &scene.snapshot, Style::PLAIN))
            .into_iter()
            .collect();
        assert_golden("explain.txt", &text.join("\n"));
    }
}
