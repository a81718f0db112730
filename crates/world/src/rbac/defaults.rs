//! The roles and bindings of a fresh cluster: those without which a client cannot even ask what there is, and
//! those that people bind to by name.

use crate::json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// ClusterRoles, then ClusterRoleBindings, each by name.
pub fn default_objects() -> Vec<Value> {
    let mut objects = vec![
        aggregating("admin", &[]),
        role("cluster-admin", &[], &[resources(&["*"], &["*"], &["*"]), paths(&["*"], &["*"])]),
        aggregating("edit", &["admin"]),
        role("system:aggregate-to-admin", &["admin"], &admin_rules()),
        role("system:aggregate-to-edit", &["edit"], &edit_rules()),
        role("system:aggregate-to-view", &["view"], &view_rules()),
        role("system:auth-delegator", &[], &delegator_rules()),
        role("system:basic-user", &[], &basic_rules()),
        role("system:discovery", &[], &[paths(DISCOVERY, &["get"])]),
        role("system:monitoring", &[], &monitoring_rules()),
        role("system:public-info-viewer", &[], &[paths(PUBLIC, &["get"])]),
        aggregating("view", &["edit"]),
    ];
    objects.extend([
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:monitoring", &["system:monitoring"]),
        binding("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
    ]);
    objects
}

const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

fn basic_rules() -> Vec<Value> {
    let reviews = &["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
    vec![
        resources(&["authorization.k8s.io"], reviews, &["create"]),
        resources(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
    ]
}

/// Of who asks on behalf of those who ask them.
fn delegator_rules() -> Vec<Value> {
    vec![
        resources(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        resources(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ]
}

fn monitoring_rules() -> Vec<Value> {
    let health = &[
        "/flagz",
        "/healthz",
        "/healthz/*",
        "/livez",
        "/livez/*",
        "/metrics",
        "/metrics/slis",
        "/readyz",
        "/readyz/*",
        "/statusz",
    ];
    vec![paths(health, &["get"]), resources(&[""], &["nodes/metrics"], &["get"])]
}

fn admin_rules() -> Vec<Value> {
    vec![
        resources(&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
        resources(&["rbac.authorization.k8s.io"], &["rolebindings", "roles"], ALL),
    ]
}

fn edit_rules() -> Vec<Value> {
    let into_pods =
        &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"];
    let pods = &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];
    let core = &[
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ];
    let apps = &[
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    let extensions = &[
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "ingresses",
        "networkpolicies",
        "replicasets",
        "replicasets/scale",
        "replicationcontrollers/scale",
    ];
    vec![
        resources(&[""], into_pods, READ),
        resources(&[""], &["serviceaccounts"], &["impersonate"]),
        resources(&[""], pods, WRITE),
        resources(&[""], &["pods/eviction"], &["create"]),
        resources(&[""], core, WRITE),
        resources(&[""], &["serviceaccounts/token"], &["create"]),
        resources(&["", "events.k8s.io"], &["events"], WRITE),
        resources(&["apps"], apps, WRITE),
        resources(&["autoscaling"], &["horizontalpodautoscalers"], WRITE),
        resources(&["batch"], &["cronjobs", "jobs"], WRITE),
        resources(&["extensions"], extensions, WRITE),
        resources(&["policy"], &["poddisruptionbudgets"], WRITE),
        resources(&["networking.k8s.io"], &["ingresses", "networkpolicies"], WRITE),
        resources(&["coordination.k8s.io"], &["leases"], ALL),
        resources(&["resource.k8s.io"], &["resourceclaims", "resourceclaimtemplates"], WRITE),
    ]
}

fn view_rules() -> Vec<Value> {
    let core = &[
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
    ];
    let core_status = &[
        "bindings",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
    ];
    let apps = &[
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ];
    let extensions = &[
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "ingresses",
        "ingresses/status",
        "networkpolicies",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "replicationcontrollers/scale",
    ];
    let claims = &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"];
    vec![
        resources(&[""], core, READ),
        resources(&[""], core_status, READ),
        resources(&[""], &["namespaces"], READ),
        resources(&["", "events.k8s.io"], &["events"], READ),
        resources(&["discovery.k8s.io"], &["endpointslices"], READ),
        resources(&["apps"], apps, READ),
        resources(&["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"], READ),
        resources(&["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
        resources(&["extensions"], extensions, READ),
        resources(&["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
        resources(&["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"], READ),
        resources(&["resource.k8s.io"], claims, READ),
    ]
}

/// `into` names the roles that gather this one.
fn role(name: &str, into: &[&str], rules: &[Value]) -> Value {
    let mut role = object("ClusterRole", name);
    for gatherer in into {
        role["metadata"]["labels"][&gathering(gatherer)] = json!("true");
    }
    role["rules"] = json!(rules);
    role
}

fn aggregating(name: &str, into: &[&str]) -> Value {
    let mut role = role(name, into, &[]);
    role["aggregationRule"] =
        json!({ "clusterRoleSelectors": [{ "matchLabels": { (gathering(name)): "true" } }] });
    role
}

fn gathering(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

/// Binds the role of the same name to groups.
fn binding(role: &str, groups: &[&str]) -> Value {
    let mut binding = object("ClusterRoleBinding", role);
    binding["roleRef"] =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
    let subject = |group| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group });
    binding["subjects"] = groups.iter().map(subject).collect();
    binding
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
    })
}

fn resources(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

fn paths(paths: &[&str], verbs: &[&str]) -> Value {
    json!({ "nonResourceURLs": paths, "verbs": verbs })
}
