//! One pod's fate, in words.

use berth_core::explain::{NodeStory, PodStory, PoolStory, Removed};
use berth_core::plan::{Host, Plan};
use berth_core::pod::{Pod, PodPhase};
use berth_core::snapshot::Snapshot;
use comfy_table::CellAlignment;

use super::money::hourly;
use super::shorten::shorten;
use super::style::{Style, Tone, cell, printable};
use super::table::refusals;
use super::view::{counted, merged};

/// Where the pod is or goes, or why it cannot go anywhere; then what each rule took away.
pub(crate) fn pod_text(
    index: usize,
    plan: &Plan,
    story: Option<&PodStory>,
    snapshot: &Snapshot,
    style: Style,
) -> String {
    let mut paragraphs = vec![fate(index, plan, snapshot, style)];
    let mut section = |heading: &str, body: &str| {
        paragraphs.push(format!("{}\n{body}", style.heading(heading)));
    };
    for (pools, story) in story.map(|story| alike(&story.pools)).unwrap_or_default() {
        let heading = format!(
            "Pool {}: {}, {} left",
            printable(&pools),
            counted(story.offerings, "offering"),
            story.left
        );
        section(&heading, &removals(story, style));
    }
    if let Some(story) = story.filter(|story| !story.nodes.is_empty()) {
        section("Existing nodes", &nodes(&story.nodes, style));
    }
    paragraphs.join("\n\n") + "\n"
}

fn fate(index: usize, plan: &Plan, snapshot: &Snapshot, style: Style) -> String {
    let pod = &snapshot.pods[index];
    let id = printable(&pod.id());
    if let Some(unplaced) = plan.unplaced.iter().find(|unplaced| unplaced.pod == index) {
        let verdict = style.toned(&format!("{id} has no place"), Tone::Bad);
        let groups = merged(&unplaced.refusals);
        let mut reasons: Vec<_> = groups.iter().map(|group| group.reason).collect();
        reasons.sort();
        reasons.dedup();
        let meanings = reasons
            .iter()
            .map(|reason| format!("  {reason}: {} To change that, {}.", reason.meaning(), reason.remedy()));
        let meanings = meanings.collect::<Vec<_>>().join("\n");
        return format!("{verdict}\n{}\n\n{meanings}", refusals(&groups, style));
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
    format!("{id} {fate}")
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

/// Pools to which the same happened, together.
fn alike(pools: &[PoolStory]) -> Vec<(String, &PoolStory)> {
    let mut groups: Vec<(Vec<String>, &PoolStory)> = Vec::new();
    for story in pools {
        let same = |known: &PoolStory| known.removed == story.removed && known.offerings == story.offerings;
        match groups.iter_mut().find(|(_, known)| same(known)) {
            Some((names, _)) => names.push(story.pool.to_string()),
            None => groups.push((vec![story.pool.to_string()], story)),
        }
    }
    groups.into_iter().map(|(names, story)| (shorten(names), story)).collect()
}

/// How many offerings each rule took, and how many it left.
fn removals(story: &PoolStory, style: Style) -> String {
    use CellAlignment::{Left, Right};
    if story.removed.is_empty() {
        return "  No rule took any away.".to_owned();
    }
    let mut table = style.table(["REMOVED", "LEFT", "REASON", "BECAUSE"], [Right, Right, Left, Left]);
    let mut left = story.offerings;
    for Removed { offerings, refusal } in &story.removed {
        left = left.saturating_sub(*offerings);
        table.add_row([
            cell(&offerings.to_string()),
            cell(&left.to_string()),
            cell(refusal.reason.name()),
            cell(&refusal.message),
        ]);
    }
    table.trim_fmt()
}

fn nodes(stories: &[NodeStory], style: Style) -> String {
    use CellAlignment::{Left, Right};
    let mut table = style.table(["NODES", "REASON", "SUCH AS", "BECAUSE"], [Right, Left, Left, Left]);
    for story in stories {
        table.add_row([
            cell(&story.nodes.to_string()),
            cell(story.reason.name()),
            cell(&story.example),
            cell(&story.message),
        ]);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use berth_core::reason::Reason;

    use super::super::fixtures::{assert_golden, scenes};
    use super::*;

    #[test]
    fn every_fate_has_words() {
        let scene = scenes().into_iter().find(|scene| scene.name == "shop").expect("it exists");
        let pool = |name: &str| PoolStory {
            pool: name.into(),
            offerings: 1152,
            removed: vec![
                Removed { offerings: 576, refusal: Reason::NodeSelector.because("wants arch amd64") },
                Removed { offerings: 576, refusal: Reason::InsufficientCpu.because("asks for 64 cpu") },
            ],
            left: 0,
        };
        let story = PodStory {
            placed_on: None,
            refused: None,
            pools: vec![pool("batch"), pool("default")],
            nodes: vec![NodeStory {
                reason: Reason::InsufficientCpu,
                nodes: 1,
                example: "old-1".into(),
                message: "asks for 64 cpu; 1400m is free".to_owned(),
            }],
        };
        let text: Vec<String> = [(0, None), (11, None), (12, Some(&story)), (14, None), (15, None)]
            .map(|(pod, story)| pod_text(pod, &scene.plan, story, &scene.snapshot, Style::PLAIN))
            .into_iter()
            .collect();
        assert_golden("explain.txt", &text.join("\n"));
    }
}
