//! NodeGroups that are made for pods which no pool could hold (`core::founding`). Their names say what they are for, so
//! whoever makes one twice makes it once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::resources::vpsie::NodeGroup;
use berth_api::{ClassKind, GroupDefaults, GroupTemplate, vpsie};
use berth_core::founding::{self, Founding, Outcome, Template};
use berth_core::names::Text;
use berth_core::plan::Plan;
use berth_core::pod::Pod;
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::snapshot::{Policy, Snapshot};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::Refused;
use crate::dialect::Dialect;
use crate::journal::{About, DecisionKind, Severity};
use crate::machines::Machines;
use crate::metrics::table;
use crate::office::Office;
use crate::operator::Operator;
use crate::planning::Round;

/// So many groups are made in one look.
const GROUPS_AT_ONCE_MAX: usize = 3;
/// So often it is asked which are wanted, if nothing has changed: pods have waited longer by then.
const ASKED_AGAIN: Duration = Duration::from_secs(10);
/// One that could not be made is tried again after so long.
const TRIED_AGAIN: Duration = Duration::from_mins(1);
/// So many pods are named.
const NAMED_MAX: usize = 3;

/// Which groups are wanted, and what was done about it.
#[derive(Debug, Default)]
pub(crate) struct Foundings {
    last: Option<Asked>,
    /// Which groups were tried lately, or told of, by name.
    tried: BTreeMap<Text, Try>,
}

#[derive(Debug)]
struct Try {
    at: Instant,
    failure: Option<String>,
}

#[derive(Debug)]
struct Asked {
    at: Instant,
    plan: Arc<Plan>,
    outcome: Arc<Outcome>,
}

/// Why a group was not made.
#[derive(Debug, thiserror::Error)]
enum NotMade {
    #[error("{0}")]
    Cluster(#[from] Refused),
    #[error("group {0} is there and was not seen when it was decided")]
    Behind(String),
}

#[derive(Deserialize)]
struct Listed {
    metadata: ObjectMeta,
}

impl Foundings {
    /// The groups that pods without a place want.
    pub(crate) fn wanted(&mut self, round: &Round, policy: &Policy, plan: &Arc<Plan>) -> Arc<Outcome> {
        let Some(template) = &round.new_groups else { return Arc::default() };
        if let Some(Asked { at, plan: of, outcome }) = &self.last
            && Arc::ptr_eq(of, plan)
            && at.elapsed() < ASKED_AGAIN
        {
            return outcome.clone();
        }
        let outcome = Arc::new(wanted(round, policy, plan, template.as_ref()));
        self.last = Some(Asked { at: Instant::now(), plan: plan.clone(), outcome: outcome.clone() });
        outcome
    }

    /// Whether this one has not been tried lately; from now on it has.
    fn is_time_for(&mut self, name: &str) -> bool {
        self.tried.retain(|_, tried| tried.at.elapsed() < TRIED_AGAIN);
        let is_time = !self.tried.contains_key(name);
        self.tried.entry(name.into()).or_insert_with(|| Try { at: Instant::now(), failure: None });
        is_time
    }
}

fn wanted(
    round: &Round,
    policy: &Policy,
    plan: &Plan,
    template: Result<&GroupTemplate, &Refusal>,
) -> Outcome {
    if plan.unplaced.is_empty() {
        return Outcome::default();
    }
    // A group that is about to go holds nobody.
    let stays = |pool: &&Pool| round.pools.get(&pool.name).is_none_or(|object| !object.is_deleting());
    let pools: Vec<Pool> = round.snapshot.pools.iter().filter(stays).cloned().collect();
    let left: Snapshot;
    let snapshot = if pools.len() == round.snapshot.pools.len() {
        &*round.snapshot
    } else {
        left = Snapshot { pools, ..Snapshot::clone(&round.snapshot) };
        &left
    };
    let template = template.map(|template| template as &dyn Template);
    founding::wanted(snapshot, policy, plan, template, GROUPS_AT_ONCE_MAX)
}

impl Operator {
    /// What is said of new groups besides the AutoscalerConfig: by flags, by the Secret, by the cluster.
    pub(crate) async fn group_defaults(&self) -> GroupDefaults {
        let mut defaults = self.settings.group_defaults.clone();
        if !self.office.clouds.contains_key(&ClassKind::Vpsie) {
            return defaults;
        }
        self.settings.whereabouts.complete(&mut defaults);
        if defaults.kubernetes_version.is_none() {
            defaults.kubernetes_version = self.office.cluster_version().await;
        }
        defaults
    }

    /// Whether VPSie has told what it offers, or why not: until then nobody can say which groups are wanted.
    pub(crate) fn knows_vpsie(&self) -> bool {
        self.office.machines().get(&ClassKind::Vpsie).is_none_or(Machines::has_answered)
    }

    /// Makes the groups that are wanted. What cannot be made is refused to its pods.
    pub(crate) async fn found(&mut self, round: &Round, mut outcome: Arc<Outcome>) -> Arc<Outcome> {
        let Some(Ok(template)) = &round.new_groups else { return outcome };
        for wanted in &outcome.clone().wanted {
            let pods = named(round, wanted);
            let group = template.group(wanted, &pods);
            let name = group.metadata.name.clone().unwrap_or_default();
            if self.foundings.is_time_for(&name) {
                let failure =
                    self.office.make_group(round, (template.namespace(), &name), &group, &pods).await;
                self.foundings.tried.entry(name.as_str().into()).and_modify(|tried| tried.failure = failure);
            }
            let tried = self.foundings.tried.get(&*name);
            if let Some(why) = tried.and_then(|tried| tried.failure.as_ref()) {
                let refusal = Reason::PoolNotReady.because(why.as_str());
                let outcome = Arc::make_mut(&mut outcome);
                outcome.wanted.retain(|other| other != wanted);
                outcome.refused.extend(wanted.pods.iter().map(|pod| (*pod, refusal.clone())));
            }
        }
        outcome
    }

    /// Says which groups would be made, unless that was said lately.
    pub(crate) fn foretell_groups(&mut self, round: &Round, outcome: &Outcome) {
        let Some(Ok(template)) = &round.new_groups else { return };
        for wanted in &outcome.wanted {
            let pods = named(round, wanted);
            let group = template.group(wanted, &pods);
            let name = group.metadata.name.clone().unwrap_or_default();
            if self.foundings.is_time_for(&name) {
                let message = format!("would make the group {}/{name} for {pods}", template.namespace());
                self.office.decided(DecisionKind::Launch, ("GroupCreated", message), vec![name], None);
            }
        }
    }
}

impl Office {
    /// Why it was not made, if it was not.
    async fn make_group(
        &self,
        round: &Round,
        (namespace, name): (&str, &str),
        group: &NodeGroup,
        pods: &str,
    ) -> Option<String> {
        let sold = group.spec.offering_ids.join(", ");
        let made = self.create_group(round, namespace, &json!(group)).await;
        let count = |result: &str| self.metrics.count(table::DYNAMIC_GROUPS, [result, namespace]);
        match made {
            Ok(Some(uid)) => {
                count("success");
                let message = format!("the group {namespace}/{name} is made for {pods}; it may buy {sold}");
                let about = About {
                    api_version: Dialect::Vpsie.api_version(),
                    kind: "NodeGroup",
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    uid,
                };
                let said = (Severity::Normal, "GroupCreated", message.as_str());
                self.journal.say(&self.desk, (&about, self.now()), said).await;
                self.decided(DecisionKind::Launch, ("GroupCreated", message), vec![name.to_owned()], None);
                None
            }
            // Whoever was faster made the same.
            Ok(None) => None,
            Err(why) => {
                count("failure");
                let message = format!("the group {namespace}/{name} for {pods} was not made: {why}");
                self.decided(
                    DecisionKind::Refusal,
                    ("GroupNotCreated", message.clone()),
                    vec![name.to_owned()],
                    None,
                );
                Some(message)
            }
        }
    }

    /// The new group's uid; `None` if it is there already. One that is not seen yet may be just what was wanted, so
    /// with one of those none is made.
    async fn create_group(
        &self,
        round: &Round,
        namespace: &str,
        group: &Value,
    ) -> Result<Option<String>, NotMade> {
        for Listed { metadata } in self.desk.list::<Listed>(&Dialect::Vpsie.pools("")).await? {
            let name = metadata.name.as_deref().unwrap_or_default();
            if vpsie::is_managed(&metadata) && !round.pools.contains_key(name) {
                return Err(NotMade::Behind(name.to_owned()));
            }
        }
        match self.desk.create(&Dialect::Vpsie.pools(namespace), group).await {
            Err(refused) if refused.is_conflict() => Ok(None),
            Err(refused) => Err(refused.into()),
            Ok(text) => {
                let made: Option<Listed> = serde_json::from_str(&text).ok();
                Ok(Some(made.and_then(|made| made.metadata.uid).unwrap_or_default()))
            }
        }
    }
}

/// Some of the pods, and how many more there are.
fn named(round: &Round, wanted: &Founding) -> String {
    let pods = wanted.pods.iter().filter_map(|pod| round.snapshot.pods.get(*pod));
    let names: Vec<String> = pods.take(NAMED_MAX).map(Pod::id).collect();
    let names = names.join(", ");
    match wanted.pods.len().saturating_sub(NAMED_MAX) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
