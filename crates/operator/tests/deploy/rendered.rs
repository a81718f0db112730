//! The chart and the base, rendered by the programs that people use.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs};

use berth_control_plane::{ControlPlane, Program, Programs, Sources};
use berth_world::World;
use serde_json::{Value, json};

use crate::{objects, root};

const NAMESPACE: &str = "berth-system";

/// The same choice in the chart's values, and as components of the base.
const CHOICES: [(&str, &str); 7] = [
    ("", ""),
    ("shadow=true", "shadow"),
    ("simulated=true", "simulated"),
    ("vpsie=true", "vpsie"),
    ("serviceMonitor.enabled=true", "monitoring"),
    ("webhook.enabled=true", "webhook"),
    ("webhook.enabled=true,webhook.certManager=true", "webhook,webhook-cert-manager"),
];

/// Kinds of others, and of what the world has not.
const NOT_IN_THE_WORLD: [&str; 3] = ["ServiceMonitor", "Issuer", "Certificate"];

#[test]
fn the_chart_makes_what_the_base_makes() {
    let (Some(helm), Some(kubectl)) = (helm(), kubectl()) else { return };
    for (value, component) in CHOICES {
        let chart = by_name(chart(&helm, value));
        let mut base = by_name(base(&kubectl, component));
        // The namespace is Helm's own affair: --create-namespace.
        assert!(base.remove(&format!("Namespace/{NAMESPACE}")).is_some(), "{component}");
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&chart), names(&base), "chart and base: {component}");
        for (name, object) in &base {
            assert_eq!(chart[name], *object, "chart and base: {component} {name}");
        }
    }
}

#[test]
fn values_are_checked() {
    let Some(helm) = helm() else { return };
    let digest = format!("image.digest=sha256:{}", "a".repeat(64));
    let image = |text: String| {
        let deployment = objects("chart", text).into_iter().find(|object| object["kind"] == "Deployment");
        deployment.expect("a Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
    };
    let digested = image(rendered(&helm, &digest).expect("a digest is fine"));
    assert_eq!(digested["image"], format!("berth@sha256:{}", "a".repeat(64)));
    let set = image(rendered(&helm, "settings.batch-max-duration=20s").expect("a setting is fine"));
    let args = [
        "run",
        "--metrics-port=8080",
        "--health-probe-port=8081",
        "--batch-max-duration=20s",
        "--log-format=json",
    ];
    assert_eq!(set["args"], json!(args));
    for bad in [
        "replica=3",
        "replicas=0",
        "image.digest=sha256:1",
        "ports.metrics=0",
        "settings.shadow=true",
        "settings.enable-webhook=true",
        "webhook.caBundle=-----BEGIN",
        "vpsieSecretName=",
    ] {
        assert!(rendered(&helm, bad).is_err(), "{bad} should be refused");
    }
}

/// Who only reads gets VPSie's prices, and is allowed nothing but the Secret for it, wherever that is.
#[test]
fn a_shadow_may_read_the_secret_of_vpsie_and_change_nothing() {
    let Some(helm) = helm() else { return };
    for (value, namespace, secret) in [
        ("shadow=true,vpsie=true", NAMESPACE, "vpsie-secret"),
        ("shadow=true,vpsie=true,vpsieSecretNamespace=kube-system", "kube-system", "vpsie-secret"),
        ("vpsie=true,vpsieSecretNamespace=kube-system", "kube-system", "vpsie-secret"),
        ("vpsie=true,vpsieSecretName=keys", NAMESPACE, "keys"),
    ] {
        let objects = by_name(chart(&helm, value));
        let container = &objects["Deployment/berth"]["spec"]["template"]["spec"]["containers"][0];
        let args: Vec<&str> = list(&container["args"]).filter_map(Value::as_str).collect();
        assert!(args.contains(&&*format!("--vpsie-secret-namespace={namespace}")), "{value}: {args:?}");
        assert!(args.contains(&&*format!("--vpsie-secret-name={secret}")), "{value}: {args:?}");
        let read = &objects["Role/berth-vpsie"]["rules"][0]["resourceNames"];
        assert_eq!(*read, json!([secret]), "{value}");
        for kind in ["Role", "RoleBinding"] {
            let object = &objects[&format!("{kind}/berth-vpsie")];
            assert_eq!(object["metadata"]["namespace"], namespace, "{value}: {kind}");
        }
        let changes = |object: &Value| {
            let verbs = list(&object["rules"]).flat_map(|rule| list(&rule["verbs"]));
            verbs.filter_map(Value::as_str).any(|verb| !["get", "list", "watch"].contains(&verb))
        };
        let is_shadow = value.contains("shadow");
        assert_eq!(objects.values().any(changes), !is_shadow, "{value}");
    }
}

/// 12a2943: VPSie's chart let the API server through to the service's port, 443. A policy sees the pod's, so nobody got
/// through.
#[test]
fn the_policy_lets_the_api_server_through_to_the_pods_port_12a2943() {
    let mut installed = Vec::new();
    if let Some(kubectl) = kubectl() {
        installed.push((9443, base(&kubectl, "webhook")));
    }
    if let Some(helm) = helm() {
        installed.push((9443, chart(&helm, "webhook.enabled=true")));
        installed.push((10250, chart(&helm, "webhook.enabled=true,ports.webhook=10250")));
    }
    for (port, objects) in installed {
        let found = |kind: &str, name: &str| {
            let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
            objects.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind}/{name}"))
        };
        let pod = &found("Deployment", "berth")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let args: Vec<&str> = list(&container["args"]).filter_map(Value::as_str).collect();
        assert!(args.contains(&"--enable-webhook"), "{args:?}");
        assert!(args.contains(&&*format!("--webhook-addr=:{port}")), "{args:?}");
        let open = list(&container["ports"]).find(|open| open["name"] == "webhook");
        assert_eq!(open.expect("a port")["containerPort"], port);
        let service = &found("Service", "berth-webhook")["spec"]["ports"][0];
        assert_eq!((&service["port"], &service["targetPort"]), (&json!(443), &json!("webhook")));
        // From everywhere: an API server is no pod.
        let policy = &found("NetworkPolicy", "berth")["spec"]["ingress"];
        let lets_through =
            |rule: &Value| rule["from"].is_null() && list(&rule["ports"]).any(|of| of["port"] == port);
        assert!(list(policy).any(lets_through), "{policy}");
        assert!(!list(policy).any(|rule| list(&rule["ports"]).any(|of| of["port"] == 443)), "{policy}");
    }
}

/// VPSie's own webhook kept everybody from deleting any node of the cluster, and from everything while it was down.
#[test]
fn the_webhook_is_asked_about_berths_objects_only() {
    let Some(kubectl) = kubectl() else { return };
    let objects = base(&kubectl, "webhook");
    let configuration = objects.iter().find(|object| object["kind"] == "ValidatingWebhookConfiguration");
    let hooks: Vec<&Value> = list(&configuration.expect("a configuration")["webhooks"]).collect();
    assert_eq!(hooks.len(), 3);
    for hook in hooks {
        assert_eq!(hook["failurePolicy"], "Ignore", "{hook}");
        assert_eq!(hook["sideEffects"], "None", "{hook}");
        let about: Vec<&Value> = list(&hook["rules"]).flat_map(|rule| list(&rule["apiGroups"])).collect();
        let is_nodes = about == [&json!("")];
        assert!(is_nodes || about == [&json!("autoscaler.vpsie.com")], "{hook}");
        if is_nodes {
            let labels = json!({ "autoscaler.vpsie.com/managed": "true" });
            assert_eq!(hook["objectSelector"]["matchLabels"], labels, "{hook}");
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[test]
fn the_image_is_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = fs::read_to_string(root().join("deploy/helm/berth/Chart.yaml")).expect("a chart");
    for line in [format!("version: {version}"), format!("appVersion: {version}")] {
        assert!(chart.lines().any(|known| known == line), "the chart does not say {line}");
    }
    let base = fs::read_to_string(root().join("deploy/kustomize/base/berth.yaml")).expect("a base");
    assert!(base.contains(&format!("image: berth:{version}\n")), "the base is of another version");
}

/// What the world takes, it gives back with everything in it that was applied.
#[test]
fn the_world_takes_every_object() {
    let Some(kubectl) = kubectl() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        for (_, component) in CHOICES {
            let world = World::new(1, "2026-03-01T09:00:00Z".parse().expect("a time"));
            for object in base(&kubectl, component) {
                if NOT_IN_THE_WORLD.iter().any(|kind| object["kind"] == *kind) {
                    continue;
                }
                let taken = world.apply("test", &object).await;
                let taken = taken.unwrap_or_else(|failure| panic!("{}: {failure}", name_of(&object)));
                assert!(has(&taken, &object), "{} lost something:\n{object}\n{taken}", name_of(&object));
            }
        }
    });
}

/// Kubernetes takes every object, and its admission lets the pods be: they are within the strictest standard.
#[test]
fn kubernetes_takes_every_object() {
    let Some(plane) = ControlPlane::for_test().expect("it can be started") else { return };
    let kubectl = plane.record().kubectl.clone();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("base.json");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": base(&kubectl, "simulated") });
    fs::write(&file, list.to_string()).expect("it can be written");
    let asked = |words: &[&str]| {
        let mut all = vec![OsStr::new("--kubeconfig"), plane.kubeconfig().as_os_str()];
        all.extend(words.iter().map(OsStr::new));
        said(&kubectl, &all)
    };
    let path = file.to_str().expect("a plain path");
    let applied = asked(&["apply", "--server-side", "-f", path]);
    assert!(applied.is_ok(), "{applied:?}");
    let pods = ["get", "pods", "--namespace", NAMESPACE, "--output", "name"];
    let are_made = (0..150).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        asked(&pods).expect("a list").lines().count() == 2
    });
    let events = asked(&["get", "events", "--namespace", NAMESPACE]);
    assert!(are_made, "there are no pods: {events:?}");
}

/// Whether all of one is in the other; what is empty may be left out.
fn has(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part.iter().all(|(name, part)| {
            let is_empty = *part == json!({}) || *part == json!("");
            all.get(name).map_or(is_empty, |all| has(all, part))
        }),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| has(all, part))
        }
        _ => all == part,
    }
}

fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Without the labels that only Helm has.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|mut object| {
        round(&mut object);
        if let Some(Value::Object(labels)) = object.pointer_mut("/metadata/labels") {
            labels.retain(|name, _| {
                let own = [
                    "app.kubernetes.io/instance",
                    "app.kubernetes.io/version",
                    "app.kubernetes.io/managed-by",
                ];
                name != "helm.sh/chart" && !own.contains(&name.as_str())
            });
        }
        (name_of(&object), object)
    });
    named.collect()
}

/// Kustomize writes 1.0 as 1, which is the same.
fn round(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Number(number) => {
            let whole = number.to_string().strip_suffix(".0").and_then(|whole| whole.parse::<i64>().ok());
            if let Some(whole) = whole {
                *value = json!(whole);
            }
        }
        _ => {}
    }
}

fn chart(helm: &Path, value: &str) -> Vec<Value> {
    objects("chart", rendered(helm, value).unwrap_or_else(|why| panic!("{value}: {why}")))
}

fn rendered(helm: &Path, value: &str) -> Result<String, String> {
    let chart = root().join("deploy/helm/berth");
    let mut words = vec![OsStr::new("template"), OsStr::new("berth"), chart.as_os_str()];
    words.extend(["--namespace", NAMESPACE].map(OsStr::new));
    // Beside another autoscaler its definitions are there.
    if value != "shadow=true" {
        words.push(OsStr::new("--include-crds"));
    }
    if !value.is_empty() {
        words.extend(["--set", value].map(OsStr::new));
    }
    said(helm, &words)
}

fn base(kubectl: &Path, component: &str) -> Vec<Value> {
    // Kustomize wants paths that are relative to the file that has them.
    static COPIES: AtomicUsize = AtomicUsize::new(0);
    let copy_of = COPIES.fetch_add(1, Ordering::Relaxed);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("base-{copy_of}"));
    let _ = fs::remove_dir_all(&directory);
    copy(&root().join("deploy"), &directory.join("deploy"));
    let components: Vec<String> = component
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| format!("deploy/kustomize/components/{name}"))
        .collect();
    let kustomization = json!({ "resources": ["deploy/kustomize/base"], "components": components });
    fs::write(directory.join("kustomization.yaml"), kustomization.to_string()).expect("it can be written");
    let text = said(kubectl, &[OsStr::new("kustomize"), directory.as_os_str()]);
    objects("base", text.unwrap_or_else(|why| panic!("{component}: {why}")))
}

/// Of what Kustomize reads.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("a kind") {
            kind if kind.is_dir() => copy(&path, &to),
            kind if kind.is_file() => drop(fs::copy(&path, &to).expect("a copy")),
            _ => {}
        }
    }
}

fn said(program: &Path, words: &[&OsStr]) -> Result<String, String> {
    let output = Command::new(program).args(words).env_remove("KUBECONFIG").output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn kubectl() -> Option<PathBuf> {
    if let Some(path) = on_path("kubectl") {
        return Some(path);
    }
    let programs = Programs::for_test().expect("they can be looked for")?;
    Some(programs.path(Program::Kubectl).to_owned())
}

/// `cargo xtask test` gets it, if there is Python to get it with.
fn helm() -> Option<PathBuf> {
    let kept =
        || Some(Sources::from_environment(None).ok()?.cache.join("helm")).filter(|path| path.is_file());
    let found = on_path("helm").or_else(kept);
    if found.is_none() {
        assert!(env::var_os("CI").is_none(), "there is no helm");
        // Written past the test harness, which would keep it to itself.
        let _ = writeln!(io::stderr(), "Helm's chart was left out: there is no helm");
    }
    found
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
