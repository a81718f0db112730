//! Who asks, and whether they may.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;

use super::{Api, Call, State};
use crate::failure::{Failure, Reason};
use crate::json::Value;
use crate::object;
use crate::rbac::{self, Attributes, ResourceTarget, Rules, Target, User};
use crate::request::{Asked, Place, Query, unescaped};

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// What a connection knows of who is at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Known(User),
    /// They show nothing.
    Nobody,
    /// They show what is not from here.
    Stranger,
}

impl Api {
    /// Who asks. Whoever is in the same process may do everything; and who may, acts as somebody else.
    pub(crate) fn user(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<User, Failure> {
        let has_token = all(headers, "authorization").iter().any(|value| value.starts_with("Bearer "));
        let user = match peer {
            None => admin(),
            Some(Peer::Known(user)) => user.clone(),
            // No token is from here either.
            Some(Peer::Nobody) if !has_token => {
                let groups = vec![UNAUTHENTICATED.to_owned()];
                User { name: ANONYMOUS.to_owned(), groups, ..User::default() }
            }
            Some(Peer::Nobody | Peer::Stranger) => {
                return Err(Failure::new(Reason::Unauthorized, "Unauthorized"));
            }
        };
        let asked = User {
            name: all(headers, "impersonate-user").pop().unwrap_or_default(),
            groups: all(headers, "impersonate-group"),
            uid: all(headers, "impersonate-uid").pop().unwrap_or_default(),
            extra: extra(headers),
        };
        match &*asked.name {
            "" if asked == User::default() => Ok(user),
            "" => Err(Failure::bad_request(format!(
                "requested {} without impersonating a user name",
                in_go(&asked)
            ))),
            _ => self.impersonated(&user, asked),
        }
    }

    /// Whom somebody acts as, if they may act as them, as a member of each group, and with all that is said of them.
    fn impersonated(&self, user: &User, asked: User) -> Result<User, Failure> {
        let User { name, mut groups, uid, extra } = asked;
        let rules = self.state().rules();
        let check_target =
            |target| rules.check(user, &Attributes { verb: "impersonate", target: Target::Resource(target) });
        let check = |resource, namespace, name| {
            check_target(ResourceTarget { resource, namespace, name, ..ResourceTarget::default() })
        };
        let service_account =
            name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        match service_account {
            Some((namespace, account)) => check("serviceaccounts", namespace, account)?,
            None => check("users", "", &name)?,
        }
        for group in &groups {
            check("groups", "", group)?;
        }
        let of_tokens = ResourceTarget { group: "authentication.k8s.io", ..ResourceTarget::default() };
        for (key, value) in
            extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)))
        {
            let (resource, subresource, name) = ("userextras", &**key, &**value);
            check_target(ResourceTarget { resource, subresource, name, ..of_tokens })?;
        }
        if !uid.is_empty() {
            check_target(ResourceTarget { resource: "uids", name: &uid, ..of_tokens })?;
        }
        if let Some((namespace, _)) = service_account.filter(|_| groups.is_empty()) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let joins = if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(joins.to_owned());
        }
        Ok(User { name, groups, uid, extra })
    }
}

/// What is said of whom somebody acts as: `Impersonate-Extra-KEY: value`, as often as there are values.
fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let keys =
        headers.keys().filter_map(|name| Some((name, name.as_str().strip_prefix("impersonate-extra-")?)));
    keys.map(|(name, key)| (unescaped(key), all(headers, name.as_str()))).collect()
}

/// As Go prints a user.
fn in_go(user: &User) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        if texts.is_empty() {
            "[]string(nil)".to_owned()
        } else {
            format!("[]string{{{}}}", texts.join(", "))
        }
    };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    let (name, uid, groups) = (&user.name, &user.uid, list(&user.groups));
    format!(
        "&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{groups}, Extra:map[string][]string{extra}}}"
    )
}

/// Who may do everything.
pub(super) fn admin() -> User {
    let groups = vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()];
    User { name: "admin".to_owned(), groups, ..User::default() }
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
}

/// The controller that gives roles the rules of those that they select.
const GATHERER: &str = "kube-controller-manager";

/// Who a controller of the world's own is to others.
pub(super) fn controller(manager: &str) -> User {
    let groups = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
    if manager.starts_with("kube") {
        let groups = groups(&["system:authenticated"]);
        return User { name: format!("system:{manager}"), groups, ..User::default() };
    }
    User {
        name: format!("system:serviceaccount:kube-system:{manager}"),
        groups: groups(&[
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            "system:authenticated",
        ]),
        ..User::default()
    }
}

/// The rules, as read from what was stored at a revision: they are asked for far more often than they change.
#[derive(Debug, Default)]
pub(super) struct Access(Mutex<(u64, Arc<Rules>)>);

const RULES: [&str; 4] = [
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
];

/// By plural, what questions about access are.
const REVIEWS: [(&str, &str, &str); 6] = [
    ("localsubjectaccessreviews", "authorization.k8s.io/v1", "LocalSubjectAccessReview"),
    ("selfsubjectaccessreviews", "authorization.k8s.io/v1", "SelfSubjectAccessReview"),
    ("selfsubjectreviews", "authentication.k8s.io/v1", "SelfSubjectReview"),
    ("selfsubjectrulesreviews", "authorization.k8s.io/v1", "SelfSubjectRulesReview"),
    ("subjectaccessreviews", "authorization.k8s.io/v1", "SubjectAccessReview"),
    ("tokenreviews", "authentication.k8s.io/v1", "TokenReview"),
];

impl State {
    fn rules(&self) -> Arc<Rules> {
        let touched = RULES.iter().map(|resource| self.store.touched(resource)).max().unwrap_or(0);
        let mut known = self.access.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != touched {
            let stored: Vec<Arc<Value>> = RULES
                .iter()
                .flat_map(|resource| self.store.list(resource, None))
                .map(|(_, rule)| rule)
                .collect();
            *known = (touched, Arc::new(Rules::from_objects(stored.iter().map(|rule| &**rule))));
        }
        known.1.clone()
    }

    pub(super) fn check_path(&self, call: &Call) -> Result<(), Failure> {
        let verb = call.method.as_str().to_lowercase();
        self.rules().check(&call.user, &Attributes { verb: &verb, target: Target::Path(&call.path) })
    }

    pub(super) fn check_access(&self, asked: &Asked, call: &Call) -> Result<(), Failure> {
        let target = ResourceTarget {
            group: &asked.group,
            resource: &asked.resource,
            subresource: &asked.subresource,
            namespace: &asked.namespace,
            name: &asked.name,
        };
        let attributes = Attributes { verb: asked.verb, target: Target::Resource(target) };
        self.rules().check(&call.user, &attributes)
    }

    /// Nobody gives away by a role or a binding what they do not have. Who gathers rules into roles may, as
    /// Kubernetes' own controller may.
    pub(super) fn check_grants(
        &self,
        place: &Place,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        let user = &self.hearing.user;
        if *user == controller(GATHERER) {
            return Ok(());
        }
        let written = rbac::Written {
            resource: &place.resource,
            namespace: place.namespace.as_deref().unwrap_or_default(),
            asked: place.name.as_deref().unwrap_or_default(),
            new,
            old,
        };
        self.rules().check_grants(user, &written)
    }

    /// Answers questions about access, which are asked as objects that nobody keeps.
    pub(super) fn review(&self, plural: &str, query: &Query, call: &Call) -> Result<Option<Value>, Failure> {
        let Some((_, api_version, kind)) = REVIEWS.iter().find(|(of, _, _)| *of == plural) else {
            return Ok(None);
        };
        let review = self.part_of(api_version, kind, query, call)?;
        let rules = self.rules();
        let answered = match plural {
            "selfsubjectaccessreviews" => rbac::self_subject_access_review(&rules, &call.user, &review),
            "selfsubjectrulesreviews" => rbac::self_subject_rules_review(&rules, &call.user, &review),
            "subjectaccessreviews" => rbac::subject_access_review(&rules, &review),
            "tokenreviews" => rbac::token_review(&review),
            "localsubjectaccessreviews" => rbac::local_subject_access_review(&rules, &review),
            "selfsubjectreviews" => {
                let now = object::time(self.now());
                Ok(rbac::self_subject_review(&call.user, &review, now.as_str().unwrap_or_default()))
            }
            _ => return Ok(None),
        };
        answered.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::{answer, ask, world};
    use crate::json::{Value, json};

    const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

    #[tokio::test]
    async fn who_acts_as_somebody_is_them_with_all_that_is_said_of_them() {
        let world = world();
        let rule = |group: &str, resource: &str, name: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"], "resourceNames": [name]});
        let rules = [
            rule("", "users", "eve"),
            rule("authentication.k8s.io", "userextras/example.com/team", "red"),
            rule("authentication.k8s.io", "uids", "u-1"),
        ];
        let of_rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": "actor"}, "rules": rules});
        assert_eq!(ask(&world, "POST", &format!("{of_rbac}/clusterroles"), role).await.0, 201);
        let binding = json!({
            "metadata": {"name": "actor"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "actor"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
        });
        assert_eq!(ask(&world, "POST", &format!("{of_rbac}/clusterrolebindings"), binding).await.0, 201);
        let team = "impersonate-extra-example.com%2fteam";
        let whole = json!({
            "username": "eve", "uid": "u-1", "groups": ["system:authenticated"],
            "extra": {"example.com/team": ["red"]},
        });
        for (headers, expected) in [
            (&[("impersonate-user", "eve"), ("impersonate-uid", "u-1"), (team, "red")][..], Ok(whole)),
            (
                &[("impersonate-user", "eve")],
                Ok(json!({"username": "eve", "groups": ["system:authenticated"]})),
            ),
            (
                &[("impersonate-uid", "u-1")],
                Err("requested &user.DefaultInfo{Name:\"\", UID:\"u-1\", Groups:[]string(nil), \
                     Extra:map[string][]string(nil)} without impersonating a user name"),
            ),
            (
                &[(team, "red"), ("impersonate-group", "g")],
                Err("requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, \
                     Extra:map[string][]string{\"example.com/team\":[]string{\"red\"}}} without impersonating a user \
                     name"),
            ),
        ] {
            let told = answer(&world, "POST", WHO, headers, &json!({})).await;
            let bytes = axum::body::to_bytes(told.into_body(), usize::MAX).await.unwrap();
            let told: Value = serde_json::from_slice(&bytes).unwrap();
            match expected {
                Ok(who) => assert_eq!(told["status"]["userInfo"], who),
                Err(why) => assert_eq!((&told["code"], &told["message"]), (&json!(400), &json!(why))),
            }
        }
        // Who asks does so as `ann`, who may act as eve, but only as the roles say.
        let user = |headers: &[(&str, &str)]| {
            let mut map = http::HeaderMap::new();
            for (name, value) in headers {
                let name: http::HeaderName = name.parse().unwrap();
                map.append(name, value.parse().unwrap());
            }
            let ann = crate::rbac::User { name: "ann".to_owned(), ..crate::rbac::User::default() };
            let acts_as = world.api.user(&map, Some(&super::Peer::Known(ann)));
            acts_as.map_or_else(|failure| failure.message, |user| user.name)
        };
        let forbidden = "is forbidden: User \"ann\" cannot impersonate resource";
        let of_tokens = "in API group \"authentication.k8s.io\" at the cluster scope";
        for (headers, expected) in [
            (&[("impersonate-user", "eve"), ("impersonate-uid", "u-1"), (team, "red")][..], "eve".to_owned()),
            (
                &[("impersonate-user", "eve"), ("impersonate-uid", "u-2")],
                format!("uids.authentication.k8s.io \"u-2\" {forbidden} \"uids\" {of_tokens}"),
            ),
            (
                &[("impersonate-user", "eve"), (team, "blue")],
                format!(
                    "userextras.authentication.k8s.io \"blue\" {forbidden} \"userextras/example.com/team\" {of_tokens}"
                ),
            ),
        ] {
            assert_eq!(user(headers), expected);
        }
    }

    #[tokio::test]
    async fn tokens_are_nobodys() {
        let world = world();
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (code, told) = ask(&world, "POST", reviews, json!({"spec": {"token": "t"}})).await;
        assert_eq!((code, &told["spec"]["token"], &told["kind"]), (201, &json!("t"), &json!("TokenReview")));
        assert_eq!(told["status"], json!({"user": {}, "error": "invalid bearer token"}));
        let (code, told) = ask(&world, "POST", reviews, json!({"spec": {}})).await;
        assert_eq!(
            (code, &told["message"]),
            (400, &json!("token is required for TokenReview in authentication"))
        );
    }
}
