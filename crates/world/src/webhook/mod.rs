//! Webhooks: whom an API server asks before it writes, about what, and what it makes of their answers.
//!
//! Which webhooks there are and which of them are asked is decided here, over what is stored. A request that needs
//! an answer stops, having changed nothing, and is tried again once there is one (`hearing`); only `wire` talks.

mod conditions;
mod hearing;
mod review;
mod wire;

use serde::Deserialize;

use crate::admission::{Matter, Operation};
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::kinds::{Kinds, Resource, Subresource};
use crate::object;
use crate::selector::LabelSelector;
use crate::store::{Key, Store};

pub(crate) use hearing::{Hearing, Inquiry, Question};
pub(crate) use review::{Response, Review, judge};
pub(crate) use wire::{Service, Services, Target, ask};

/// Those that may change an object are asked before those that may only refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Mutating,
    Validating,
}

impl Phase {
    pub(crate) fn configurations(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            Self::Validating => "validatingwebhookconfigurations.admissionregistration.k8s.io",
        }
    }
}

/// One webhook of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hook {
    #[serde(skip)]
    configuration: String,
    pub(crate) name: String,
    client_config: ClientConfig,
    rules: Vec<Rule>,
    failure_policy: String,
    match_policy: String,
    namespace_selector: Value,
    object_selector: Value,
    side_effects: String,
    pub(crate) timeout_seconds: u64,
    reinvocation_policy: String,
    match_conditions: Vec<Condition>,
    admission_review_versions: Vec<String>,
}

impl Default for Hook {
    fn default() -> Self {
        Self {
            configuration: String::new(),
            name: String::new(),
            client_config: ClientConfig::default(),
            rules: Vec::new(),
            failure_policy: "Fail".to_owned(),
            match_policy: "Equivalent".to_owned(),
            namespace_selector: Value::Null,
            object_selector: Value::Null,
            side_effects: String::new(),
            timeout_seconds: 10,
            reinvocation_policy: "Never".to_owned(),
            match_conditions: Vec::new(),
            admission_review_versions: Vec::new(),
        }
    }
}

/// Where a webhook is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConfig {
    url: Option<String>,
    service: Option<ServiceReference>,
    /// In base64.
    ca_bundle: String,
}

#[derive(Clone, Debug, Deserialize)]
struct ServiceReference {
    namespace: String,
    name: String,
    #[serde(default)]
    path: String,
    #[serde(default = "https")]
    port: u16,
}

fn https() -> u16 {
    443
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    expression: String,
}

/// All webhooks of a phase, by the names of their configurations.
pub(crate) fn hooks(store: &Store, phase: Phase) -> Vec<Hook> {
    let mut hooks = Vec::new();
    for (key, configuration) in store.list(phase.configurations(), None) {
        for hook in configuration["webhooks"].as_array().into_iter().flatten() {
            if let Ok(hook) = Hook::deserialize(hook) {
                hooks.push(Hook { configuration: key.name().to_owned(), ..hook });
            }
        }
    }
    hooks
}

/// Nobody is asked about whom to ask.
pub(crate) fn is_exempt(resource: &Resource) -> bool {
    resource.group == "admissionregistration.k8s.io"
}

impl Hook {
    /// Which webhook it is, among all.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.configuration, self.name)
    }

    pub(crate) fn ignores_failures(&self) -> bool {
        self.failure_policy == "Ignore"
    }

    pub(crate) fn is_asked_again(&self) -> bool {
        self.reinvocation_policy == "IfNeeded"
    }

    pub(crate) fn speaks_v1(&self) -> bool {
        self.admission_review_versions.iter().any(|version| version == "v1")
    }

    pub(crate) fn check_dry_run(&self, matter: &Matter<'_>) -> Result<(), Failure> {
        if !matter.dry_run || matches!(&*self.side_effects, "None" | "NoneOnDryRun") {
            return Ok(());
        }
        let name = &self.name;
        Err(Failure::bad_request(format!("admission webhook {name:?} does not support dry run")))
    }

    /// The resource as which it is asked about a matter; nothing if it is not.
    pub(crate) fn concern(
        &self,
        store: &Store,
        kinds: &Kinds,
        matter: &Matter<'_>,
        old: Option<&Value>,
        object: Option<&Value>,
    ) -> Result<Option<std::sync::Arc<Resource>>, Failure> {
        let in_namespace = self.selects_namespace(store, matter, object);
        if matches!(in_namespace, Ok(false)) || !self.selects_object(old, object) {
            return Ok(None);
        }
        let Some(resource) = self.ruled(kinds, matter) else { return Ok(None) };
        in_namespace?;
        Ok(Some(resource))
    }

    pub(crate) fn meets_conditions(&self, matter: &Matter<'_>, review: &Review) -> Result<bool, Failure> {
        let expressions = self.match_conditions.iter().map(|condition| &*condition.expression);
        match conditions::hold(expressions, review) {
            Ok(hold) => Ok(hold),
            Err(_) if self.ignores_failures() => Ok(false),
            Err(why) => Err(matter.refuse(&review.request["object"], &why)),
        }
    }

    fn selects_namespace(
        &self,
        store: &Store,
        matter: &Matter<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Failure> {
        let resource = &matter.place.resource;
        let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
        let selector = selector_of(&self.namespace_selector);
        if (matter.place.namespace.is_none() && !is_namespace) || is_empty(&selector) {
            return Ok(true);
        }
        let is_written =
            is_namespace && matter.place.subresource.is_none() && matter.operation != Operation::Delete;
        if let Some(object) = object.filter(|_| is_written) {
            return Ok(selector.matches(&object["metadata"]["labels"]));
        }
        let name = if is_namespace { &matter.place.name } else { &matter.place.namespace };
        let name = name.as_deref().unwrap_or_default();
        match store.get(&Key::new("namespaces", "", name)) {
            Some(namespace) => Ok(selector.matches(&namespace["metadata"]["labels"])),
            None => {
                Err(Failure::new(crate::failure::Reason::NotFound, format!("namespaces {name:?} not found")))
            }
        }
    }

    fn selects_object(&self, old: Option<&Value>, object: Option<&Value>) -> bool {
        let selector = selector_of(&self.object_selector);
        let selects = |object: &Value| selector.matches(&object["metadata"]["labels"]);
        is_empty(&selector) || [object, old].into_iter().flatten().any(selects)
    }

    /// By a rule for the resource itself, or else for the same in another version.
    fn ruled(&self, kinds: &Kinds, matter: &Matter<'_>) -> Option<std::sync::Arc<Resource>> {
        let own = &matter.place.resource;
        if self.rules.iter().any(|rule| rule.covers(matter, own)) {
            return Some(own.clone());
        }
        if self.match_policy != "Equivalent" {
            return None;
        }
        let same: Vec<_> = kinds
            .all()
            .filter(|other| other.qualified() == own.qualified() && other.version != own.version)
            .collect();
        let rules = self.rules.iter();
        rules
            .flat_map(|rule| same.iter().filter(|other| rule.covers(matter, other)))
            .next()
            .map(|other| (*other).clone())
    }
}

impl Rule {
    fn covers(&self, matter: &Matter<'_>, resource: &Resource) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|item| item == "*" || item == word);
        let part = matter.place.subresource.map_or("", Subresource::name);
        let covers_resource = |item: &String| {
            let (plural, of_part) = item.split_once('/').unwrap_or((item, ""));
            (plural == "*" || plural == resource.plural) && (of_part == "*" || of_part == part)
        };
        let in_scope = match &*self.scope {
            "Namespaced" => matter.place.namespace.is_some(),
            "Cluster" => matter.place.namespace.is_none(),
            _ => true,
        };
        in_scope
            && has(&self.operations, matter.operation.name())
            && has(&self.api_groups, &resource.group)
            && has(&self.api_versions, &resource.version)
            && self.resources.iter().any(covers_resource)
    }
}

/// A selector that is not there selects everything, as an empty one does.
fn selector_of(selector: &Value) -> LabelSelector {
    if selector.is_null() {
        return LabelSelector::All(Vec::new());
    }
    LabelSelector::from_value(selector).unwrap_or(LabelSelector::Nothing)
}

fn is_empty(selector: &LabelSelector) -> bool {
    matches!(selector, LabelSelector::All(requirements) if requirements.is_empty())
}

/// An object in another version of its kind, which differs in nothing but its name.
pub(crate) fn in_version(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    object::put(&mut object, &["apiVersion"], json!(resource.api_version()));
    object
}

#[cfg(test)]
mod tests;
