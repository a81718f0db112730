//! What pods are told: which node they are going to, or why there is none for them.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::founding::Outcome;
use berth_core::names::{self, Text};
use berth_core::node::{Node, NodeState};
use berth_core::plan::{Host, Plan, PoolRefusal};
use berth_core::pod::Pod;
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

/// So many pods are named their nodes at once; the others the next time.
const NOMINATED_AT_ONCE_MAX: usize = 50;
/// So many pods are told something within a second. Nobody reads faster, and what makes nodes is written meanwhile.
const TOLD_AT_ONCE_MAX: usize = 20;

/// The event that a pod gets once a node is on its way for it, by Karpenter's name.
const NOMINATED: &str = "Nominated";

/// What a group that could be made is called.
const NEW_GROUP: &str = "a new group";

impl Office {
    /// Names to pods that wait the nodes that have just come for them: so kube-scheduler keeps the room for them, and
    /// puts them where the plan has them. It forgets that with every attempt that fails.
    pub(crate) async fn nominate(&self, round: &Round, plan: &Plan) {
        let expected = expected(round, plan);
        let come = expected.iter().filter(|(node, _)| round.is_registered(node));
        let wanted = come.flat_map(|(node, pods)| pods.iter().map(move |pod| (pod, node)));
        stream::iter(wanted.take(NOMINATED_AT_ONCE_MAX))
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

    /// Says on pods that wait which node is coming for them, or why there is none. Whether others are to be told soon.
    pub(crate) async fn explain(&self, round: &Round, plan: &Plan, groups: &Outcome) -> bool {
        let helped: BTreeSet<usize> =
            groups.wanted.iter().flat_map(|wanted| wanted.pods.iter().copied()).collect();
        let unplaced = plan.unplaced.iter().filter(|unplaced| !helped.contains(&unplaced.pod));
        let unplaced = unplaced.filter_map(|unplaced| {
            let pod = round.snapshot.pods.get(unplaced.pod).filter(|pod| pod.exists())?;
            let new = groups.refused.get(&unplaced.pod).cloned();
            let new = new.map(|refusal| PoolRefusal { pool: Some(NEW_GROUP.into()), refusal });
            let refusals = unplaced.refusals.iter().cloned().chain(new).collect();
            Some(((pod.namespace.clone(), pod.name.clone()), Outlook::Nowhere(refusals)))
        });
        let coming = coming(round, plan).map(|(pod, node)| {
            ((pod.namespace.clone(), pod.name.clone()), Outlook::Coming(node.name.clone()))
        });
        let outlooks: BTreeMap<PodName, Outlook> = unplaced.chain(coming).collect();
        let News { now, are_more } = self.news_for(&outlooks);
        let refusals = now.iter().filter_map(|(name, outlook)| match outlook {
            Outlook::Nowhere(refusals) => Some(((*name).clone(), &refusals[..])),
            Outlook::Coming(_) => None,
        });
        self.counts_unplaced(round, &refusals.collect::<Vec<_>>());
        let tellings = now.into_iter().map(|(name, outlook)| self.tell_outlook(round, name, outlook));
        let are_heard = stream::iter(tellings)
            .buffer_unordered(WRITES_AT_ONCE)
            .fold(false, async |are_heard, is_heard| are_heard || is_heard)
            .await;
        // Whoever takes none of it is not asked again any sooner.
        are_more && are_heard
    }

    /// Those that were not told so yet, or long ago. Those come first that were never told anything, and last those that
    /// could not be told just now, so that nobody has to wait for them.
    fn news_for<'p>(&self, outlooks: &'p BTreeMap<PodName, Outlook>) -> News<'p> {
        let mut told = self.told();
        told.retain(|name, _| outlooks.contains_key(name));
        let is_news = |(name, outlook): &(&PodName, &Outlook)| {
            let last = told.get(*name).filter(|said| said.at.elapsed() < SAID_AGAIN);
            last.is_none_or(|said| said.gist.as_ref() != Some(&outlook.gist()))
        };
        let mut now: Vec<(&PodName, &Outlook)> = outlooks.iter().filter(is_news).collect();
        now.sort_by_key(|(name, _)| told.get(*name).map(|said| said.at));
        let are_more = now.len() > TOLD_AT_ONCE_MAX;
        now.truncate(TOLD_AT_ONCE_MAX);
        for (name, outlook) in &now {
            told.insert((*name).clone(), Said { gist: Some(outlook.gist()), at: Instant::now() });
        }
        News { now, are_more }
    }

    /// Whether it was told. What was not heard is said again.
    async fn tell_outlook(&self, round: &Round, name: &PodName, outlook: &Outlook) -> bool {
        let (severity, reason, message) = outlook.words(round);
        let is_heard = self.tell_pod(name, (severity, reason, &message)).await;
        if !is_heard && let Some(said) = self.told().get_mut(name) {
            said.gist = None;
        }
        is_heard
    }

    /// Whether the pod was told, or is no more.
    async fn tell_pod(
        &self,
        (namespace, name): &PodName,
        (severity, reason, message): (Severity, &str, &str),
    ) -> bool {
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
        self.journal.tell(&self.desk, (&about, self.now()), (severity, reason, message)).await
    }
}

/// What a pod that waits has to expect.
#[derive(Debug)]
enum Outlook {
    /// This node is on its way for it.
    Coming(Text),
    /// No pool has a place for it.
    Nowhere(Vec<PoolRefusal>),
}

impl Outlook {
    /// Messages count seconds and nodes; what matters is what they are about.
    fn gist(&self) -> Gist {
        match self {
            Self::Coming(node) => Gist::Coming(node.clone()),
            Self::Nowhere(refusals) => {
                Gist::Nowhere(refusals.iter().map(|refusal| refusal.refusal.reason).collect())
            }
        }
    }

    fn words(&self, round: &Round) -> (Severity, &'static str, String) {
        match self {
            Self::Coming(name) => {
                let nodes = &round.snapshot.nodes;
                let node = nodes.binary_search_by(|node| node.name.cmp(name)).ok();
                let labels = node.and_then(|index| nodes.get(index)).map(|node| &node.labels);
                let known = [names::INSTANCE_TYPE, names::ZONE, names::CAPACITY_TYPE];
                let known = known.iter().filter_map(|key| Some(&**labels?.get(*key)?));
                let kind = known.collect::<Vec<_>>().join(", ");
                (Severity::Normal, NOMINATED, format!("node {name} is on its way for it: {kind}"))
            }
            Self::Nowhere(refusals) => {
                let reasons = refusals.iter().map(|refusal| {
                    let pool = refusal.pool.as_ref().map(|pool| format!("{pool}: ")).unwrap_or_default();
                    format!("{pool}{}", refusal.refusal)
                });
                (Severity::Warning, "FailedScheduling", reasons.collect::<Vec<_>>().join("; "))
            }
        }
    }
}

/// The pods that wait, and that the plan has on nodes that are coming.
fn coming<'r>(round: &'r Round, plan: &'r Plan) -> impl Iterator<Item = (&'r Pod, &'r Node)> {
    plan.binds.iter().filter_map(|bind| {
        let Host::Node(node) = bind.host else { return None };
        let node = round.snapshot.nodes.get(node).filter(|node| node.state == NodeState::Starting)?;
        let pod = round.snapshot.pods.get(bind.pod);
        Some((pod.filter(|pod| pod.node.is_none() && pod.exists())?, node))
    })
}

/// Those that nobody has told yet where they go, by node.
fn expected(round: &Round, plan: &Plan) -> BTreeMap<Text, Vec<PodName>> {
    let mut expected: BTreeMap<Text, Vec<PodName>> = BTreeMap::new();
    for (pod, node) in coming(round, plan).filter(|(pod, _)| pod.nominated.is_none()) {
        expected.entry(node.name.clone()).or_default().push((pod.namespace.clone(), pod.name.clone()));
    }
    expected
}

/// What pods are told now.
struct News<'p> {
    now: Vec<(&'p PodName, &'p Outlook)>,
    /// There is more to tell than is told at once.
    are_more: bool,
}

/// What a pod was told last.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// `None` if it did not hear it.
    gist: Option<Gist>,
    at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Gist {
    Coming(Text),
    Nowhere(Vec<Reason>),
}
