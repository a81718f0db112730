//! The whole life of a control plane, through the command: only where its programs are at hand, because
//! building them takes minutes.

#![expect(clippy::expect_used, clippy::panic, reason = "a test's harness may fail the test")]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use berth_control_plane::{Directory, Occupant, Programs, Record};

const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node",
    "metadata": {"name": "quay-1", "labels": {"kubernetes.io/hostname": "quay-1"}},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "20"}}}"#;

const DEPLOYMENT: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}}}}"#;

/// Far longer than anything takes, since a test must not depend on how fast the machine is.
const PATIENCE: Duration = Duration::from_mins(2);

struct Plane {
    state: PathBuf,
}

impl Plane {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("control-plane").args(words).arg("--state-dir").arg(&self.state);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("xtask can be started")
    }

    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn fails(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn running(&self) -> (u32, Record) {
        match Occupant::of(&self.state).expect("readable") {
            Occupant::Alive { pid: Some(pid), record: Some(record) } => (pid, record),
            other => panic!("{other:?}"),
        }
    }
}

/// Whatever fails, nothing stays.
impl Drop for Plane {
    fn drop(&mut self) {
        self.run(&["down"]);
    }
}

#[test]
fn a_control_plane_lives_works_and_leaves_nothing_behind() {
    if Programs::for_test().expect("the programs of a control plane").is_none() {
        return;
    }
    let outer = Directory::temporary().expect("a directory");
    let plane = Plane { state: outer.path().join("plane") };
    assert!(plane.succeeds(&["down"]).contains("nothing to stop"));
    for words in [&["status"], &["env"]] {
        assert!(plane.fails(words).contains("control-plane up"));
    }

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let refused = plane.fails(&["up", "--port", &port]);
    assert!(refused.contains(&format!("127.0.0.1:{port}")) && refused.contains("--port"), "{refused}");
    assert!(!plane.state.exists());

    let kubeconfig = plane.succeeds(&["up"]);
    let kubeconfig = Path::new(kubeconfig.trim_end());
    assert_eq!(
        plane.succeeds(&["up"]).trim_end(),
        kubeconfig.to_string_lossy(),
        "a second `up` finds the first"
    );
    assert!(plane.succeeds(&["env"]).contains(&format!("export KUBECONFIG='{}'", kubeconfig.display())));
    let status = plane.succeeds(&["status"]);
    assert_eq!(status.matches("  ready").count(), 5, "{status}");
    pods_run(&plane.running().1);

    // Killed, it takes its components along, and nobody has to come for what it has written.
    let (pid, record) = plane.running();
    kill(pid);
    all_end(&record);
    wait_until("its files are gone", || !plane.state.exists());
    assert!(plane.fails(&["status"]).contains("no control plane runs"));

    // A component that ends takes the others along, and its log says why.
    plane.succeeds(&["up"]);
    let (_, record) = plane.running();
    kill(record.components[3].pid);
    all_end(&record);
    wait_until("the supervisor has said why", || {
        matches!(Occupant::of(&plane.state), Ok(Occupant::Dead { epitaph: Some(_) }))
    });
    let ended = plane.fails(&["status"]);
    assert!(ended.contains("kube-scheduler ended") && ended.contains("logs are in"), "{ended}");
    assert!(plane.succeeds(&["down"]).contains("had ended already"));

    // An `up` that is killed on the way leaves nothing either.
    let mut up = plane.command(&["up"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("xtask");
    wait_until("a first component runs", || plane.state.join("logs/kube-apiserver.log").exists());
    up.kill().expect("killable");
    up.wait().expect("a child");
    wait_until("the supervisor ends", || !plane.state.exists());

    plane.succeeds(&["up"]);
    let (_, record) = plane.running();
    assert!(plane.succeeds(&["down"]).contains("is stopped"));
    assert!(!plane.state.exists());
    all_end(&record);
}

#[test]
fn without_programs_and_without_go_it_says_what_to_install() {
    let outer = Directory::temporary().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["control-plane", "up", "--state-dir", "state", "--cache-dir", "cache"])
        .current_dir(outer.path())
        .env("PATH", outer.path())
        .env_remove("KUBEBUILDER_ASSETS")
        .output()
        .expect("xtask can be started");
    let said = text(&output.stderr);
    assert!(!output.status.success());
    for words in ["etcd, kube-apiserver", "get Go 1.26 or newer", "KUBEBUILDER_ASSETS"] {
        assert!(said.contains(words), "{said}");
    }
}

fn pods_run(record: &Record) {
    let directory = record.kubeconfig.parent().expect("a directory");
    let kubectl = |words: &[&str]| {
        let output = Command::new(&record.kubectl)
            .arg("--kubeconfig")
            .arg(&record.kubeconfig)
            .args(words)
            .output()
            .expect("kubectl can be started");
        assert!(output.status.success(), "kubectl {words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let apply = |name: &str, manifest: &str| {
        let path = directory.join(name);
        fs::write(&path, manifest).expect("writable");
        kubectl(&["create", "-f", &path.to_string_lossy()]);
    };
    kubectl(&["create", "namespace", "shop"]);
    apply("node.json", NODE);
    apply("deployment.json", DEPLOYMENT);
    kubectl(&["rollout", "status", "deployment/web", "--namespace", "shop", "--timeout", "120s"]);
    let pods = kubectl(&["get", "pods", "--namespace", "shop", "--no-headers", "-o", "wide"]);
    assert_eq!(
        pods.lines().filter(|pod| pod.contains("Running") && pod.contains("quay-1")).count(),
        3,
        "{pods}"
    );
    assert!(kubectl(&["get", "nodes", "--no-headers"]).contains(" Ready "));
}

fn kill(pid: u32) {
    let status = Command::new("sh").args(["-c", "kill -KILL \"$1\"", "sh", &pid.to_string()]).status();
    assert!(status.expect("sh").success());
}

fn all_end(record: &Record) {
    for component in &record.components {
        wait_until("it ends", || !is_running(component.pid, &component.program.to_string()));
    }
}

/// A dead process that nobody has waited for yet still has a pid, but no command line.
fn is_running(pid: u32, name: &str) -> bool {
    let words = ["-p", &pid.to_string(), "-o", "stat=,args="];
    let output = Command::new("ps").args(words).output().expect("ps");
    let line = text(&output.stdout);
    line.contains(name) && !line.starts_with('Z')
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
