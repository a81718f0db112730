//! One member of a StatefulSet: its pod and its claims.

use super::range;
use crate::json::{Value, json};
use crate::life::owned::owner_reference;
use crate::life::pods::{self, set_label};
use crate::object;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";

/// Which member of the set a pod is, by its name.
pub(super) fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    let number = object::name(pod).strip_prefix(object::name(set))?.strip_prefix('-')?;
    let ordinal: u32 = number.parse().ok()?;
    (ordinal.to_string() == number).then_some(i64::from(ordinal))
}

/// The revision that a pod is of.
pub(super) fn revision(pod: &Value) -> &str {
    pods::label(pod, REVISION)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) set: &'a Value,
    ordinal: i64,
}

/// A claim that a member has for itself.
#[derive(Clone, Debug)]
pub(super) struct Claim<'a> {
    pub(super) name: String,
    template: &'a Value,
}

impl<'a> Member<'a> {
    pub(super) fn of(set: &'a Value, ordinal: i64) -> Self {
        Self { set, ordinal }
    }

    fn name(&self) -> String {
        format!("{}-{}", object::name(self.set), self.ordinal)
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = Claim<'a>> + use<'a> {
        let name = self.name();
        let templates = self.set["spec"]["volumeClaimTemplates"].as_array();
        templates
            .into_iter()
            .flatten()
            .map(move |template| Claim { name: format!("{}-{name}", object::name(template)), template })
    }

    pub(super) fn pod(&self, template: &Value, revision: &str) -> Value {
        let mut pod = pods::from_template(template, self.set);
        let name = self.name();
        object::set(&mut pod, "name", json!(name));
        set_label(&mut pod, POD_NAME, &name);
        set_label(&mut pod, POD_INDEX, &self.ordinal.to_string());
        set_label(&mut pod, REVISION, revision);
        let spec = object::within(&mut pod, "spec");
        spec["hostname"] = json!(name);
        let service = object::text(self.set, &["spec", "serviceName"]);
        if !service.is_empty() {
            spec["subdomain"] = json!(service);
        }
        let claims: Vec<Claim<'_>> = self.claims().collect();
        if !claims.is_empty() {
            let volume = |claim: &Claim<'_>| {
                json!({
                    "name": object::name(claim.template),
                    "persistentVolumeClaim": { "claimName": claim.name },
                })
            };
            let is_claimed =
                |volume: &Value| claims.iter().any(|claim| volume["name"] == object::name(claim.template));
            let others = spec["volumes"].as_array().cloned().unwrap_or_default();
            let others = others.into_iter().filter(|volume| !is_claimed(volume));
            spec["volumes"] = claims.iter().map(volume).chain(others).collect();
        }
        pod
    }
}

impl Claim<'_> {
    pub(super) fn object(&self, set: &Value) -> Value {
        let mut labels = json!({});
        for from in [&self.template["metadata"]["labels"], &set["spec"]["selector"]["matchLabels"]] {
            for (key, value) in from.as_object().into_iter().flatten() {
                labels[key] = value.clone();
            }
        }
        let mut claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": self.name, "namespace": object::namespace(set), "labels": labels },
            "spec": self.template["spec"],
        });
        let annotations = &self.template["metadata"]["annotations"];
        if !annotations.is_null() {
            claim["metadata"]["annotations"] = annotations.clone();
        }
        if policy(set, "whenDeleted") == "Delete" {
            claim["metadata"]["ownerReferences"] = json!([owner_reference(set)]);
        }
        claim
    }
}

fn policy<'a>(set: &'a Value, when: &str) -> &'a str {
    object::text(set, &["spec", "persistentVolumeClaimRetentionPolicy", when])
}

/// A claim as it has to be, if it is not: owned by the set or the pod with which it is to go, and by neither else.
pub(super) fn kept_claim(set: &Value, pod: &Value, ordinal: i64, claim: &Value) -> Option<Value> {
    let is_scaled_down = !range(set).contains(&ordinal);
    let goes_with_pod = is_scaled_down && policy(set, "whenScaled") == "Delete";
    let goes_with_set = !goes_with_pod && policy(set, "whenDeleted") == "Delete";
    let known = object::at(claim, "/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = known.cloned().unwrap_or_default();
    for (owner, is_owner) in [(set, goes_with_set), (pod, goes_with_pod)] {
        let at = owners.iter().position(|known| known["uid"] == object::uid(owner));
        match (at, is_owner) {
            (Some(at), false) => {
                owners.remove(at);
            }
            (None, true) => owners.push(owner_reference(owner)),
            _ => {}
        }
    }
    if known.map_or(&[][..], Vec::as_slice) == owners {
        return None;
    }
    let mut next = claim.clone();
    object::set(&mut next, "ownerReferences", if owners.is_empty() { Value::Null } else { json!(owners) });
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(when_deleted: &str, when_scaled: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop", "uid": "s"},
            "spec": {
                "replicas": 2, "serviceName": "db-peers", "selector": {"matchLabels": {"app": "db"}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"x": "y"}}, "spec": {"a": 1}}],
            },
        })
    }

    #[test]
    fn members_are_known_by_their_names() {
        for (name, expected) in [
            ("db-0", Some(0)),
            ("db-12", Some(12)),
            ("db-x", None),
            ("db-01", None),
            ("db", None),
            ("d-1", None),
        ] {
            let pod = json!({"metadata": {"name": name}});
            assert_eq!(ordinal(&set("Retain", "Retain"), &pod), expected, "{name}");
        }
    }

    #[test]
    fn members_have_names_and_claims_of_their_own() {
        let set = set("Delete", "Retain");
        let template = json!({
            "metadata": {"labels": {"app": "db"}}, "spec": {"volumes": [{"name": "data"}, {"name": "tmp"}]},
        });
        let member = Member::of(&set, 7);
        let pod = member.pod(&template, "db-abc");
        assert_eq!(
            pod["spec"],
            json!({
                "hostname": "db-7", "subdomain": "db-peers", "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-7"}}, {"name": "tmp"},
                ],
            })
        );
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "db", POD_NAME: "db-7", POD_INDEX: "7", REVISION: "db-abc"})
        );
        let claims: Vec<Value> = member.claims().map(|claim| claim.object(&set)).collect();
        let metadata = json!({
            "name": "data-db-7", "namespace": "shop", "labels": {"app": "db", "x": "y"},
            "ownerReferences": [owner_reference(&set)],
        });
        assert_eq!((claims.len(), &claims[0]["metadata"]), (1, &metadata));
    }

    #[test]
    fn claims_go_with_whom_the_set_says() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-1", "uid": "p"}});
        for (when_deleted, when_scaled, ordinal, owned, expected) in [
            ("Retain", "Retain", 1, vec![], None),
            ("Retain", "Retain", 1, vec!["s", "other"], Some(vec!["other"])),
            ("Delete", "Retain", 1, vec![], Some(vec!["s"])),
            ("Delete", "Retain", 5, vec!["s"], None),
            ("Retain", "Delete", 1, vec![], None),
            ("Retain", "Delete", 5, vec![], Some(vec!["p"])),
            ("Delete", "Delete", 5, vec!["s"], Some(vec!["p"])),
            ("Delete", "Delete", 1, vec!["p"], Some(vec!["s"])),
        ] {
            let owners: Vec<Value> = owned.iter().map(|uid| json!({"uid": uid})).collect();
            let claim = json!({"metadata": {"ownerReferences": owners}});
            let kept = kept_claim(&set(when_deleted, when_scaled), &pod, ordinal, &claim);
            let uids = kept
                .map(|kept| object::owners(&kept).map(|owner| owner.uid.to_owned()).collect::<Vec<String>>());
            let expected = expected.map(|uids| uids.into_iter().map(str::to_owned).collect::<Vec<String>>());
            assert_eq!(uids, expected, "{when_deleted} {when_scaled} {ordinal} {owned:?}");
        }
    }
}
