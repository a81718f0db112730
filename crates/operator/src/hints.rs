//! What pods are told: which node they are going to, or why there is none for them.

use berth_core::node::NodeState;
use berth_core::plan::{Host, Plan};
use berth_core::pod::{Pod, PodOrigin};
use futures::{StreamExt, stream};
use serde_json::json;

use crate::buy::WRITES_AT_ONCE;
use crate::journal::{About, Severity};
use crate::office::Office;
use crate::planning::Round;

/// So many pods are told something at once; the others the next time.
const TOLD_AT_ONCE_MAX: usize = 50;

impl Office {
    /// Names to pods that wait the nodes that are coming for them: so kube-scheduler keeps the room for them, and
    /// puts them where the plan has them.
    pub(crate) async fn nominate(&self, round: &Round, plan: &Plan) {
        let wanted = plan.binds.iter().filter_map(|bind| {
            let pod = round.snapshot.pods.get(bind.pod)?;
            let Host::Node(node) = bind.host else { return None };
            let node = round.snapshot.nodes.get(node)?;
            let is_coming = node.state == NodeState::Starting && round.is_registered(&node.name);
            let is_new = pod.nominated.is_none() && pod.node.is_none() && is_real(pod);
            (is_coming && is_new).then(|| (pod, node.name.clone()))
        });
        stream::iter(wanted.take(TOLD_AT_ONCE_MAX))
            .for_each_concurrent(WRITES_AT_ONCE, async |(pod, node)| {
                let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
                let change = json!({ "status": { "nominatedNodeName": &*node } });
                // It is a hint: without it the scheduler chooses by itself.
                let _ = self.desk.patch(&path, &change).await;
            })
            .await;
    }

    /// Says on pods without a place why they have none.
    pub(crate) async fn explain(&self, round: &Round, plan: &Plan) {
        let unplaced = plan.unplaced.iter().filter_map(|unplaced| {
            let pod = round.snapshot.pods.get(unplaced.pod).filter(|pod| is_real(pod))?;
            let reasons = unplaced.refusals.iter().map(|refusal| {
                let pool = refusal.pool.as_ref().map(|pool| format!("{pool}: ")).unwrap_or_default();
                format!("{pool}{}", refusal.refusal)
            });
            Some((pod, reasons.collect::<Vec<_>>().join("; ")))
        });
        let mut told = 0;
        for (pod, message) in unplaced {
            let about = About {
                api_version: "v1",
                kind: "Pod",
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                uid: String::new(),
            };
            let said = (Severity::Warning, "FailedScheduling", &*message);
            told += usize::from(self.journal.say(&self.desk, (&about, self.now()), said).await);
            if told == TOLD_AT_ONCE_MAX {
                return;
            }
        }
    }
}

/// Not one that only holds room, or that a workload has yet to make.
fn is_real(pod: &Pod) -> bool {
    pod.origin == PodOrigin::Object
}
