//! Roles that are made of others: their rules are those of all that their selectors select.

use super::{Controller, Decision, View};
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;
use crate::selector::LabelSelector;
use crate::store::{Change, Key};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

#[derive(Debug)]
pub(super) struct Roles;

impl Controller for Roles {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        if change.key.resource() != ROLES {
            return Vec::new();
        }
        let keys = view.keys(ROLES, None);
        keys.filter(|key| view.get(key).is_some_and(|role| selectors(&role).next().is_some()))
            .cloned()
            .collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(role) = view.get(key).filter(|role| selectors(role).next().is_some()) else {
            return Decision::none();
        };
        let mut rules: Vec<Value> = Vec::new();
        for selector in selectors(&role) {
            let Ok(selector) = LabelSelector::from_value(selector) else { continue };
            let selects = |other: &Value| {
                object::name(other) != object::name(&role) && selector.matches(&other["metadata"]["labels"])
            };
            for other in view.list(ROLES, None).filter(|other| selects(other)) {
                for rule in other["rules"].as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        let rules = if rules.is_empty() { Value::Null } else { json!(rules) };
        if role["rules"] == rules {
            return Decision::none();
        }
        let mut next = (*role).clone();
        object::put(&mut next, &["rules"], rules);
        Decision::act(Act::Update(ROLES, next))
    }
}

fn selectors(role: &Value) -> impl Iterator<Item = &Value> {
    object::at(role, "/aggregationRule/clusterRoleSelectors").and_then(Value::as_array).into_iter().flatten()
}
