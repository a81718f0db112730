//! Berth's verdicts on the same manifests.

use std::collections::BTreeMap;

use berth_api::{Context, Source, Timestamp};
use berth_core::check::{self, Violation};
use berth_core::plan::{Bind, Host, Plan};
use berth_core::provision;
use berth_core::snapshot::{Policy, Snapshot};
use berth_core::units::Price;
use serde_json::{Value, json};

pub(crate) struct Judged {
    /// For each node the checker's objection to the pod there; an empty text where it has none.
    pub(crate) nodes: BTreeMap<String, String>,
    /// Where the planner puts the pod, or why it has no place.
    pub(crate) placed: Result<String, String>,
}

pub(crate) fn judge(objects: &[Value]) -> Result<Judged, String> {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let source = Source::Text { name: "case".to_owned(), text };
    let manifests = berth_api::read(&[source], &mut |_, _| {});
    let context = Context { now: Timestamp::UNIX_EPOCH, node_cost: Price::ZERO };
    let assembled =
        berth_api::assemble(manifests, &context, &mut |_| Err("there is nothing to buy".to_owned()));
    if let Some(problem) = assembled.problems.first() {
        return Err(problem.to_string());
    }
    let snapshot = assembled.snapshot;
    let mut waiting = (0..snapshot.pods.len())
        .filter(|index| snapshot.pods[*index].node.is_none() && snapshot.pods[*index].is_active());
    let (Some(pod), None) = (waiting.next(), waiting.next()) else {
        return Err("not exactly one pod looks for a place".to_owned());
    };
    let nodes = snapshot.nodes.iter().enumerate();
    let nodes = nodes.map(|(index, node)| (node.name.to_string(), objection(&snapshot, pod, index)));
    Ok(Judged { nodes: nodes.collect(), placed: placed(&snapshot, pod)? })
}

/// What the checker has against a plan that does nothing but bind the pod to the node.
fn objection(snapshot: &Snapshot, pod: usize, node: usize) -> String {
    let plan = Plan { binds: vec![Bind { pod, host: Host::Node(node) }], ..Plan::default() };
    let violations = check::check(snapshot, &Policy::default(), &plan);
    let misfit = |violation: &Violation| matches!(violation, Violation::Misfit { .. });
    violations.iter().find(|violation| misfit(violation)).map_or_else(String::new, ToString::to_string)
}

fn placed(snapshot: &Snapshot, pod: usize) -> Result<Result<String, String>, String> {
    let policy = Policy::default();
    let plan = provision::plan(snapshot, &policy);
    if let Some(violation) = check::check(snapshot, &policy, &plan).first() {
        return Err(format!("the plan breaks a rule: {violation}"));
    }
    let host = plan.binds.iter().find(|bind| bind.pod == pod).map(|bind| bind.host);
    Ok(match host {
        Some(Host::Node(node)) => Ok(snapshot.nodes[node].name.to_string()),
        Some(Host::Launch(_)) => Err("it buys a node although there is nothing to buy".to_owned()),
        None => Err(plan
            .unplaced
            .iter()
            .flat_map(|unplaced| &unplaced.refusals)
            .map(|refusal| refusal.refusal.to_string())
            .collect::<Vec<_>>()
            .join("; ")),
    })
}
