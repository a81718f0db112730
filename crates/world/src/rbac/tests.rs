use super::*;
use crate::json::{Value, json};

/// Whatever a user may ask for in one line: `verb group/resource/subresource namespace name` or `verb /path`,
/// where `-` is nothing.
fn asked(line: &str) -> Attributes<'_> {
    let words: Vec<&str> = line.split(' ').collect();
    let word = |n: usize| words.get(n).copied().filter(|word| *word != "-").unwrap_or_default();
    if word(1).starts_with('/') {
        return Attributes { verb: word(0), target: Target::Path(word(1)) };
    }
    let mut parts = word(1).split('/');
    let mut part = || parts.next().filter(|part| *part != "-").unwrap_or_default();
    let (group, resource, subresource) = (part(), part(), part());
    let target = ResourceTarget { group, resource, subresource, namespace: word(2), name: word(3) };
    Attributes { verb: word(0), target: Target::Resource(target) }
}

fn user(line: &str) -> User {
    let mut words = line.split(' ').map(str::to_owned);
    User { name: words.next().unwrap_or_default(), groups: words.collect(), ..User::default() }
}

fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({ "kind": kind, "metadata": { "name": name, "namespace": namespace }, "rules": rules })
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: &Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    json!({
        "kind": kind, "metadata": { "name": name, "namespace": namespace },
        "roleRef": { "kind": role.0, "name": role.1 }, "subjects": subjects,
    })
}

fn cluster() -> Rules {
    let mut objects = default_objects();
    objects.extend([
        role("", "reader", &json!([{ "verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "deployments", "*/scale"] }])),
        role("", "one-node", &json!([{ "verbs": ["*"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a"] }])),
        role("", "logs", &json!([{ "verbs": ["get"], "nonResourceURLs": ["/logs/*", "/metrics"] }])),
        role("shop", "writer", &json!([{ "verbs": ["create"], "apiGroups": ["*"], "resources": ["*"] }])),
        binding("", "readers", ("ClusterRole", "reader"), &json!([{ "kind": "User", "name": "ann" }])),
        binding("", "nodes", ("ClusterRole", "one-node"), &json!([{ "kind": "Group", "name": "ops" }])),
        binding("", "logs", ("ClusterRole", "logs"), &json!([{ "kind": "Group", "name": "ops" }])),
        binding("shop", "writers", ("Role", "writer"), &json!([{ "kind": "ServiceAccount", "name": "bot" }, { "kind": "User", "name": "ann" }])),
        binding("shop", "far", ("ClusterRole", "reader"), &json!([{ "kind": "ServiceAccount", "name": "bot", "namespace": "ci" }])),
        binding("shop", "viewers", ("ClusterRole", "view"), &json!([{ "kind": "User", "name": "vic" }])),
        binding("shop", "admins", ("ClusterRole", "admin"), &json!([{ "kind": "User", "name": "ada" }])),
        binding("lost", "gone", ("Role", "nowhere"), &json!([{ "kind": "User", "name": "bob" }])),
        binding("lost", "gone-too", ("ClusterRole", "nowhere"), &json!([{ "kind": "User", "name": "bob" }])),
        binding("lost", "odd", ("Widget", "x"), &json!([{ "kind": "User", "name": "carl" }, { "kind": "Robot", "name": "bob" }])),
    ]);
    Rules::from_objects(&objects)
}

#[test]
fn allowed_by_whom() {
    let view = r#"RBAC: allowed by RoleBinding "viewers/shop" of ClusterRole "view" to User "vic""#;
    let admin = r#"RBAC: allowed by RoleBinding "admins/shop" of ClusterRole "admin" to User "ada""#;
    let readers = r#"RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "ann""#;
    let nodes = r#"RBAC: allowed by ClusterRoleBinding "nodes" of ClusterRole "one-node" to Group "ops""#;
    let logs = r#"RBAC: allowed by ClusterRoleBinding "logs" of ClusterRole "logs" to Group "ops""#;
    let rows = [
        ("root system:masters", "delete -/nodes - a", Some("")),
        ("root system:masters", "get /secret", Some("")),
        ("ann", "get -/pods shop x", Some(readers)),
        ("ann", "list -/pods - -", Some(readers)),
        ("ann", "watch -/pods - -", None),
        ("ann", "get -/pods/status shop x", None),
        ("ann", "get apps/deployments/scale shop x", Some(readers)),
        ("ann", "get batch/jobs shop x", None),
        (
            "ann",
            "create batch/jobs shop -",
            Some(r#"RBAC: allowed by RoleBinding "writers/shop" of Role "writer" to User "ann""#),
        ),
        ("ann", "create batch/jobs other -", None),
        ("ann", "create -/nodes - -", None),
        (
            "system:serviceaccount:shop:bot",
            "create -/pods shop -",
            Some(
                r#"RBAC: allowed by RoleBinding "writers/shop" of Role "writer" to ServiceAccount "bot/shop""#,
            ),
        ),
        ("system:serviceaccount:ci:bot", "create -/pods shop -", None),
        (
            "system:serviceaccount:ci:bot",
            "get -/pods shop x",
            Some(
                r#"RBAC: allowed by RoleBinding "far/shop" of ClusterRole "reader" to ServiceAccount "bot/ci""#,
            ),
        ),
        ("system:serviceaccount:shop", "create -/pods shop -", None),
        ("eve ops", "delete -/nodes - a", Some(nodes)),
        ("eve ops", "delete -/nodes - b", None),
        ("eve ops", "list -/nodes - -", None),
        ("eve ops", "get /logs/kubelet", Some(logs)),
        ("eve ops", "get /logs", None),
        ("eve ops", "get /metrics", Some(logs)),
        ("eve ops", "get /metrics/cadvisor", None),
        ("eve ops", "post /metrics", None),
        ("vic", "list -/pods shop -", Some(view)),
        ("vic", "list -/secrets shop -", None),
        ("vic", "list -/pods - -", None),
        ("ada", "list -/secrets shop -", Some(admin)),
        ("ada", "list -/pods shop -", Some(admin)),
        ("ada", "create rbac.authorization.k8s.io/roles shop -", Some(admin)),
        ("ada", "create -/resourcequotas shop -", None),
        (
            "system:anonymous system:unauthenticated",
            "get /version",
            Some(
                r#"RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:unauthenticated""#,
            ),
        ),
        ("system:anonymous system:unauthenticated", "get /apis", None),
        (
            "joe system:authenticated",
            "get /apis/apps/v1",
            Some(
                r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#,
            ),
        ),
        (
            "joe system:authenticated",
            "create authorization.k8s.io/selfsubjectaccessreviews - -",
            Some(
                r#"RBAC: allowed by ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group "system:authenticated""#,
            ),
        ),
        ("", "get -/pods shop x", None),
    ];
    let rules = cluster();
    for (who, what, by) in rows {
        let expected = match by {
            Some(reason) => Decision::Allowed { reason: reason.to_owned() },
            None => Decision::NoOpinion { reason: String::new() },
        };
        assert_eq!(rules.allow(&user(who), &asked(what)), expected, "{who}: {what}");
    }
}

#[test]
fn refused_in_the_servers_words() {
    let rows = [
        (
            "u",
            "get -/pods default x",
            r#"pods "x" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "u",
            "list -/pods default -",
            r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "u",
            "list -/nodes - -",
            r#"nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "u",
            "patch -/nodes/status - a",
            r#"nodes "a" is forbidden: User "u" cannot patch resource "nodes/status" in API group "" at the cluster scope"#,
        ),
        (
            "u",
            "create apps/deployments shop -",
            r#"deployments.apps is forbidden: User "u" cannot create resource "deployments" in API group "apps" in the namespace "shop""#,
        ),
        (
            "u",
            "delete apps/deployments shop web",
            r#"deployments.apps "web" is forbidden: User "u" cannot delete resource "deployments" in API group "apps" in the namespace "shop""#,
        ),
        ("u", "get /metrics", r#"forbidden: User "u" cannot get path "/metrics""#),
        (
            "a<b>&\"c\"",
            "get /metrics",
            r#"forbidden: User "a&lt;b&gt;&amp;\"c\"" cannot get path "/metrics""#,
        ),
        (
            "bob",
            "get -/pods lost x",
            r#"pods "x" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "lost": RBAC: [role.rbac.authorization.k8s.io "nowhere" not found, clusterrole.rbac.authorization.k8s.io "nowhere" not found]"#,
        ),
        (
            "carl",
            "get -/pods lost x",
            r#"pods "x" is forbidden: User "carl" cannot get resource "pods" in API group "" in the namespace "lost": RBAC: unsupported role reference kind: "Widget""#,
        ),
    ];
    let rules = cluster();
    for (who, what, message) in rows {
        let failure = rules.check(&user(who), &asked(what)).expect_err(what);
        assert_eq!((failure.code(), &*failure.message), (403, message), "{who}: {what}");
    }
}

#[test]
fn a_refusal_names_the_resource() {
    let failure = asked("get apps/deployments/scale shop web").forbidden(&user("u"), "");
    assert_eq!(
        failure.to_status()["details"],
        json!({ "name": "web", "group": "apps", "kind": "deployments" })
    );
}

#[test]
fn nobody_grants_what_they_do_not_have() {
    let kinds = crate::kinds::Kinds::built_in();
    let mut objects = default_objects();
    let rbac = "rbac.authorization.k8s.io";
    objects.extend([
        role("", "reader", &json!([{ "verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "*/scale"] }])),
        role("", "logs", &json!([{ "verbs": ["get"], "nonResourceURLs": ["/logs/*"] }])),
        role("", "one", &json!([{ "verbs": ["*"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a"] }])),
        role("", "escalates", &json!([{ "verbs": ["escalate"], "apiGroups": [rbac], "resources": ["roles"], "resourceNames": ["r"] }])),
        role("", "binds", &json!([{ "verbs": ["bind"], "apiGroups": [rbac], "resources": ["clusterroles"], "resourceNames": ["edit"] }])),
        role("shop", "writer", &json!([{ "verbs": ["create"], "apiGroups": ["*"], "resources": ["*"] }])),
        binding("", "readers", ("ClusterRole", "reader"), &json!([{ "kind": "User", "name": "ann" }])),
        binding("", "logs", ("ClusterRole", "logs"), &json!([{ "kind": "User", "name": "ann" }])),
        binding("", "one", ("ClusterRole", "one"), &json!([{ "kind": "User", "name": "ann" }])),
        binding("shop", "writers", ("Role", "writer"), &json!([{ "kind": "User", "name": "ann" }])),
        binding("", "esc", ("ClusterRole", "escalates"), &json!([{ "kind": "User", "name": "eve" }])),
        binding("", "bnd", ("ClusterRole", "binds"), &json!([{ "kind": "User", "name": "bea" }])),
        binding("", "root", ("ClusterRole", "cluster-admin"), &json!([{ "kind": "User", "name": "ada" }])),
    ]);
    let rules = Rules::from_objects(&objects);
    let lacks = |user: &str, what: &str| {
        format!(
            "is forbidden: user \"{user}\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently held:\n{what}"
        )
    };
    let of = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!([{ "apiGroups": groups, "resources": resources, "verbs": verbs }]);
    let gathers = json!({ "clusterRoleSelectors": [{}] });
    let secrets = "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}";
    for (user_line, namespace, written, old, expected) in [
        ("ann g", "shop", role("shop", "r", &of(&[""], &["pods"], &["get", "create"])), None, String::new()),
        (
            "ann g",
            "shop",
            role("shop", "r", &of(&["", "apps"], &["x/scale"], &["list"])),
            None,
            String::new(),
        ),
        ("ann g", "shop", role("shop", "r", &json!([])), None, String::new()),
        (
            "ann g",
            "shop",
            role("shop", "r", &of(&[""], &["secrets"], &["get", "create", "list"])),
            None,
            lacks("ann", secrets),
        ),
        (
            "ann g",
            "other",
            role("other", "r", &of(&[""], &["pods", "pods/log"], &["create", "get"])),
            None,
            lacks(
                "ann",
                "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"create\"]}\n\
                 {APIGroups:[\"\"], Resources:[\"pods/log\"], Verbs:[\"create\" \"get\"]}",
            ),
        ),
        (
            "ann g",
            "",
            role("", "r", &json!([{ "nonResourceURLs": ["/logs/x", "/logs/*"], "verbs": ["get"] }])),
            None,
            String::new(),
        ),
        (
            "ann g",
            "",
            role("", "r", &json!([{ "nonResourceURLs": ["/logs", "/x"], "verbs": ["get"] }])),
            None,
            lacks(
                "ann",
                "{NonResourceURLs:[\"/logs\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}",
            ),
        ),
        (
            "ann g",
            "",
            role(
                "",
                "r",
                &json!([{ "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a", "b"], "verbs": ["get"] }]),
            ),
            None,
            lacks("ann", "{APIGroups:[\"\"], Resources:[\"nodes\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}"),
        ),
        ("ann system:masters", "", role("", "r", &of(&["*"], &["*"], &["*"])), None, String::new()),
        // What was there already is let be where only upkeep changes.
        (
            "ann g",
            "shop",
            role("shop", "r", &of(&[""], &["secrets"], &["get"])),
            Some(role("shop", "r", &of(&[""], &["secrets"], &["get"]))),
            String::new(),
        ),
        (
            "ann g",
            "shop",
            role("shop", "r", &of(&[""], &["secrets"], &["get", "list"])),
            Some(role("shop", "r", &of(&[""], &["secrets"], &["get"]))),
            lacks("ann", secrets),
        ),
        (
            "eve g",
            "shop",
            role("shop", "r", &of(&[""], &["secrets"], &["get"])),
            Some(role("shop", "r", &json!([]))),
            String::new(),
        ),
        (
            "eve g",
            "shop",
            role("shop", "s", &of(&[""], &["secrets"], &["get", "list"])),
            Some(role("shop", "s", &json!([]))),
            lacks("eve", secrets),
        ),
        (
            "ada g",
            "",
            json!({ "metadata": { "name": "r" }, "kind": "ClusterRole", "aggregationRule": gathers }),
            None,
            String::new(),
        ),
        (
            "ann g",
            "",
            json!({ "metadata": { "name": "r" }, "kind": "ClusterRole", "aggregationRule": gathers }),
            None,
            "is forbidden: must have cluster-admin privileges to use the aggregationRule".to_owned(),
        ),
        ("bea g", "shop", binding("shop", "b", ("ClusterRole", "edit"), &json!([])), None, String::new()),
        ("ann g", "shop", binding("shop", "b", ("ClusterRole", "reader"), &json!([])), None, String::new()),
        ("ann g", "shop", binding("shop", "b", ("Role", "writer"), &json!([])), None, String::new()),
        (
            "bea g",
            "shop",
            binding("shop", "b", ("ClusterRole", "logs"), &json!([])),
            None,
            lacks("bea", "{NonResourceURLs:[\"/logs/*\"], Verbs:[\"get\"]}"),
        ),
        (
            "ann g",
            "",
            binding("", "b", ("ClusterRole", "nowhere"), &json!([])),
            None,
            "clusterrolebindings.rbac.authorization.k8s.io \"nowhere\" not found".to_owned(),
        ),
    ] {
        let kind = written["kind"].as_str().unwrap();
        let resource = kinds.find_kind("rbac.authorization.k8s.io/v1", kind).unwrap();
        let name = written["metadata"]["name"].as_str().unwrap();
        let asked = if old.is_some() { name } else { "" };
        let refused = rules
            .check_grants(
                &user(user_line),
                &Written { resource, namespace, asked, new: &written, old: old.as_ref() },
            )
            .err()
            .map_or(String::new(), |failure| failure.message);
        let told = refused.split_once("\" is").map_or(refused.clone(), |(_, why)| format!("is{why}"));
        assert_eq!(told, expected, "{user_line} writes {written}");
    }
}

#[test]
fn aggregation_follows_selectors_and_survives_cycles() {
    let aggregating = |name: &str, labels: Value, selector: Value| {
        json!({ "kind": "ClusterRole", "metadata": { "name": name, "labels": labels },
                "aggregationRule": { "clusterRoleSelectors": [selector] },
                "rules": [{ "verbs": ["delete"], "apiGroups": ["*"], "resources": ["*"] }] })
    };
    let plain = |name: &str, labels: Value, verb: &str| {
        let rule = json!({ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] });
        json!({ "kind": "ClusterRole", "metadata": { "name": name, "labels": labels }, "rules": [rule] })
    };
    let rows = [
        ("labels", json!({ "matchLabels": { "a": "1" } }), ["get", "list"].as_slice()),
        (
            "in",
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": ["2", "3"] }] }),
            &["watch"],
        ),
        (
            "not in",
            json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": ["1"] }] }),
            &["create", "list", "watch"],
        ),
        (
            "exists",
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }),
            &["get", "list", "watch"],
        ),
        (
            "absent",
            json!({ "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] }),
            &["create", "list"],
        ),
        ("unknown operator", json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] }), &[]),
        ("everything", json!({}), &["create", "get", "list", "watch"]),
        ("itself", json!({ "matchLabels": { "self": "yes" } }), &[]),
    ];
    for (case, selector, expected) in rows {
        let objects = [
            plain("one", json!({ "a": "1" }), "get"),
            plain("two", json!({ "a": "2" }), "watch"),
            plain("none", json!({}), "create"),
            plain("deep", json!({ "deep": "1" }), "list"),
            aggregating("loop", json!({ "a": "1" }), json!({ "matchLabels": { "deep": "1" } })),
            aggregating("top", json!({ "self": "yes", "deep": "1", "a": "x", "none": "1" }), selector),
            binding("", "b", ("ClusterRole", "top"), &json!([{ "kind": "User", "name": "u" }])),
        ];
        let rules = Rules::from_objects(&objects);
        let verbs = ["create", "delete", "get", "list", "watch"];
        let line = |verb: &&str| format!("{verb} -/pods shop -");
        let held: Vec<&str> =
            verbs.into_iter().filter(|v| rules.allow(&user("u"), &asked(&line(v))).is_allowed()).collect();
        assert_eq!(held, expected, "{case}");
    }
}

#[test]
fn malformed_objects_grant_nothing() {
    let objects = [
        json!(null),
        json!("ClusterRole"),
        json!({ "kind": "ClusterRole" }),
        json!({ "kind": "ClusterRole", "metadata": { "name": "x" }, "rules": { "verbs": 1 } }),
        json!({ "kind": "ClusterRole", "metadata": { "name": "y" }, "rules": [null, { "verbs": [1, null] }], "aggregationRule": 7 }),
        json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "b" }, "roleRef": "x", "subjects": "all" }),
        json!({ "kind": "RoleBinding", "metadata": { "name": "b" }, "roleRef": { "kind": "ClusterRole", "name": "z" }, "subjects": [{ "kind": "User", "name": "u" }] }),
        json!({ "kind": "ClusterRole", "metadata": { "name": "z" }, "rules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }] }),
        json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "c" }, "roleRef": { "kind": "ClusterRole", "name": "y" }, "subjects": [null, { "kind": "User", "name": "u" }] }),
    ];
    for line in ["get -/pods shop x", "list -/pods - -", "get /version"] {
        assert!(!Rules::from_objects(&objects).allow(&user("u"), &asked(line)).is_allowed(), "{line}");
    }
}

fn review(kind: &str, spec: &Value) -> Value {
    json!({ "kind": kind, "apiVersion": "authorization.k8s.io/v1", "metadata": { "creationTimestamp": null }, "spec": spec })
}

#[test]
fn access_reviews() {
    let (rules, ann) = (cluster(), user("ann"));
    let get_pods =
        json!({ "resourceAttributes": { "verb": "get", "resource": "pods", "namespace": "shop" } });
    let allowed = json!({ "allowed": true, "reason": r#"RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "ann""# });
    let with = |spec: &Value, more: Value| {
        let mut spec = spec.clone();
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    let rows = [
        ("SelfSubjectAccessReview", get_pods.clone(), Ok(allowed.clone())),
        (
            "SelfSubjectAccessReview",
            json!({ "resourceAttributes": { "verb": "delete", "resource": "pods" } }),
            Ok(json!({ "allowed": false })),
        ),
        (
            "SelfSubjectAccessReview",
            json!({ "nonResourceAttributes": { "verb": "get", "path": "/x" } }),
            Ok(json!({ "allowed": false })),
        ),
        (
            "SelfSubjectAccessReview",
            json!({}),
            Err(
                r#".authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"#,
            ),
        ),
        (
            "SelfSubjectAccessReview",
            with(&get_pods, json!({ "nonResourceAttributes": { "path": "/x", "verb": "get" } })),
            Err(
                r#".authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
            ),
        ),
        ("SubjectAccessReview", with(&get_pods, json!({ "user": "ann" })), Ok(allowed)),
        (
            "SubjectAccessReview",
            with(&get_pods, json!({ "user": "joe", "groups": ["x"] })),
            Ok(json!({ "allowed": false })),
        ),
        (
            "SubjectAccessReview",
            with(&get_pods, json!({ "groups": ["system:masters"] })),
            Ok(json!({ "allowed": true })),
        ),
        (
            "SubjectAccessReview",
            get_pods.clone(),
            Err(
                r#".authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified"#,
            ),
        ),
        (
            "LocalSubjectAccessReview",
            with(&get_pods, json!({ "user": "ann" })),
            Err(
                r#".authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "shop": must match metadata.namespace"#,
            ),
        ),
    ];
    for (kind, spec, expected) in rows {
        let review = review(kind, &spec);
        let answer = match kind {
            "SelfSubjectAccessReview" => self_subject_access_review(&rules, &ann, &review),
            "SubjectAccessReview" => subject_access_review(&rules, &review),
            _ => local_subject_access_review(&rules, &review),
        };
        match (answer, expected) {
            (Ok(answer), Ok(status)) => {
                assert_eq!(answer["status"], status, "{kind}: {spec}");
                assert_eq!((&answer["kind"], &answer["spec"]), (&json!(kind), &spec));
            }
            (Err(failure), Err(message)) => assert_eq!((failure.code(), &*failure.message), (422, message)),
            (answer, expected) => panic!("{kind} {spec}: {answer:?}, not {expected:?}"),
        }
    }
}

#[test]
fn rules_reviews() {
    let rules = cluster();
    let spec = json!({ "namespace": "shop" });
    let answer =
        self_subject_rules_review(&rules, &user("eve ops"), &review("SelfSubjectRulesReview", &spec));
    let expected = json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
        "status": {
            "resourceRules": [{ "verbs": ["*"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a"] }],
            "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": ["/logs/*", "/metrics"] }],
            "incomplete": false,
        },
    });
    assert_eq!(answer, Ok(expected));
    let answer =
        self_subject_rules_review(&rules, &user("carl"), &review("x", &json!({ "namespace": "lost" })));
    let why = answer.map(|answer| answer["status"]["evaluationError"].clone());
    assert_eq!(why, Ok(json!("unsupported role reference kind: \"Widget\"")));
    let failure = self_subject_rules_review(&rules, &user("u"), &review("x", &json!({})));
    assert_eq!(failure, Err(Failure::bad_request("no namespace on request")));
}

#[test]
fn who_am_i() {
    let asked = json!({ "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1" });
    let expected = json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": "2026-11-16T00:00:00Z" },
        "status": { "userInfo": { "username": "ann", "groups": ["ops", "system:authenticated"] } },
    });
    let answer = self_subject_review(&user("ann ops system:authenticated"), &asked, "2026-11-16T00:00:00Z");
    assert_eq!(answer, expected);
}

#[test]
fn quoted_as_go_does() {
    let rows = [
        ("a", "\"a\""),
        ("a\"b\\c", r#""a\"b\\c""#),
        ("\n\t\u{0}\u{7f}\u{7}", r#""\n\t\x00\x7f\a""#),
        ("ä", "\"ä\""),
    ];
    for (text, expected) in rows {
        assert_eq!(quoted(text), expected);
    }
}
