//! `berth explain`

use berth_core::disruption::DisruptionPolicy;
use berth_core::snapshot::Snapshot;
use berth_core::{explain, provision};

use super::input::{self, Judged};
use super::{Answer, Failure};
use crate::args::{ExplainNode, ExplainPod, PodName};
use crate::render::{explain::pod_text, explain_node::node_text, shorten::shorten, style::Style};
use crate::{out, progress};

pub(crate) fn pod(explain: &ExplainPod) -> Result<Answer, Failure> {
    let Some(judged) = input::read(&explain.input, DisruptionPolicy::default())? else {
        return Ok(Answer::BadInput);
    };
    let pod = find_pod(&judged.snapshot, &explain.pod)?;
    let text = progress::during("Planning", |_| {
        let plan = provision::plan(&judged.snapshot, &judged.policy);
        let story = explain::pod(&judged.snapshot, &judged.policy, pod);
        pod_text(pod, &plan, story.as_ref(), &judged.snapshot, Style::of_stdout())
    });
    out::text(&text)?;
    Ok(if judged.incomplete { Answer::BadInput } else { Answer::Done })
}

pub(crate) fn node(wanted: &ExplainNode) -> Result<Answer, Failure> {
    let Some(judged) = input::read(&wanted.input, wanted.worth.policy())? else {
        return Ok(Answer::BadInput);
    };
    let Judged { snapshot, policy, incomplete, .. } = &judged;
    let node = find_node(snapshot, &wanted.node)?;
    if !judged.may_remove() {
        return Ok(Answer::BadInput);
    }
    let text = progress::during("Planning", |_| {
        let removal = explain::node(snapshot, policy, node);
        node_text(node, &removal, snapshot, &policy.disruption, Style::of_stdout())
    });
    out::text(&text)?;
    Ok(if *incomplete { Answer::BadInput } else { Answer::Done })
}

fn find_node(snapshot: &Snapshot, wanted: &str) -> Result<usize, Failure> {
    let found = snapshot.nodes.iter().position(|node| *node.name == *wanted);
    found.ok_or_else(|| {
        let known = shorten(snapshot.nodes.iter().map(|node| node.name.to_string()).collect());
        Failure::NoSuchNode { node: wanted.to_owned(), known }
    })
}

fn find_pod(snapshot: &Snapshot, wanted: &PodName) -> Result<usize, Failure> {
    let found =
        snapshot.pods.iter().position(|pod| pod.namespace == wanted.namespace && pod.name == wanted.name);
    found.ok_or_else(|| {
        let near = snapshot.pods.iter().filter(|pod| pod.namespace == wanted.namespace);
        let near = shorten(near.map(berth_core::pod::Pod::id).collect());
        Failure::NoSuchPod { pod: format!("{}/{}", wanted.namespace, wanted.name), near }
    })
}
