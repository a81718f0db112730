//! Deployments, replica sets, stateful sets and daemon sets.

use super::faults::{Faults, int_or_percent_value, is_empty, items, number, or_null, selects, text};
use super::{claim, pod};
use crate::json::{Value, json};
use crate::names::quoted;
use crate::object;

const UNMATCHED: &str = "`selector` does not match template `labels`";

pub(super) fn on_create(faults: &mut Faults, kind: &str, object: &Value) {
    let spec = &object["spec"];
    match kind {
        "Deployment" => deployment(faults, spec),
        "ReplicaSet" => replica_set(faults, spec),
        "StatefulSet" => stateful_set(faults, spec, true),
        "DaemonSet" => daemon_set(faults, spec),
        _ => {}
    }
}

pub(super) fn on_update(faults: &mut Faults, kind: &str, new: &Value, old: &Value) {
    let (spec, was) = (&new["spec"], &old["spec"]);
    match kind {
        "StatefulSet" => {
            stateful_set(faults, spec, false);
            let mut rest = spec.clone();
            for field in [
                "replicas",
                "template",
                "updateStrategy",
                "minReadySeconds",
                "ordinals",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
            ] {
                rest[field] = was[field].clone();
            }
            let mut known = was.clone();
            for value in [&mut rest, &mut known] {
                if let Some(fields) = value.as_object_mut() {
                    fields.retain(|_, value| !value.is_null());
                }
            }
            if rest != known {
                let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                           'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                           'minReadySeconds' are forbidden";
                faults.forbidden("spec", why);
            }
        }
        "DaemonSet" => {
            faults.unchanged("spec.selector", &spec["selector"], &was["selector"]);
            daemon_set(faults, spec);
        }
        "Deployment" | "ReplicaSet" => {
            on_create(faults, kind, new);
            faults.unchanged("spec.selector", &spec["selector"], &was["selector"]);
        }
        _ => {}
    }
}

fn deployment(faults: &mut Faults, spec: &Value) {
    faults.not_negative("spec.replicas", &spec["replicas"]);
    selected_template(faults, spec);
    let strategy = &spec["strategy"];
    let update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" => {
            if !update.is_null() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                faults.forbidden("spec.strategy.rollingUpdate", why);
            }
        }
        "RollingUpdate" => {
            let path = "spec.strategy.rollingUpdate";
            let (fewer, more) = (&update["maxUnavailable"], &update["maxSurge"]);
            faults.int_or_percent(&format!("{path}.maxUnavailable"), fewer);
            faults.int_or_percent(&format!("{path}.maxSurge"), more);
            if int_or_percent_value(fewer) == 0 && int_or_percent_value(more) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                faults.invalid(&format!("{path}.maxUnavailable"), fewer, why);
            }
            faults.at_most_all(&format!("{path}.maxUnavailable"), fewer);
        }
        kind => {
            let told = strategy_as_told(kind, update);
            faults.not_supported_as_told("spec.strategy", &told, &["Recreate", "RollingUpdate"]);
        }
    }
    faults.not_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    faults.not_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]);
    let deadline = &spec["progressDeadlineSeconds"];
    faults.not_negative("spec.progressDeadlineSeconds", deadline);
    if !deadline.is_null() && number(deadline) <= number(&spec["minReadySeconds"]) {
        faults.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
}

fn strategy_as_told(kind: &str, update: &Value) -> String {
    let or_zero = |value: &Value| if value.is_null() { json!(0) } else { value.clone() };
    let update = match update {
        Value::Null => "null".to_owned(),
        _ => format!(
            "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
            or_zero(&update["maxUnavailable"]),
            or_zero(&update["maxSurge"])
        ),
    };
    format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", quoted(kind))
}

fn replica_set(faults: &mut Faults, spec: &Value) {
    faults.not_negative("spec.replicas", &spec["replicas"]);
    faults.not_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    selected_template(faults, spec);
}

/// A selector, and a template that it selects.
fn selected_template(faults: &mut Faults, spec: &Value) {
    check_selector(faults, &spec["selector"], "deployment");
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    let is_nothing =
        is_empty(&spec["selector"]["matchLabels"]) && is_empty(&spec["selector"]["matchExpressions"]);
    match selects(&spec["selector"], labels) {
        None => {
            faults.invalid("spec.selector", &spec["selector"], "invalid label selector");
            return;
        }
        Some(false) if !is_nothing => {
            faults.invalid("spec.template.metadata.labels", &or_null(labels), UNMATCHED);
        }
        Some(false) if spec["selector"].is_null() => {
            faults.invalid("spec.template.metadata.labels", &or_null(labels), UNMATCHED);
        }
        Some(_) => {}
    }
    pod::template(faults, template, "spec.template");
    always_restarts(faults, template, "ReplicaSet");
}

fn check_selector(faults: &mut Faults, selector: &Value, of: &str) {
    if selector.is_null() {
        faults.required("spec.selector", "");
        return;
    }
    faults.label_selector("spec.selector", selector);
    if is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
        faults.invalid("spec.selector", selector, &format!("empty selector is invalid for {of}"));
    }
}

fn always_restarts(faults: &mut Faults, template: &Value, of: &str) {
    let policy = &template["spec"]["restartPolicy"];
    if policy != "Always" {
        faults.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {of} is not Supported");
        faults.forbidden("spec.template.spec.activeDeadlineSeconds", &why);
    }
}

fn stateful_set(faults: &mut Faults, spec: &Value, is_new: bool) {
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        faults.invalid_text("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let update = &spec["updateStrategy"]["rollingUpdate"];
    match text(&spec["updateStrategy"], "type") {
        "OnDelete" => {
            if !update.is_null() {
                let told = format!(
                    "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
                    number(&update["partition"]),
                    update["maxUnavailable"]
                );
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                faults.invalid_as_told("spec.updateStrategy.rollingUpdate", &told, why);
            }
        }
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate";
            faults.not_negative(&format!("{path}.partition"), &update["partition"]);
            let fewer = &update["maxUnavailable"];
            if !fewer.is_null() {
                let field = format!("{path}.maxUnavailable");
                faults.int_or_percent(&field, fewer);
                if int_or_percent_value(fewer) == 0 {
                    faults.invalid(&field, fewer, "cannot be 0");
                }
                faults.at_most_all(&field, fewer);
            }
        }
        kind => {
            let told = format!("{{\"Type\":{},\"RollingUpdate\":null}}", quoted(kind));
            faults.invalid_as_told("spec.updateStrategy", &told, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    for field in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"][field];
        if !policy.is_null() && !matches!(policy.as_str(), Some("Retain" | "Delete")) {
            let path = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            faults.not_supported(&path, policy, &["Delete", "Retain"]);
        }
    }
    for (at, of_claim) in items(&spec["volumeClaimTemplates"]) {
        claim::spec(faults, &of_claim["spec"], &format!("spec.volumeClaimTemplates[{at}].spec"));
    }
    faults.not_negative("spec.replicas", &spec["replicas"]);
    faults.not_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    faults.not_negative("spec.ordinals.start", &spec["ordinals"]["start"]);
    if is_new && !text(spec, "serviceName").is_empty() {
        faults.dns_label("spec.serviceName", text(spec, "serviceName"));
    }
    check_selector(faults, &spec["selector"], "statefulset");
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    match selects(&spec["selector"], labels) {
        None => faults.invalid("spec.selector", &spec["selector"], ""),
        Some(selects) => {
            if !selects {
                faults.invalid("spec.template.metadata.labels", &or_null(labels), UNMATCHED);
            }
            pod::template(faults, &as_its_pods(spec), "spec.template");
        }
    }
    always_restarts(faults, template, "StatefulSet");
}

/// The template of a stateful set with what its pods get beside it: names, and volumes of claims of their own.
fn as_its_pods(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = || items(&spec["volumeClaimTemplates"]).map(|(_, claim)| object::name(claim));
    let Some(of_pods) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    for field in ["hostname", "subdomain"] {
        of_pods.remove(field);
    }
    if claims().next().is_none() {
        return template;
    }
    let mut volumes: Vec<Value> = claims()
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }))
        .collect();
    let own = of_pods.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.extend(own.filter(|volume| claims().all(|name| volume["name"] != name)).cloned());
    of_pods.insert("volumes", json!(volumes));
    template
}

fn daemon_set(faults: &mut Faults, spec: &Value) {
    let selector = &spec["selector"];
    faults.label_selector("spec.selector", selector);
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    if selects(selector, labels) == Some(false) {
        faults.invalid("spec.template.metadata.labels", &or_null(labels), UNMATCHED);
    }
    if !selector.is_null() && is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
        faults.invalid("spec.selector", selector, "empty selector is invalid for daemonset");
    }
    pod::template(faults, template, "spec.template");
    always_restarts(faults, template, "DaemonSet");
    faults.not_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    let strategy = &spec["updateStrategy"];
    let update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => daemon_set_update(faults, update),
        kind => {
            let told = strategy_as_told(kind, update);
            faults.not_supported_as_told("spec.updateStrategy", &told, &["RollingUpdate", "OnDelete"]);
        }
    }
    faults.not_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]);
}

fn daemon_set_update(faults: &mut Faults, update: &Value) {
    let path = "spec.updateStrategy.rollingUpdate";
    let (fewer, more) = (&update["maxUnavailable"], &update["maxSurge"]);
    faults.int_or_percent(&format!("{path}.maxUnavailable"), fewer);
    faults.int_or_percent(&format!("{path}.maxSurge"), more);
    faults.at_most_all(&format!("{path}.maxUnavailable"), fewer);
    faults.at_most_all(&format!("{path}.maxSurge"), more);
    match (int_or_percent_value(fewer) != 0, int_or_percent_value(more) != 0) {
        (true, true) => {
            let why = "may not be set when maxUnavailable is non-zero";
            faults.invalid(&format!("{path}.maxSurge"), more, why);
        }
        (false, false) => {
            faults.required(&format!("{path}.maxUnavailable"), "cannot be 0 when maxSurge is 0");
        }
        _ => {}
    }
}

/// The counts of a status, in the order in which they are checked, and those that may not exceed the replicas.
pub(super) fn on_status_update(faults: &mut Faults, kind: &str, new: &Value) {
    let (counts, bounded, available): (&[&str], &[&str], &str) = match kind {
        "Deployment" => (
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
            "cannot be greater than readyReplicas",
        ),
        "ReplicaSet" => (
            &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
            "cannot be greater than readyReplicas",
        ),
        "StatefulSet" => (
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
            "cannot be greater than status.readyReplicas",
        ),
        "DaemonSet" => (
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            &[],
            "",
        ),
        _ => return,
    };
    let status = &new["status"];
    for field in counts {
        faults.not_negative(&format!("status.{field}"), &status[*field]);
    }
    for field in bounded {
        if number(&status[*field]) > number(&status["replicas"]) {
            let why = "cannot be greater than status.replicas";
            faults.invalid(&format!("status.{field}"), &json!(number(&status[*field])), why);
        }
    }
    if !bounded.is_empty() && number(&status["availableReplicas"]) > number(&status["readyReplicas"]) {
        let value = json!(number(&status["availableReplicas"]));
        faults.invalid("status.availableReplicas", &value, available);
    }
}
