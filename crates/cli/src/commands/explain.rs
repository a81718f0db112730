//! `berth explain`

use berth_core::snapshot::Snapshot;
use berth_core::{explain, provision};

use super::{Answer, Failure, input};
use crate::args::{ExplainPod, PodName};
use crate::render::{explain::pod_text, shorten::shorten, style::Style};
use crate::{out, progress};

pub(crate) fn run(explain: &ExplainPod) -> Result<Answer, Failure> {
    let Some(judged) = input::read(&explain.input)? else { return Ok(Answer::BadInput) };
    let pod = find(&judged.snapshot, &explain.pod)?;
    let text = progress::during("Planning", |_| {
        let plan = provision::plan(&judged.snapshot, &judged.policy);
        let story = explain::pod(&judged.snapshot, &judged.policy, pod);
        pod_text(pod, &plan, story.as_ref(), &judged.snapshot, Style::of_stdout())
    });
    out::text(&text)?;
    Ok(if judged.incomplete { Answer::BadInput } else { Answer::Done })
}

fn find(snapshot: &Snapshot, wanted: &PodName) -> Result<usize, Failure> {
    let found =
        snapshot.pods.iter().position(|pod| pod.namespace == wanted.namespace && pod.name == wanted.name);
    found.ok_or_else(|| {
        let near = snapshot.pods.iter().filter(|pod| pod.namespace == wanted.namespace);
        let near = shorten(near.map(berth_core::pod::Pod::id).collect());
        Failure::NoSuchPod { pod: format!("{}/{}", wanted.namespace, wanted.name), near }
    })
}
