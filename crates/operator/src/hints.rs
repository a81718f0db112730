//! What pods are told: which node they are going to, or why there is none for them.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::founding::Outcome;
use berth_core::names::Text;
use berth_core::node::NodeState;
use berth_core::plan::{Host, Plan, PoolRefusal};
use berth_core::pod::{Pod, PodOrigin};
use berth_core::reason::Reason;
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;

use crate::buy::WRITES_AT_ONCE;
use crate::claim::Claim;
use crate::journal::{About, SAID_AGAIN, Severity};
use crate::objects::Versioned;
use crate::office::{Office, PodName};
use crate::planning::Round;

/// So many pods are told something at once; the others the next time.
const TOLD_AT_ONCE_MAX: usize = 50;

/// What a group that could be made is called.
const NEW_GROUP: &str = "a new group";

impl Office {
    /// Names to pods that wait the nodes that have just come for them: so kube-scheduler keeps the room for them, and
    /// puts them where the plan has them. It forgets that with every attempt that fails.
    pub(crate) async fn nominate(&self, round: &Round, plan: &Plan) {
        let expected = expected(round, plan);
        let come = expected.iter().filter(|(node, _)| round.is_registered(node));
        let wanted = come.flat_map(|(node, pods)| pods.iter().map(move |pod| (pod, node)));
        stream::iter(wanted.take(TOLD_AT_ONCE_MAX))
            .for_each_concurrent(WRITES_AT_ONCE, async |(pod, node)| self.nominate_one(pod, node).await)
            .await;
        self.counts_awaited(round, expected.keys());
        *self.expected() = expected;
    }

    /// The same for a node that takes no pods before this is done.
    pub(crate) async fn nominate_to(&self, node: &str, claim: &Claim) {
        let pods = {
            let expected = self.expected();
            let known = expected.get(node).or_else(|| expected.get(&claim.name));
            known.cloned().unwrap_or_default()
        };
        stream::iter(&pods)
            .for_each_concurrent(WRITES_AT_ONCE, async |pod| self.nominate_one(pod, node).await)
            .await;
    }

    async fn nominate_one(&self, (namespace, name): &PodName, node: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        let change = json!({ "status": { "nominatedNodeName": node } });
        // It is a hint: without it the scheduler chooses by itself.
        let _ = self.desk.patch(&path, &change).await;
    }

    /// Says on pods without a place why they have none.
    pub(crate) async fn explain(&self, round: &Round, plan: &Plan, groups: &Outcome) {
        let helped: BTreeSet<usize> =
            groups.wanted.iter().flat_map(|wanted| wanted.pods.iter().copied()).collect();
        let unplaced = plan.unplaced.iter().filter(|unplaced| !helped.contains(&unplaced.pod));
        let unplaced = unplaced.filter_map(|unplaced| {
            let pod = round.snapshot.pods.get(unplaced.pod).filter(|pod| is_real(pod))?;
            let new = groups.refused.get(&unplaced.pod).cloned();
            let new = new.map(|refusal| PoolRefusal { pool: Some(NEW_GROUP.into()), refusal });
            let refusals = unplaced.refusals.iter().cloned().chain(new).collect();
            Some(((pod.namespace.clone(), pod.name.clone()), refusals))
        });
        let unplaced: BTreeMap<PodName, Vec<PoolRefusal>> = unplaced.collect();
        let news = self.news_for(&unplaced);
        self.counts_unplaced(round, &news);
        stream::iter(news)
            .for_each_concurrent(WRITES_AT_ONCE, async |(name, refusals)| {
                // What was not heard is said again with the next look.
                if !self.explain_to(&name, refusals).await {
                    self.told().remove(&name);
                }
            })
            .await;
    }

    /// Those that were not told so yet, or long ago, and so many of them as are told at once.
    fn news_for<'p>(
        &self,
        unplaced: &'p BTreeMap<PodName, Vec<PoolRefusal>>,
    ) -> Vec<(PodName, &'p [PoolRefusal])> {
        let mut told = self.told();
        told.retain(|name, said| unplaced.contains_key(name) && said.at.elapsed() < SAID_AGAIN);
        let mut news = Vec::new();
        for (name, refusals) in unplaced {
            // Messages count seconds and nodes; what matters is what they are about.
            let reasons: Vec<Reason> = refusals.iter().map(|refusal| refusal.refusal.reason).collect();
            if told.get(name).is_some_and(|said| said.reasons == reasons) {
                continue;
            }
            told.insert(name.clone(), Said { reasons, at: Instant::now() });
            news.push((name.clone(), &refusals[..]));
            if news.len() == TOLD_AT_ONCE_MAX {
                break;
            }
        }
        news
    }

    /// Whether the pod was told, or is no more.
    async fn explain_to(&self, (namespace, name): &PodName, refusals: &[PoolRefusal]) -> bool {
        // Who describes a pod sees only what is about this very pod.
        let path = format!("/api/v1/namespaces/{namespace}/pods?fieldSelector=metadata.name%3D{name}");
        let Ok(found) = self.desk.list::<Versioned>(&path).await else { return false };
        let Some(pod) = found.into_iter().next() else { return true };
        let about = About {
            api_version: "v1",
            kind: "Pod",
            namespace: namespace.to_string(),
            name: name.to_string(),
            uid: pod.metadata.uid,
        };
        let reasons = refusals.iter().map(|refusal| {
            let pool = refusal.pool.as_ref().map(|pool| format!("{pool}: ")).unwrap_or_default();
            format!("{pool}{}", refusal.refusal)
        });
        let message = reasons.collect::<Vec<_>>().join("; ");
        self.journal
            .tell(&self.desk, (&about, self.now()), (Severity::Warning, "FailedScheduling", &message))
            .await
    }
}

/// The pods that wait, and that the plan has on nodes that are coming, by node.
fn expected(round: &Round, plan: &Plan) -> BTreeMap<Text, Vec<PodName>> {
    let mut expected: BTreeMap<Text, Vec<PodName>> = BTreeMap::new();
    for bind in &plan.binds {
        let Some(pod) = round.snapshot.pods.get(bind.pod) else { continue };
        let Host::Node(node) = bind.host else { continue };
        let Some(node) = round.snapshot.nodes.get(node) else { continue };
        let is_new = pod.nominated.is_none() && pod.node.is_none() && is_real(pod);
        if node.state == NodeState::Starting && is_new {
            let name = (pod.namespace.clone(), pod.name.clone());
            expected.entry(node.name.clone()).or_default().push(name);
        }
    }
    expected
}

/// What a pod was told last.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    reasons: Vec<Reason>,
    at: Instant,
}

/// Not one that only holds room, or that a workload has yet to make.
fn is_real(pod: &Pod) -> bool {
    pod.origin == PodOrigin::Object
}
