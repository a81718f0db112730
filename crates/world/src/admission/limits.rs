//! What one pod, one container or one claim of a namespace may ask for, and what it asks for if it says nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::units::{Quantity, format_binary};

use super::{Matter, containers};
use crate::failure::Failure;
use crate::json::{Text, Value, json};
use crate::object;
use crate::store::Store;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn ranges(store: &Store, matter: &Matter<'_>) -> Vec<Arc<Value>> {
    store.list("limitranges", Some(matter.namespace())).map(|(_, range)| range).collect()
}

/// The limits of one range for things of a type.
fn limits<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = range["spec"]["limits"].as_array().into_iter().flatten();
    all.filter(move |limit| limit["type"] == kind)
}

pub(super) fn complete(store: &Store, matter: &Matter<'_>, pod: &mut Value) {
    for range in ranges(store, matter) {
        let defaults = |field: &str| -> BTreeMap<String, Value> {
            let of = limits(&range, "Container").filter_map(|limit| limit[field].as_object()).flatten();
            of.map(|(name, amount)| (name.to_string(), amount.clone())).collect()
        };
        let (requests, limits) = (defaults("defaultRequest"), defaults("default"));
        let mut told = Vec::new();
        for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
            let spec = pod.get_mut("spec").and_then(|spec| spec.get_mut(list));
            for container in spec.and_then(Value::as_array_mut).into_iter().flatten() {
                let name = object::text(container, &["name"]).to_owned();
                for (field, defaults, what) in
                    [("requests", &requests, "request"), ("limits", &limits, "limit")]
                {
                    let missing: Vec<(&String, &Value)> = defaults
                        .iter()
                        .filter(|(resource, _)| container["resources"][field].get(resource).is_none())
                        .collect();
                    for (resource, amount) in &missing {
                        object::put(container, &["resources", field, resource], (*amount).clone());
                    }
                    if !missing.is_empty() {
                        let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
                        told.push(format!("{} {what} for {word} {name}", names.join(", ")));
                    }
                }
            }
        }
        if !told.is_empty() {
            let told = format!("LimitRanger plugin set: {}", told.join("; "));
            object::put(pod, &["metadata", "annotations", ANNOTATION], json!(told));
        }
    }
}

pub(super) fn check_pod(store: &Store, matter: &Matter<'_>, pod: &Value) -> Result<(), Failure> {
    for range in ranges(store, matter) {
        let mut wrong = Vec::new();
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            match object::text(limit, &["type"]) {
                kind @ "Container" => {
                    for container in containers(pod) {
                        let of = |field| amounts(&container["resources"][field]);
                        check(kind, limit, &of("requests"), Some(&of("limits")), &mut wrong);
                    }
                }
                kind @ "Pod" => {
                    let (requests, limits) = (total(pod, "requests"), total(pod, "limits"));
                    check(kind, limit, &requests, Some(&limits), &mut wrong);
                }
                _ => {}
            }
        }
        refuse(matter, pod, &wrong)?;
    }
    Ok(())
}

pub(super) fn check_claim(store: &Store, matter: &Matter<'_>, claim: &Value) -> Result<(), Failure> {
    for range in ranges(store, matter) {
        let mut wrong = Vec::new();
        let kind = "PersistentVolumeClaim";
        for limit in limits(&range, kind) {
            check(kind, limit, &amounts(&claim["spec"]["resources"]["requests"]), None, &mut wrong);
        }
        refuse(matter, claim, &wrong)?;
    }
    Ok(())
}

fn refuse(matter: &Matter<'_>, object: &Value, wrong: &[String]) -> Result<(), Failure> {
    match wrong {
        [] => Ok(()),
        [one] => Err(matter.refuse(object, one)),
        several => Err(matter.refuse(object, &format!("[{}]", several.join(", ")))),
    }
}

/// An amount, and how it is written.
#[derive(Clone, Debug)]
struct Amount {
    quantity: Quantity,
    text: String,
}

type Amounts = BTreeMap<String, Amount>;

fn amounts(list: &Value) -> Amounts {
    let amount = |(name, value): (&Text, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((name.to_string(), Amount { quantity: text.parse().ok()?, text }))
    };
    list.as_object().into_iter().flatten().filter_map(amount).collect()
}

/// What a pod needs at once: its containers, or the greediest of those that run before them.
fn total(pod: &Value, field: &str) -> Amounts {
    let of = |list: &str| -> Vec<(Amounts, bool)> {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.map(|one| (amounts(&one["resources"][field]), one["restartPolicy"] == "Always")).collect()
    };
    let mut sum: BTreeMap<String, i128> = BTreeMap::new();
    let add = |sum: &mut BTreeMap<String, i128>, more: &Amounts| {
        for (name, amount) in more {
            *sum.entry(name.clone()).or_default() += amount.quantity.nanos();
        }
    };
    for (of_container, _) in of("containers") {
        add(&mut sum, &of_container);
    }
    let (mut staying, mut first) = (BTreeMap::new(), BTreeMap::<String, i128>::new());
    for (of_container, stays) in of("initContainers") {
        let mut at_once = staying.clone();
        add(&mut at_once, &of_container);
        if stays {
            add(&mut sum, &of_container);
            staying.clone_from(&at_once);
        }
        for (name, nanos) in at_once {
            let most = first.entry(name).or_default();
            *most = (*most).max(nanos);
        }
    }
    for (name, nanos) in first {
        let most = sum.entry(name).or_default();
        *most = (*most).max(nanos);
    }
    // A sum is written as its parts are.
    let is_binary = |name: &String| {
        let mut all = of("containers").into_iter().chain(of("initContainers"));
        all.any(|(amounts, _)| amounts.get(name).is_some_and(|amount| amount.text.ends_with('i')))
    };
    let amount = |(name, nanos): (String, i128)| {
        let quantity = Quantity::from_nanos(nanos);
        let text = if is_binary(&name) { format_binary(quantity.units_ceil()) } else { quantity.to_string() };
        (name, Amount { quantity, text })
    };
    sum.into_iter().map(amount).collect()
}

/// Without `limits` only what is asked for counts.
fn check(kind: &str, limit: &Value, requests: &Amounts, limits: Option<&Amounts>, wrong: &mut Vec<String>) {
    let none = Amounts::new();
    let has_limits = limits.is_some();
    let limits = limits.unwrap_or(&none);
    for (name, least) in amounts(&limit["min"]) {
        let enforced = format!("minimum {name} usage per {kind} is {}", least.text);
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => wrong.push(format!("{enforced}.  No request is specified")),
            (Some(request), _) if request.quantity < least.quantity => {
                wrong.push(format!("{enforced}, but request is {}", request.text));
            }
            (_, Some(limit)) if limit.quantity < least.quantity => {
                wrong.push(format!("{enforced}, but limit is {}", limit.text));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(&limit["max"]) {
        let enforced = format!("maximum {name} usage per {kind} is {}", most.text);
        match (requests.get(&name), limits.get(&name)) {
            (None, _) if !has_limits => wrong.push(format!("{enforced}.  No request is specified")),
            (_, None) if has_limits => wrong.push(format!("{enforced}.  No limit is specified")),
            (_, Some(limit)) if limit.quantity > most.quantity => {
                wrong.push(format!("{enforced}, but limit is {}", limit.text));
            }
            (Some(request), _) if request.quantity > most.quantity => {
                wrong.push(format!("{enforced}, but request is {}", request.text));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(&limit["maxLimitRequestRatio"]) {
        let enforced = format!("{name} max limit to request ratio per {kind} is {}", most.text);
        let nanos = |amounts: &Amounts| amounts.get(&name).map_or(0, |amount| amount.quantity.nanos());
        match (nanos(requests), nanos(limits)) {
            (0, _) => wrong.push(format!("{enforced}, but no request is specified or request is 0")),
            (_, 0) => wrong.push(format!("{enforced}, but no limit is specified or limit is 0")),
            (request, limit) => {
                let ratio = as_float(limit) / as_float(request);
                if ratio * 1e9 > as_float(most.quantity.nanos()) {
                    wrong.push(format!("{enforced}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

/// Ratios are compared and told as Kubernetes does it.
#[expect(clippy::cast_precision_loss, reason = "a ratio is told with six digits")]
fn as_float(nanos: i128) -> f64 {
    nanos as f64
}
