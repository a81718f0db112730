//! The status of PodDisruptionBudgets: how many pods there are to be, how many are well, how many may go.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Decision, Report, Severity, View};
use crate::api::Act;
use crate::json::{Map, Value, json};
use crate::kinds::Subresource;
use crate::object;
use crate::selector::LabelSelector;
use crate::store::{Change, Key};

const BUDGETS: &str = "poddisruptionbudgets.policy";
const COMPONENT: &str = "controllermanager";

/// A pod that was to be evicted and is not going after so long will not go.
const GOES_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// When to try again what could not be computed.
const TRIED_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The budgets by namespace and name, each with what counts of its pods: there may be too many to look through at
/// every change.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    by_namespace: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Covered>>,
}

#[derive(Debug)]
struct Covered {
    written: Value,
    selector: LabelSelector,
    pods: BTreeMap<Arc<str>, Pod>,
    healthy: usize,
    /// Pods that nobody controls.
    unmanaged: usize,
    controllers: BTreeMap<Arc<Controls>, usize>,
}

#[derive(Clone, Debug)]
struct Pod {
    is_healthy: bool,
    is_going: bool,
    controller: Option<Arc<Controls>>,
}

/// Who controls a pod.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Controls {
    uid: String,
    api_version: String,
    kind: String,
    name: String,
}

impl Controls {
    fn of(object: &Value) -> Option<Self> {
        let owner = object::controller(object)?;
        Some(Self {
            uid: owner.uid.to_owned(),
            api_version: owner.api_version.to_owned(),
            kind: owner.kind.to_owned(),
            name: owner.name.to_owned(),
        })
    }
}

impl Covered {
    fn new(selector: &Value) -> Self {
        Self {
            written: selector.clone(),
            selector: LabelSelector::from_value(selector).unwrap_or(LabelSelector::Nothing),
            pods: BTreeMap::new(),
            healthy: 0,
            unmanaged: 0,
            controllers: BTreeMap::new(),
        }
    }

    /// Counts a pod as it is now. Whether it is, or was, under this budget.
    fn count(&mut self, name: &str, pod: Option<&Value>) -> bool {
        let before = self.pods.remove(name);
        if let Some(before) = &before {
            self.healthy -= usize::from(before.is_healthy);
            match &before.controller {
                None => self.unmanaged -= 1,
                Some(controller) => {
                    let left = self.controllers.get(controller).map_or(0, |pods| pods - 1);
                    if left == 0 {
                        self.controllers.remove(controller);
                    } else {
                        self.controllers.insert(controller.clone(), left);
                    }
                }
            }
        }
        let Some(pod) = pod.filter(|pod| self.selector.matches(&pod["metadata"]["labels"])) else {
            return before.is_some();
        };
        let is_going = object::is_terminating(pod);
        let is_healthy = !is_going && object::condition_status(pod, "Ready") == "True";
        // Those of one controller share what says who it is.
        let controller = Controls::of(pod).map(|controls| {
            let known = self.controllers.get_key_value(&controls).map(|(known, _)| known.clone());
            known.unwrap_or_else(|| Arc::new(controls))
        });
        self.healthy += usize::from(is_healthy);
        match &controller {
            None => self.unmanaged += 1,
            Some(controller) => *self.controllers.entry(controller.clone()).or_default() += 1,
        }
        self.pods.insert(name.into(), Pod { is_healthy, is_going, controller });
        true
    }

    /// How many pods there are to be, and how many of them healthy.
    fn expected(&self, budget: &Value, view: View<'_>) -> Result<(i64, i64), String> {
        let spec = &budget["spec"];
        if !spec["maxUnavailable"].is_null() {
            let expected = self.scale(object::namespace(budget), view)?;
            let spare = scaled(&spec["maxUnavailable"], expected)?;
            return Ok((expected, (expected - spare).max(0)));
        }
        match &spec["minAvailable"] {
            Value::Null => Ok((0, 0)),
            Value::Number(least) => {
                Ok((i64::try_from(self.pods.len()).unwrap_or(i64::MAX), least.as_i64().unwrap_or(0)))
            }
            percent => {
                let expected = self.scale(object::namespace(budget), view)?;
                Ok((expected, scaled(percent, expected)?))
            }
        }
    }

    /// How many pods those who control them want, together.
    fn scale(&self, namespace: &str, view: View<'_>) -> Result<i64, String> {
        let mut scales: BTreeMap<String, i64> = BTreeMap::new();
        for controller in self.controllers.keys() {
            let Some((uid, replicas)) = scale_of(controller, namespace, view)? else {
                let is_its = |pod: &Pod| pod.controller.as_ref() == Some(controller);
                let pod = self.pods.iter().find(|(_, pod)| is_its(pod)).map(|(name, _)| &**name);
                return Err(format!("found no controllers for pod {:?}", pod.unwrap_or_default()));
            };
            scales.insert(uid, replicas);
        }
        Ok(scales.values().sum())
    }

    /// Which pods are on their way out, though it does not show yet; and those that should be, but are not.
    fn disrupted(&self, budget: &Value, now: Timestamp) -> (Map, Vec<String>, Option<Timestamp>) {
        let (mut going, mut staying, mut again) = (Map::new(), Vec::new(), None);
        let said = object::at(budget, "/status/disruptedPods").and_then(Value::as_object);
        for (name, at) in said.into_iter().flatten() {
            let is_still_there = self.pods.get(&**name).is_some_and(|pod| !pod.is_going);
            let since: Option<Timestamp> = at.as_str().and_then(|at| at.parse().ok());
            let Some(until) = since.and_then(|since| since.checked_add(GOES_WITHIN).ok()) else { continue };
            if !is_still_there {
                continue;
            }
            if until <= now {
                staying.push(name.to_string());
            } else {
                going.insert(name.clone(), at.clone());
                again = again.into_iter().chain([until]).min();
            }
        }
        (going, staying, again)
    }
}

/// Who decides how many there are, and how many that is. `None` if it is gone.
fn scale_of(controls: &Controls, namespace: &str, view: View<'_>) -> Result<Option<(String, i64)>, String> {
    let Controls { uid, api_version, kind, name } = controls;
    let Some(resource) = view.kinds().find_kind(api_version, kind) else {
        return Err(format!("no matches for kind {kind:?} in version {api_version:?}"));
    };
    if !resource.has(Subresource::Scale) {
        return Err(format!("{} does not implement the scale subresource", resource.qualified()));
    }
    let Some(object) = view.get(&Key::new(&resource.qualified(), namespace, name)) else { return Ok(None) };
    if object::uid(&object) != uid {
        return Ok(None);
    }
    let above = Controls::of(&object).filter(|above| kind == "ReplicaSet" && above.kind == "Deployment");
    if let Some(deployment) = above {
        return scale_of(&deployment, namespace, view);
    }
    let replicas = object::at(&object, "/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    Ok(Some((uid.clone(), replicas)))
}

/// A number, or a share of the total, rounded up.
fn scaled(value: &Value, total: i64) -> Result<i64, String> {
    let share = |text: &str| text.strip_suffix('%')?.parse::<i64>().ok();
    match value {
        Value::Number(number) => Ok(number.as_i64().unwrap_or(0)),
        Value::String(text) => match share(text) {
            Some(percent) => Ok((percent * total + 99).div_euclid(100)),
            None => Err("invalid value for IntOrString: invalid type: string is not a percentage".to_owned()),
        },
        _ => Err("invalid value for IntOrString: invalid type: neither int nor percentage".to_owned()),
    }
}

fn allowed(is_allowed: bool, generation: &Value, now: Timestamp) -> Value {
    let (status, reason) =
        if is_allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": generation, "lastTransitionTime": object::time(now),
    })
}

/// The budget with what could be computed.
fn computed(budget: &Value, covered: &Covered, view: View<'_>) -> Result<Decision, String> {
    let now = view.now();
    let (expected, desired) = covered.expected(budget, view)?;
    let (disrupted, staying, again) = covered.disrupted(budget, now);
    let going = disrupted.keys().filter(|name| covered.pods.get(&***name).is_some_and(|pod| pod.is_healthy));
    let healthy =
        i64::try_from(covered.healthy).unwrap_or(i64::MAX) - i64::try_from(going.count()).unwrap_or(0);
    let allowance = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let generation = &budget["metadata"]["generation"];
    let mut next = budget.clone();
    next["status"] = json!({
        "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
        "disruptionsAllowed": allowance, "observedGeneration": generation,
    });
    if let Some(conditions) = object::at(budget, "/status/conditions") {
        next["status"]["conditions"] = conditions.clone();
    }
    if !disrupted.is_empty() {
        next["status"]["disruptedPods"] = disrupted.into();
    }
    object::set_condition(&mut next, allowed(allowance > 0, generation, now));
    if next == *budget {
        return Ok(Decision { again, ..Decision::none() });
    }
    let mut reports = Vec::new();
    let mut tell = |severity, reason, message| {
        reports.push(Report::about(budget, severity, reason, message, COMPONENT));
    };
    if covered.pods.is_empty() {
        tell(Severity::Normal, "NoPods", "No matching pods found".to_owned());
    }
    if covered.unmanaged > 0 && !budget["spec"]["minAvailable"].is_number() {
        tell(Severity::Warning, "UnmanagedPods", unmanaged(&budget["spec"]["selector"]));
    }
    for name in staying {
        let namespace = object::namespace(budget);
        let pod = view.get(&Key::new("pods", namespace, &name));
        let message = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        reports
            .extend(pod.map(|pod| Report::about(&pod, Severity::Warning, "NotDeleted", message, COMPONENT)));
    }
    Ok(Decision { acts: vec![Act::UpdateStatus(BUDGETS, next)], reports, again })
}

/// The budget that allows nothing, because nothing could be computed.
fn failed(budget: &Value, why: &str, now: Timestamp) -> Decision {
    let mut next = budget.clone();
    next["status"]["disruptionsAllowed"] = json!(0);
    let observed = budget["status"].get("observedGeneration").cloned();
    let mut condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": why,
        "lastTransitionTime": object::time(now),
    });
    if let Some(observed) = observed {
        condition["observedGeneration"] = observed;
    }
    object::set_condition(&mut next, condition);
    let again = now.checked_add(TRIED_AGAIN).ok();
    if next == *budget {
        return Decision { again, ..Decision::none() };
    }
    let message = format!("Failed to calculate the number of expected pods: {why}");
    let report =
        Report::about(budget, Severity::Warning, "CalculateExpectedPodCountFailed", message, COMPONENT);
    Decision { acts: vec![Act::UpdateStatus(BUDGETS, next)], reports: vec![report], again }
}

fn unmanaged(selector: &Value) -> String {
    let labels: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: Vec<String> = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|wanted| {
            let values = wanted["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let values: Vec<&str> = values.collect();
            let (key, operator) = (object::text(wanted, &["key"]), object::text(wanted, &["operator"]));
            format!(
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},",
                values.join(" ")
            )
        })
        .collect();
    let (labels, expressions) = (labels.concat(), expressions.concat());
    format!(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}) were found to be unmanaged. As a result, the \
         status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
         these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

impl Controller for Budgets {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        let (namespace, name) = (change.key.namespace(), change.key.name());
        match (change.key.resource(), &change.after) {
            (BUDGETS, None) => {
                if let Some(budgets) = self.by_namespace.get_mut(namespace) {
                    budgets.remove(name);
                }
                Vec::new()
            }
            (BUDGETS, Some(budget)) => {
                let budgets = self.by_namespace.entry(namespace.into()).or_default();
                let selector = &budget["spec"]["selector"];
                if budgets.get(name).is_none_or(|covered| covered.written != *selector) {
                    let mut covered = Covered::new(selector);
                    for key in view.keys("pods", Some(namespace)) {
                        covered.count(key.name(), view.get(key).as_deref());
                    }
                    budgets.insert(name.into(), covered);
                }
                vec![change.key.clone()]
            }
            ("pods", pod) => {
                let budgets = self.by_namespace.get_mut(namespace).into_iter().flatten();
                budgets
                    .filter_map(|(budget, covered)| covered.count(name, pod.as_deref()).then_some(budget))
                    .map(|budget| Key::new(BUDGETS, namespace, budget))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(budget) = view.get(key) else { return Decision::none() };
        let covered = self.by_namespace.get(key.namespace()).and_then(|budgets| budgets.get(key.name()));
        let Some(covered) = covered else { return Decision::none() };
        if !matches!(budget["status"], Value::Object(_) | Value::Null) {
            return Decision::none();
        }
        match computed(&budget, covered, view) {
            Ok(decision) => decision,
            Err(why) => failed(&budget, &why, view.now()),
        }
    }
}

#[cfg(test)]
mod tests;
