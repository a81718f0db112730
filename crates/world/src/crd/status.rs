//! The status that the server writes into a definition.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;

use crate::json::{Value, json};
use crate::schema::said::quoted;

/// The whole status of `crd` at `now`, beside the `others`: its names if nobody of its group has them, and
/// whether it is served. What it had before is kept where nothing changed.
pub fn status(crd: &Value, others: &[&Value], now: Timestamp) -> Value {
    let mut filled = crd.clone();
    super::default(&mut filled);
    let before = crd.get("status").cloned().unwrap_or_default();
    let (accepted, conflict) = accepted(&filled, &before["acceptedNames"], &Taken::by(others, &filled));

    let mut conditions =
        Conditions { all: before["conditions"].as_array().cloned().unwrap_or_default(), now };
    let is_accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    conditions.set("NamesAccepted", is_accepted, reason, &message);
    if is_accepted {
        let message = "the initial names have been accepted";
        conditions.set("Established", true, "InitialNamesAccepted", message);
    } else if conditions.status("Established").is_none() {
        conditions.set("Established", false, "NotAccepted", "not all names are accepted");
    }
    if let Ok(typed) = CustomResourceDefinition::deserialize(&filled)
        && let Some(approval) = super::approval::of(&typed)
    {
        let type_ = "KubernetesAPIApprovalPolicyConformant";
        conditions.set(type_, approval.is_conformant, approval.reason, &approval.message);
    }
    json!({
        "acceptedNames": accepted,
        "conditions": conditions.all,
        "storedVersions": stored(&filled, &before),
    })
}

/// The versions that were stored before, and the one that is from now on.
fn stored(crd: &Value, before: &Value) -> Vec<Value> {
    let mut stored = before["storedVersions"].as_array().cloned().unwrap_or_default();
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let storage =
        versions.filter(|version| version["storage"] == json!(true)).map(|version| &version["name"]);
    for name in storage.take(1) {
        if !stored.contains(name) {
            stored.push(name.clone());
        }
    }
    stored
}

/// The names that other definitions of the group have.
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by(others: &[&Value], crd: &Value) -> Self {
        let mut taken = Self { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        for other in others {
            if other["spec"]["group"] != crd["spec"]["group"]
                || other["metadata"]["name"] == crd["metadata"]["name"]
            {
                continue;
            }
            let names = &other["status"]["acceptedNames"];
            let texts = |value: &Value| value.as_str().map(str::to_owned);
            taken.resources.extend(["plural", "singular"].into_iter().filter_map(|name| texts(&names[name])));
            taken.resources.extend(names["shortNames"].as_array().into_iter().flatten().filter_map(texts));
            taken.kinds.extend(["kind", "listKind"].into_iter().filter_map(|name| texts(&names[name])));
        }
        taken
    }
}

/// The names that the definition has now, and the last conflict over one.
fn accepted(crd: &Value, before: &Value, taken: &Taken) -> (Value, Option<(&'static str, String)>) {
    let wanted = &crd["spec"]["names"];
    let mut names = before.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    for (field, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let had: Vec<&Value> = each(&before[field]);
        let in_use: Vec<String> = each(&wanted[field])
            .into_iter()
            .filter(|name| !had.contains(name))
            .filter_map(Value::as_str)
            .filter(|name| used.contains(*name))
            .map(|name| format!("{} is already in use", quoted(name)))
            .collect();
        match &in_use[..] {
            [] => {
                if wanted[field].is_null() {
                    names.remove(field);
                } else {
                    names.insert(field, wanted[field].clone());
                }
            }
            [one] => conflict = Some((reason, one.clone())),
            several => conflict = Some((reason, format!("[{}]", several.join(", ")))),
        }
    }
    if wanted["categories"].is_null() {
        names.remove("categories");
    } else {
        names.insert("categories", wanted["categories"].clone());
    }
    // The server always writes these two.
    for field in ["kind", "plural"] {
        names.entry(field).or_insert_with(|| json!(""));
    }
    (Value::Object(names), conflict)
}

/// A name, or several.
fn each(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(all) => all.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    }
}

struct Conditions {
    all: Vec<Value>,
    now: Timestamp,
}

impl Conditions {
    fn status(&self, type_: &str) -> Option<&str> {
        self.all.iter().find(|condition| condition["type"] == type_)?["status"].as_str()
    }

    fn set(&mut self, type_: &str, is_true: bool, reason: &str, message: &str) {
        let status = if is_true { "True" } else { "False" };
        let since = self.all.iter().find(|known| known["type"] == type_ && known["status"] == status);
        let since = since.and_then(|known| known["lastTransitionTime"].as_str()).map(str::to_owned);
        let since = since.unwrap_or_else(|| self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let condition = json!({
            "lastTransitionTime": since, "message": message, "reason": reason, "status": status, "type": type_,
        });
        match self.all.iter_mut().find(|known| known["type"] == type_) {
            Some(known) => *known = condition,
            None => self.all.push(condition),
        }
    }
}
