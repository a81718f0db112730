//! `berth run` as a shell sees it, against a world that is served.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
  disruption: {consolidateAfter: 0s, budgets: [{nodes: '100%'}]}
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: default}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '20', memory: 1Gi}}}]}
---
";

fn lease(namespace: &str, name: &str, renewed: &str) -> String {
    format!(
        "apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{holderIdentity: somebody-1, leaseDurationSeconds: 15, renewTime: '{renewed}'}}
---
"
    )
}

fn berth(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(line.split_whitespace()).env_remove("KUBECONFIG").stdin(Stdio::null());
    for name in ["METRICS_PORT", "HEALTH_PROBE_PORT", "LOG_LEVEL", "FEATURE_GATES", "BERTH_CONFIG"] {
        command.env_remove(name);
    }
    command
}

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn end(mut self, signal: &str) -> io::Result<(Option<i32>, String, String)> {
        Command::new("kill").args([signal, &self.0.id().to_string()]).status()?;
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut out)?;
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut err)?;
        }
        Ok((self.0.wait()?.code(), out, err))
    }
}

/// A world with these manifests, and the path of its kubeconfig.
fn world(manifests: &str) -> (Running, String) {
    let mut child = berth("world --nodes 0 -f -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(manifests.as_bytes()));
    assert!(written.is_some_and(|written| written.is_ok()));
    let mut lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    let kubeconfig = lines.find_map(|line| Some(line.ok()?.split_once("export KUBECONFIG=")?.1.to_owned()));
    (Running(child), kubeconfig.expect("it says where its kubeconfig is"))
}

/// Ports that nobody listens on.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("[::]:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

/// The answer's status and body, if there is one.
fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| io::Error::other(answer))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}: not after 60 s");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn refused(output: &Output, complaints: &[&str], what: &str) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {err}");
    for complaint in complaints {
        assert!(err.contains(complaint), "{what}: {complaint:?} is not in {err}");
    }
}

#[test]
fn what_is_said_wrong_is_refused() {
    let file = |text: &str, number: usize| -> PathBuf {
        let path = std::env::temp_dir().join(format!("berth-run-{}-{number}.yaml", std::process::id()));
        std::fs::write(&path, text).expect("it is written");
        path
    };
    for (line, complaint) in [
        ("run --metrics-port many", "invalid value 'many' for '--metrics-port <PORT>'"),
        ("run --batch-max-duration 10", "ends without a unit"),
        ("run --feature-gates Drift=true", "there is no gate Drift"),
        ("run --log-format pretty", "[possible values: console, json]"),
        ("run --kube-client-qps 0", "write a number of at least 1"),
        ("run --config /no/such/file", "cannot read /no/such/file"),
        (
            "run --kubeconfig /no/such/file --metrics-port 0 --health-probe-port 0 --page-port 0",
            "cannot use /no/such/file",
        ),
    ] {
        refused(&berth(line).output().expect("berth starts"), &[complaint], line);
    }
    for (number, (text, complaint)) in [
        (
            "log-level: info\nmetrix-port: 1\n",
            ":2: metrix-port: there is no such setting; did you mean metrics-port?",
        ),
        ("metrics-port: many\n", ":1: metrics-port: invalid value 'many'"),
        ("a: [\n", ":"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = file(text, number);
        let output = berth(&format!("run --config {}", path.display())).output().expect("berth starts");
        std::fs::remove_file(&path).expect("it can be removed");
        refused(&output, &[&format!("{}{complaint}", path.display())], text);
    }
    let output = berth("run").env("METRICS_PORT", "many").output().expect("berth starts");
    refused(&output, &["invalid value 'many' for '--metrics-port <PORT>'"], "environment");
}

#[test]
fn a_cluster_that_does_not_suit_is_refused() {
    let now =
        String::from_utf8(Command::new("date").args(["-u", "+%FT%TZ"]).output().expect("date runs").stdout);
    let now = now.expect("text").trim().to_owned();
    let quiet = "--metrics-port 0 --health-probe-port 0 --page-port 0";
    let run = |kubeconfig: &str, more: &str| {
        berth(&format!("run --kubeconfig {kubeconfig} {quiet} {more}")).output().expect("berth starts")
    };

    for (namespace, name, program) in [
        ("kube-system", "karpenter-leader-election", "Karpenter"),
        ("default", "karpenter-leader-election", "Karpenter"),
        ("kube-system", "cluster-autoscaler", "Cluster Autoscaler"),
    ] {
        let (_world, kubeconfig) =
            world(&lease(namespace, name, &format!("{}.000000Z", now.trim_end_matches('Z'))));
        let said = [
            &*format!("{program} is at work here: somebody-1 holds the lease {namespace}/{name}"),
            "--shadow",
        ];
        refused(&run(&kubeconfig, ""), &said, name);
    }

    let (_world, kubeconfig) = world(POOL);
    let [port] = free_ports();
    let _held = TcpListener::bind(("::", port)).expect("it is free");
    for (line, flag) in [
        (format!("--metrics-port {port} --health-probe-port 0 --page-port 0"), "--metrics-port"),
        (format!("--metrics-port 0 --health-probe-port {port} --page-port 0"), "--health-probe-port"),
        (format!("--metrics-port 0 --health-probe-port 0 --page-port {port}"), "--page-port"),
        (
            format!("--metrics-addr 0 --health-addr 0 --enable-webhook --webhook-addr :{port}"),
            "--webhook-addr",
        ),
    ] {
        let output = berth(&format!("run --kubeconfig {kubeconfig} {line}")).output().expect("berth starts");
        refused(
            &output,
            &[&format!("another program listens on port {port}; choose another with {flag}")],
            flag,
        );
    }

    // Somebody whom the API does not know, one whom it lets do nothing, and nobody.
    let text = std::fs::read_to_string(&kubeconfig).expect("the kubeconfig exists");
    let stranger = std::env::temp_dir().join(format!("berth-run-stranger-{}", std::process::id()));
    for (user, mode, complaints) in [
        (serde_json::json!({ "token": "expired" }), "--shadow", &["does not accept the credentials of "][..]),
        (serde_json::json!({ "as": "intern" }), "--shadow", &["does not let Berth list pods, watch pods, "]),
        (
            serde_json::json!({ "as": "intern" }),
            "",
            &["create pods/eviction", "patch nodepools of karpenter.sh"],
        ),
        (serde_json::json!({}), "--shadow", &["does not say what it serves: forbidden"]),
    ] {
        let mut config: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let known = &mut config["users"][0]["user"];
        if user.get("as").is_some() {
            known["as"] = user["as"].clone();
        } else {
            *known = user.clone();
        }
        std::fs::write(&stranger, config.to_string()).expect("it is written");
        refused(&run(&stranger.to_string_lossy(), mode), complaints, &user.to_string());
    }
    std::fs::remove_file(&stranger).expect("it can be removed");
}

#[test]
fn definitions_that_are_missing_are_named() {
    let (world, kubeconfig) = world("");
    let removed = Command::new("kubectl")
        .args([
            "--kubeconfig",
            &kubeconfig,
            "delete",
            "crd",
            "nodepools.karpenter.sh",
            "nodeclaims.karpenter.sh",
        ])
        .output();
    // Where there is no kubectl, the library's own tests have to do.
    let Ok(removed) = removed else { return };
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    let line = format!("run --kubeconfig {kubeconfig} --metrics-port 0 --health-probe-port 0 --page-port 0");
    let given = berth(&format!("{line} -f pools.yaml")).output().expect("berth starts");
    refused(&given, &["-f is only for --shadow"], "pools that are not in the cluster");
    let output = berth(&line).output().expect("berth starts");
    let said = [
        "has no nodepools.karpenter.sh and no nodeclaims.karpenter.sh",
        "berth crds | kubectl apply --server-side -f -",
    ];
    refused(&output, &said, "no definitions");
    drop(world);
    refused(&berth(&line).output().expect("berth starts"), &["does not answer"], "a world that is gone");
}

#[test]
fn a_shadow_tells_what_it_would_do_and_writes_nothing() {
    let (_world, kubeconfig) = world(&format!("{POOL}{POD}"));
    let [metrics, health, page] = free_ports();
    let config = std::env::temp_dir().join(format!("berth-run-shadow-{}.yaml", std::process::id()));
    std::fs::write(&config, format!("metrics-port: {metrics}\nhealth-probe-port: 1\nlog-format: json\n"))
        .expect("it is written");
    let line = format!(
        "run --shadow --kubeconfig {kubeconfig} --config {} --health-probe-port {health} --page-port {page}",
        config.display()
    );
    let child = berth(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let shadow = Running(child);
    until("it is ready", || matches!(get(health, "/readyz"), Ok((200, _))));
    assert!(matches!(get(health, "/healthz"), Ok((200, _))));
    assert!(matches!(get(page, "/"), Ok((200, _))));
    let scraped = || get(metrics, "/metrics").map(|(_, text)| text).unwrap_or_default();
    until("it has decided", || {
        scraped().contains(r#"berth_decisions_total{kind="launch",reason="Provisioned"} 1"#)
    });
    let text = scraped();
    for line in [
        r#"leader_election_master_status{name="berth"} 0.0"#,
        "karpenter_scheduler_queue_depth 1.0",
        r#"karpenter_nodepools_usage{nodepool="default",resource_type="nodes"} 0.0"#,
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let (code, out, err) = shadow.end("-TERM").expect("it ends");
    std::fs::remove_file(&config).expect("it can be removed");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("Berth would have saved $"), "{out}");
    let lines: Vec<serde_json::Value> =
        err.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let would = lines.iter().find(|line| line["target"] == "berth::decisions").expect("a decision");
    assert_eq!(would["kind"], "launch");
    assert!(would["message"].as_str().is_some_and(|said| said.starts_with("would buy ")), "{would}");
    // It left no trace: no claim, no lease, no ledger.
    let advised =
        berth(&format!("advise --cluster --kubeconfig {kubeconfig} -o json")).output().expect("it runs");
    let plan: serde_json::Value = serde_json::from_slice(&advised.stdout).expect("a plan");
    assert_eq!(plan["summary"]["podsPending"], 1);
    assert_eq!(plan["summary"]["nodesNew"], 1);
}

/// A webhook without a certificate keeps nobody from getting nodes; it says what is missing, and goes on once it is there.
#[test]
fn a_webhook_waits_for_its_certificate() {
    let (_world, kubeconfig) = world(POOL);
    let [metrics, health, webhook] = free_ports();
    let directory = std::env::temp_dir().join(format!("berth-run-webhook-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let line = format!(
        "run --kubeconfig {kubeconfig} --metrics-addr 127.0.0.1:{metrics} --health-addr :{health} --sync-period 10m \
         --enable-webhook --webhook-addr 127.0.0.1:{webhook} --webhook-cert-dir {}",
        directory.display()
    );
    let child = berth(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let running = Running(child);
    let leads = r#"leader_election_master_status{name="berth"} 1.0"#;
    until("it leads", || get(metrics, "/metrics").is_ok_and(|(_, text)| text.contains(leads)));
    let missing = format!("the webhook does not answer: cannot read {}/tls.crt: ", directory.display());
    until("it says what is missing", || {
        get(health, "/readyz").is_ok_and(|(status, said)| status == 503 && said.starts_with(&missing))
    });
    assert!(matches!(get(health, "/healthz"), Ok((200, _))));
    let authority = berth_credentials::Authority::new("webhook").expect("an authority");
    let pair = authority.server("webhook", &["127.0.0.1"]).expect("a certificate");
    std::fs::write(directory.join("tls.key"), &pair.key).expect("it is written");
    std::fs::write(directory.join("tls.crt"), &pair.certificate).expect("it is written");
    until("it is ready", || matches!(get(health, "/readyz"), Ok((200, _))));
    assert!(TcpStream::connect(("127.0.0.1", webhook)).is_ok());
    let (code, _, err) = running.end("-TERM").expect("it ends");
    std::fs::remove_dir_all(&directory).expect("it can be removed");
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("--sync-period has no effect: "), "{err}");
}

#[test]
fn one_that_leads_hands_over_when_it_ends() {
    let (_world, kubeconfig) = world(POOL);
    let ports = free_ports::<4>();
    let run = |metrics: u16, health: u16| {
        let line = format!(
            "run --kubeconfig {kubeconfig} --metrics-port {metrics} --health-probe-port {health} --page-port 0 --log-format json"
        );
        let child = berth(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running(child.expect("it starts"))
    };
    let leads = |metrics: u16| {
        let text = get(metrics, "/metrics").map(|(_, text)| text).unwrap_or_default();
        text.contains(r#"leader_election_master_status{name="berth"} 1.0"#)
    };
    let first = run(ports[0], ports[1]);
    until("the first leads", || leads(ports[0]));
    let second = run(ports[2], ports[3]);
    until("the second is ready", || matches!(get(ports[3], "/readyz"), Ok((200, _))));
    assert!(!leads(ports[2]));
    let began = Instant::now();
    let (code, _, err) = first.end("-TERM").expect("it ends");
    assert_eq!(code, Some(0), "{err}");
    until("the second leads", || leads(ports[2]));
    assert!(began.elapsed() < Duration::from_secs(12), "it did not wait for the lease to run out");
    let (code, _, err) = second.end("-INT").expect("it ends");
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains(r#""epoch":2"#), "{err}");
}

/// Output that takes nothing more, for as long as the other end is there and does not read.
fn stuck() -> io::Result<(UnixStream, Stdio)> {
    let (unread, mut full) = UnixStream::pair()?;
    full.set_nonblocking(true)?;
    while full.write(&[b' '; 4096]).is_ok() {}
    full.set_nonblocking(false)?;
    Ok((unread, OwnedFd::from(full).into()))
}

/// Each of them waits for ever for somebody to read what it says: in the beginning, or at its end.
#[test]
fn a_second_signal_ends_it_at_once() {
    let (_world, kubeconfig) = world(POOL);
    let [health] = free_ports();
    let written = std::env::temp_dir().join(format!("berth-run-signals-{}", std::process::id()));
    let is_written = || written.exists();
    let is_ready = || matches!(get(health, "/readyz"), Ok((200, _)));
    for (line, listens) in [
        (format!("world --kubeconfig {}", written.display()), &is_written as &dyn Fn() -> bool),
        (format!("demo --port 0 --kubeconfig {}", written.display()), &is_written),
        (
            format!(
                "run --shadow --kubeconfig {kubeconfig} --metrics-port 0 --health-probe-port {health} --page-port 0"
            ),
            &is_ready,
        ),
    ] {
        let (_unread, stdout) = stuck().expect("a pair of sockets");
        let child = berth(&line).stdout(stdout).stderr(Stdio::null()).spawn().expect("it starts");
        let mut running = Running(child);
        until(&line, listens);
        // Not the same twice: as long as it has not been taken, a signal is sent only once.
        for signal in ["-INT", "-TERM"] {
            let sent = Command::new("kill").args([signal, &running.0.id().to_string()]).status();
            assert!(sent.expect("kill runs").success(), "{line}");
        }
        let ended = |running: &mut Running| running.0.try_wait().expect("it is a child");
        until(&line, || ended(&mut running).is_some());
        assert_eq!(ended(&mut running).and_then(|status| status.code()), Some(1), "{line}");
        let _ = std::fs::remove_file(&written);
    }
}

const GROUP: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: kube-system}
type: Opaque
# t0p-secret, https://127.0.0.1:9/v2 and c-1.
data: {token: dDBwLXNlY3JldA==, url: aHR0cHM6Ly8xMjcuMC4wLjE6OS92Mg==, resourceIdentifier: Yy0x}
---
apiVersion: autoscaler.vpsie.com/v1alpha1
kind: NodeGroup
metadata: {name: workers, namespace: kube-system, labels: {autoscaler.vpsie.com/managed: 'true'}}
spec:
  minNodes: 0
  maxNodes: 7
  datacenterID: dc-1
  offeringIDs: [small]
  resourceIdentifier: c-1
  project: p-1
  kubernetesVersion: v1.34.0
---
";

/// As VPSie's own autoscaler is started. Nobody listens where its Secret says that VPSie is.
#[test]
fn one_that_buys_from_vpsie_says_that_it_cannot_reach_it() {
    let (_world, kubeconfig) = world(GROUP);
    let [metrics, health] = free_ports();
    let line = format!(
        "run --kubeconfig {kubeconfig} --metrics-addr 127.0.0.1:{metrics} --health-addr :{health} \
         --leader-election-id vpsie-autoscaler-leader --vpsie-secret-name keys \
         --vpsie-secret-namespace kube-system --default-offering-ids small,big --kube-size-id 2 \
         --failed-vpsienode-ttl 0 --page-port 0 --log-format json"
    );
    let child = berth(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let running = Running(child);
    let scraped = || get(metrics, "/metrics").map(|(_, text)| text).unwrap_or_default();
    until("it leads", || {
        scraped().contains(r#"leader_election_master_status{name="vpsie-autoscaler-leader"} 1.0"#)
    });
    until("its group is counted", || {
        scraped().contains(r#"nodegroup_max_nodes{nodegroup="workers",namespace="kube-system"} 7.0"#)
    });
    until("it says that VPSie does not answer", || {
        get(health, "/readyz").is_ok_and(|(status, said)| status == 200 && said.contains("VPSie does not: "))
    });
    assert!(scraped().contains(r#"vpsie_api_errors_total{method="GET",error_type="request_failed"}"#));
    let (code, _, err) = running.end("-TERM").expect("it ends");
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("t0p-secret"), "{err}");
}
