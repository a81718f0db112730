//! The binary as a shell sees it: exit codes, streams, closed pipes.

use std::io::{self, BufRead, BufReader, Write, pipe};
use std::process::{Child, Command, Output, Stdio};

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
";

fn pod(name: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop}}
spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]}}
---
"
    )
}

fn berth(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(line.split_whitespace()).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn berth_reading(line: &str, manifests: &str) -> io::Result<Output> {
    let mut command = berth(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // A command that is refused ends without reading, perhaps before this is written.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(manifests.as_bytes()));
    child.wait_with_output()
}

#[test]
fn exit_codes_and_streams() {
    for (line, code, stdout, stderr) in [
        ("--version", 0, "berth ", ""),
        ("--help", 0, "Examples:", ""),
        ("advise --help", 0, "Examples:", ""),
        ("explain pod --help", 0, "Examples:", ""),
        ("explain node --help", 0, "Examples:", ""),
        ("catalog --help", 0, "Built in:", ""),
        ("catalog list --help", 0, "Examples:", ""),
        ("advise", 2, "", "--filename <PATH>...|--cluster"),
        ("advise --kubeconfig a -f b", 2, "", "--cluster"),
        ("advise --cluster --kubeconfig no-such-file", 2, "", "cannot use no-such-file: "),
        ("world --help", 0, "Examples:", ""),
        ("world --port 65536", 2, "", "65536"),
        ("world -f no-such-file", 2, "", "no-such-file"),
        ("world --machine s-8x:*:*", 2, "", "has no type s-8x; near it are s-8x-amd64-linux"),
        ("world --machine *:mars:*", 2, "", "sells no *:mars:*; it sells test-zone-a:on-demand"),
        ("world --catalog mars", 2, "", "there is no catalog `mars`"),
        (r#"world --weather {"rain":true}"#, 2, "", "--weather: the text: "),
        (
            r#"world --weather {"stock":[{"count":0}]}"#,
            2,
            "",
            "--nodes: node-1 was not sold: none of the offerings",
        ),
        ("completions bash", 0, "_berth()", ""),
        ("", 2, "", "Usage: berth"),
        ("advise", 2, "", "--filename"),
        ("advise -f x --unavailable nonsense", 2, "", "TYPE:ZONE:CAPACITYTYPE"),
        ("no-such-command", 2, "", "unrecognized subcommand"),
    ] {
        let output = berth(line).output().expect("berth starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "berth {line}: {err}");
        assert!(out.contains(stdout), "berth {line} printed {out}");
        assert!(
            err.contains(stderr) && (!stderr.is_empty() || err.is_empty()),
            "berth {line} complained {err}"
        );
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for line in [
        "completions zsh",
        "crds",
        "catalog list -o json",
        "catalog list",
        "advise -f -",
        "advise -f - -o json",
    ] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let output = berth(line).stdout(writer).output().expect("berth starts");
        assert_eq!(output.status.code(), Some(0), "berth {line}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "berth {line}");
    }
}

/// A pod that something would make again, on a node of the pool.
fn running(name: &str, node: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop, ownerReferences: [{{kind: ReplicaSet, name: r, controller: true}}]}}
spec: {{nodeName: {node}, containers: [{{name: c, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]}}
status: {{phase: Running, startTime: '2026-01-05T08:00:00Z'}}
---
"
    )
}

fn node(name: &str) -> String {
    format!(
        "apiVersion: v1
kind: Node
metadata:
  name: {name}
  creationTimestamp: '2026-01-05T08:00:00Z'
  labels: {{karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true', karpenter.sh/capacity-type: on-demand,
    node.kubernetes.io/instance-type: s-4x-amd64-linux, topology.kubernetes.io/zone: test-zone-a,
    kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status: {{capacity: {{cpu: 4, memory: 16Gi, pods: 64}}, allocatable: {{cpu: 3900m, memory: 15Gi, pods: 64}}}}
---
"
    )
}

#[test]
fn nodes_go_or_stay() {
    let one_type = "requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [s-4x-amd64-linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  disruption: {budgets: [{nodes: 100%}]}";
    let busy = POOL.replace("requirements: []", one_type);
    let cluster =
        [&*busy, &node("n-1"), &node("n-2"), &running("a", "n-1", "3"), &running("b", "n-2", "500m")]
            .concat();
    let closed = |schedule: &str| {
        let budget =
            format!("budgets: [{{nodes: '0', schedule: '{schedule}', duration: 8h}}, {{nodes: 100%}}]");
        cluster.replace("budgets: [{nodes: 100%}]", &budget)
    };
    let (office, bad) = (closed("TZ=Europe/Berlin 0 9 * * *"), closed("TZ=Mars/Base 0 9 * * *"));
    let unread = [&cluster, &*pod("odd", "lots")].concat();
    let budget_of_all = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: all, namespace: shop}\nspec: {minAvailable: 2, selector: {}}\n";
    let guarded = [&cluster, budget_of_all].concat();
    for (line, manifests, code, stdout, stderr) in [
        ("advise -f -", &cluster, 0, "nothing to buy", ""),
        ("advise -f - --node-cost 0.05", &cluster, 0, "$0.1000 an hour is what nodes cost beyond", ""),
        ("advise -f - --consolidate", &cluster, 0, "1 of 2 nodes can go", ""),
        ("advise -f - --consolidate -o json", &cluster, 0, "\"nodesRemoved\": 1", ""),
        ("advise -f - --consolidate --min-saving 100", &cluster, 0, "No node can go", ""),
        ("advise -f - --consolidate --disruption-price 1", &cluster, 0, "No node can go", ""),
        // In winter nine o'clock in Berlin is eight in UTC.
        ("advise -f - --consolidate --now 2026-01-07T08:00:00Z", &office, 0, "No node can go", ""),
        ("advise -f - --consolidate --now 2026-01-07T16:00:00Z", &office, 0, "1 of 2 nodes can go", ""),
        ("advise -f - --consolidate", &bad, 2, "", "`Mars/Base` is not a time zone"),
        (
            "advise -f - --consolidate --keep-going",
            &bad,
            2,
            "No node can go",
            "`Mars/Base` is not a time zone",
        ),
        ("advise -f - --consolidate --keep-going", &unread, 2, "nothing to buy", "none is taken away"),
        ("advise -f - --consolidate", &guarded, 0, "PodDisruptionBudget", "every pod of the namespace shop"),
        ("explain node n-2 -f -", &cluster, 0, "n-2 can go", ""),
        ("explain node n-2 -f - --now 2026-01-07T08:00:00Z", &office, 0, "n-2 stays", ""),
        ("explain node n-2 -f -", &guarded, 0, "stands in the way", "every pod of the namespace shop"),
        ("explain node n-2 -f - --keep-going", &unread, 2, "", "none is taken away"),
        ("explain node n-9 -f -", &cluster, 2, "", "there is no node n-9; the input has n-1, n-2"),
    ] {
        let output = berth_reading(line, manifests).expect("berth starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "berth {line}: {err}");
        assert!(out.contains(stdout) && (!stdout.is_empty() || out.is_empty()), "berth {line}: {out}");
        assert!(err.contains(stderr) && (!stderr.is_empty() || err.is_empty()), "berth {line}: {err}");
    }
}

/// VPSie's checks of a node of a NodeGroup. Run with `BERTH_UPDATE=1` to write them anew.
#[test]
fn the_checks_of_a_group_are_explained() {
    let group = "apiVersion: autoscaler.vpsie.com/v1alpha1
kind: NodeGroup
metadata: {name: workers, namespace: kube-system, labels: {autoscaler.vpsie.com/managed: 'true'}}
spec: {minNodes: 0, maxNodes: 2, datacenterID: ams-1, offeringIDs: [medium], resourceIdentifier: harbour, project: quay,
  kubernetesVersion: v1.34.0, scaleDownPolicy: {stabilizationWindowSeconds: 0}}
---
";
    let node = |name: &str| {
        format!(
            "apiVersion: autoscaler.vpsie.com/v1alpha1
kind: VPSieNode
metadata: {{name: {name}, namespace: kube-system, labels: {{autoscaler.vpsie.com/nodegroup: workers}}}}
spec: {{vpsieInstanceID: 1, instanceType: medium, nodeGroupName: workers, datacenterID: ams-1, resourceIdentifier: harbour,
  project: quay, kubernetesVersion: v1.34.0, nodeName: {name}}}
status: {{phase: Ready, nodeName: {name}}}
---
apiVersion: v1
kind: Node
metadata:
  name: {name}
  creationTimestamp: '2026-01-05T08:00:00Z'
  labels: {{autoscaler.vpsie.com/nodegroup: workers, autoscaler.vpsie.com/managed: 'true',
    karpenter.sh/capacity-type: on-demand, node.kubernetes.io/instance-type: medium,
    topology.kubernetes.io/zone: ams-1, kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status: {{capacity: {{cpu: 4, memory: 16Gi, pods: 64}}, allocatable: {{cpu: 4, memory: 15Gi, pods: 64}}}}
---
"
        )
    };
    let keeping = running("a", "v-1", "3").replace("spec: {", "spec: {volumes: [{name: c, emptyDir: {}}], ");
    let cluster = [group, &node("v-1"), &node("v-2"), &keeping, &running("b", "v-2", "2")].concat();
    let line = "explain node v-1 -f - --catalog ../../examples/vpsie/offers.json --now 2026-01-07T08:00:00Z";
    let output = berth_reading(line, &cluster).expect("berth starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""));
    let golden = "tests/golden/explain-group-node.txt";
    if std::env::var_os("BERTH_UPDATE").is_some() {
        std::fs::write(golden, &*out).expect("it can be written");
    }
    assert_eq!(out, std::fs::read_to_string(golden).unwrap_or_default());
    // It is busy, its pod keeps data there and fits nowhere else: each check says its own.
    for (check, verdict) in [
        ("local_storage", "failed"),
        ("rescheduling", "failed"),
        ("system_pods", "passed"),
        ("affinity", "passed"),
        ("capacity", "failed"),
        ("protection", "passed"),
    ] {
        let is_it = |line: &str| line.split_whitespace().take(2).eq([check, verdict]);
        assert!(out.lines().any(is_it), "{check} has not {verdict}: {out}");
    }
}

#[test]
fn the_example_of_a_scattered_cluster() {
    let example = "../../examples/consolidate";
    // During office hours the drifted node stays.
    for (now, expected) in [
        ("2026-01-07T12:00:00Z", ["of 7 nodes can go", "the pool's budgets for Drifted"]),
        ("2026-01-07T22:00:00Z", ["of 7 nodes can go", "NodePoolDrifted"]),
    ] {
        let mut command = berth("advise --consolidate");
        let output = command.args(["-f", example, "--now", now]).output().expect("berth starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.status.code(), &*err), (Some(0), ""), "{now}");
        for words in expected {
            assert!(out.contains(words), "{now}: {words} is not in {out}");
        }
    }
}

/// Its offers lie among its manifests. Run with `BERTH_UPDATE=1` to write the plan anew.
#[test]
fn the_example_of_pools_on_vpsie() {
    let example = "../../examples/vpsie";
    let output = berth(&format!("advise -f {example} --catalog {example}/offers.json")).output();
    let output = output.expect("berth starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""));
    let golden = "tests/golden/example-vpsie.txt";
    if std::env::var_os("BERTH_UPDATE").is_some() {
        std::fs::write(golden, &*out).expect("it can be written");
    }
    assert_eq!(out, std::fs::read_to_string(golden).unwrap_or_default());
    // Without the offers nobody knows what can be bought.
    let output = berth(&format!("advise -f {example}/pools.yaml -f {example}/pods.yaml")).output();
    let err = String::from_utf8_lossy(&output.expect("berth starts").stderr).into_owned();
    assert!(err.contains("NodePool/web: spec.template.spec.nodeClassRef: no catalog is built in"), "{err}");
}

#[test]
fn plans_and_their_exit_codes() {
    let fits = [POOL, &pod("web", "1")].concat();
    let too_large = [&fits, &*pod("huge", "900")].concat();
    let half_bad = [&fits, &*pod("odd", "lots")].concat();
    for (line, manifests, code, stdout, stderr) in [
        ("advise -f -", &fits, 0, "1 pod pending: 1 placed", ""),
        ("advise -f - --strict", &fits, 0, "Buy 1 node", ""),
        ("advise -f - -o json", &fits, 0, "\"podsPlaced\": 1", ""),
        ("advise -f - -o yaml", &fits, 0, "podsPlaced: 1", ""),
        ("advise -f -", &too_large, 0, "InsufficientCpu", ""),
        ("advise -f - --strict", &too_large, 1, "InsufficientCpu", ""),
        ("advise -f - --unavailable *:*:*", &fits, 0, "OfferingUnavailable", ""),
        ("advise -f -", &half_bad, 2, "", "stdin:"),
        ("advise -f - --keep-going", &half_bad, 2, "1 pod pending: 1 placed", "stdin:"),
        ("advise -f no-such-file", &fits, 2, "", "no-such-file"),
        ("advise -f - --catalog no-such-catalog", &fits, 2, "", "built in are"),
        ("explain pod shop/web -f -", &fits, 0, "shop/web needs a new node", ""),
        ("explain pod shop/huge -f -", &too_large, 0, "shop/huge has no place", ""),
        ("explain pod shop/none -f -", &fits, 2, "", "its namespace has shop/web"),
    ] {
        let output = berth_reading(line, manifests).expect("berth starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "berth {line}: {err}");
        assert!(
            out.contains(stdout) && (code != 2 || !stdout.is_empty() || out.is_empty()),
            "berth {line}: {out}"
        );
        assert!(
            err.contains(stderr) && (!stderr.is_empty() || err.is_empty()),
            "berth {line} complained {err}"
        );
    }
}

#[test]
fn a_page_is_written_beside_the_plan() {
    let path = std::env::temp_dir().join(format!("berth-page-{}.html", std::process::id()));
    let line = format!("advise -f - --html {}", path.display());
    let output = berth_reading(&line, &[POOL, &pod("web", "1")].concat()).expect("berth starts");
    let page = std::fs::read_to_string(&path).expect("the page exists");
    std::fs::remove_file(&path).expect("the page can be removed");
    assert_eq!(output.status.code(), Some(0));
    assert!(page.starts_with("<!doctype html>") && page.contains("shop/web"), "{page}");
    let nowhere =
        berth_reading("advise -f - --html /no/such/directory/page.html", POOL).expect("berth starts");
    assert_eq!(nowhere.status.code(), Some(2));
}

/// A world that does not outlive the test, however that ends.
struct World(Child);

impl Drop for World {
    fn drop(&mut self) {
        // It may have ended, as it was told to.
        let _ = self.0.kill();
    }
}

/// A world that was started, its address and the path of its kubeconfig, as it says itself.
fn started(line: &str) -> io::Result<(World, String, String)> {
    started_as(&mut berth(line))
}

fn started_as(command: &mut Command) -> io::Result<(World, String, String)> {
    let (world, address, kubeconfig, _) = heard(command)?;
    Ok((world, address, kubeconfig))
}

/// The same, and what it says from then on.
fn heard(command: &mut Command) -> io::Result<(World, String, String, impl Iterator<Item = String>)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    let mut lines = lines.map_while(Result::ok);
    let mut after = |words: &str| {
        let said = lines.find_map(|line| Some(line.split_once(words)?.1.to_owned()));
        said.ok_or_else(|| io::Error::other(format!("{command:?} does not say {words}")))
    };
    let address = after("https://")?.split(". ").next().unwrap_or_default().to_owned();
    let kubeconfig = after("export KUBECONFIG=")?;
    Ok((World(child), address, kubeconfig, lines))
}

#[cfg(unix)]
#[test]
fn a_world_lives_until_it_is_ended_and_leaves_nothing() {
    let example = "../../examples/shop";
    let (mut first, address, kubeconfig) =
        started(&format!("world --seed 7 -f {example}")).expect("it starts");
    let text = std::fs::read_to_string(&kubeconfig).expect("the kubeconfig exists");
    assert!(text.contains(&address), "{address} is not in {text}");
    std::net::TcpStream::connect(&address).expect("it listens");
    let port = address.rsplit(':').next().unwrap_or_default();
    for (line, complaint) in [
        (
            format!("world --port {port}"),
            format!("another program listens on {address}; choose another port"),
        ),
        (format!("world --kubeconfig {kubeconfig}"), format!("{kubeconfig} exists already")),
    ] {
        let output = berth(&line).output().expect("berth starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "berth {line}: {said}");
        assert!(said.contains(&complaint), "berth {line}: {said}");
    }
    let named = std::env::temp_dir().join(format!("berth-world-test-{}", std::process::id()));
    let (mut second, _, written) =
        started(&format!("world --kubeconfig {}", named.display())).expect("it starts");
    assert_eq!(written, named.to_string_lossy());
    for (World(child), signal) in [(&mut first, "-INT"), (&mut second, "-TERM")] {
        let killed =
            Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
        assert!(killed.success());
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
    assert!(!named.exists());
    let directory = std::path::Path::new(&kubeconfig).parent().expect("it is in a directory");
    assert!(!directory.exists(), "{} is left", directory.display());
    assert!(std::net::TcpStream::connect(&address).is_err());
}

#[cfg(unix)]
#[test]
fn a_world_goes_wrong_as_it_is_told() {
    for (fault, complaint) in [
        ("nonsense", "\"nonsense\" is no fault: there is no `: ` before the harm"),
        ("* after event pods #1: drop", "say `before event`"),
        ("* before get pods #1: clock +1h", "a program's clock is its own"),
        ("* before get pods #1: clock 50%", "a program's clock is its own"),
        ("* before get pods #1: crash", "a program ends by itself"),
    ] {
        let output = berth("world").args(["--fault", fault]).output().expect("berth starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{fault}: {said}");
        assert!(said.contains(complaint), "{fault}: {said}");
    }
    let (forbidden, vain) = ("* before list nodes #1x999: status 403", "* before list pod #1: lost");
    let mut command = berth("world --nodes 0");
    command.args(["--fault", forbidden, "--fault", vain]).stderr(Stdio::piped());
    let (mut world, _, kubeconfig, mut told) = heard(&mut command).expect("it starts");
    let mut warned = String::new();
    let mut complaints = world.0.stderr.take().map(BufReader::new).expect("it is piped");
    complaints.read_line(&mut warned).expect("it is read");
    assert!(warned.contains("as long as nobody serves pod; did you mean pods?"), "{warned}");
    let line = format!("advise --cluster --kubeconfig {kubeconfig}");
    let output = berth(&line).output().expect("berth starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("a fault was planned"), "{said}");
    assert!(
        told.any(|line| line.contains(&format!("Z berth: {forbidden}"))),
        "it is not told what has struck"
    );
}

#[cfg(unix)]
#[test]
fn a_cluster_is_judged_as_its_manifests_are() {
    let example = "../../examples/shop";
    let (mut world, address, kubeconfig) =
        started(&format!("world --nodes 0 -f {example}")).expect("it starts");
    let answer = |line: &str| {
        let output = berth(line).output().expect("berth starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), out.into_owned(), err.into_owned())
    };
    let summary = |line: &str| -> serde_json::Value {
        let (code, out, err) = answer(line);
        assert_eq!(code, Some(0), "berth {line}: {err}");
        serde_json::from_str::<serde_json::Value>(&out).expect("it is JSON")["summary"].take()
    };
    let cluster = format!("--cluster --kubeconfig {kubeconfig}");
    let from_files = summary(&format!("advise -f {example} -o json"));
    assert_eq!(summary(&format!("advise {cluster} -o json")), from_files);
    assert_ne!(from_files["podsPending"], 0);
    // What files say takes the place of what is there.
    assert_eq!(summary(&format!("advise {cluster} -f {example} -o json")), from_files);

    let (code, out, _) = answer(&format!("explain pod shop/cache-0 {cluster}"));
    assert_eq!((code, out.contains("shop/cache-0 needs a new node")), (Some(0), true), "{out}");
    let more = std::env::temp_dir().join(format!("berth-more-{}.yaml", std::process::id()));
    std::fs::write(&more, pod("extra", "1")).expect("it is written");
    let with_more = summary(&format!("advise {cluster} -f {} -o json", more.display()));
    std::fs::remove_file(&more).expect("it can be removed");
    assert_eq!(with_more["podsPending"].as_u64(), from_files["podsPending"].as_u64().map(|pods| pods + 1));

    // Whoever may see nothing is told so, and nothing is judged by halves.
    let text = std::fs::read_to_string(&kubeconfig).expect("the kubeconfig exists");
    let stranger = std::env::temp_dir().join(format!("berth-stranger-{}", std::process::id()));
    let nobody: Vec<&str> = text.lines().filter(|line| !line.contains("client-")).collect();
    std::fs::write(&stranger, nobody.join("\n")).expect("it is written");
    let (code, out, err) = answer(&format!("advise --cluster --kubeconfig {}", stranger.display()));
    assert_eq!((code, &*out), (Some(2), ""), "{err}");
    assert!(err.contains("cluster: does not say what it serves: forbidden: User"), "{err}");

    let ended = Command::new("kill").args(["-INT", &world.0.id().to_string()]).status().expect("kill runs");
    assert!(ended.success() && world.0.wait().expect("it ends").success());
    std::fs::write(&stranger, text).expect("it is written");
    let (code, _, err) = answer(&format!("advise --cluster --kubeconfig {}", stranger.display()));
    std::fs::remove_file(&stranger).expect("it can be removed");
    assert_eq!(code, Some(2));
    assert!(err.contains(&format!("https://{address}/ does not answer: ")), "{err}");
}

#[cfg(unix)]
#[test]
fn a_world_tells_what_its_cloud_does() {
    let weather = r#"{"reclaims":[{"atMs":300,"noticeMs":300}]}"#;
    let line = format!("world --nodes 1 --machine *:test-zone-b:spot --weather {weather}");
    let mut child = berth(&line).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    let told: Vec<String> =
        lines.map_while(Result::ok).filter(|line| line.contains("node-1")).take(2).collect();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let machine = " node-1 (s-8x-amd64-linux in test-zone-b as spot): the cloud";
    for (line, does) in told.iter().zip(["gives notice, and ends it at 2", "has ended it"]) {
        assert!(line.contains(&format!("{machine} {does}")), "{line}");
    }
    assert_eq!(told.len(), 2);
}

#[test]
fn a_world_is_not_started_with_what_it_does_not_take() {
    let boat = "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: b}\n";
    let odd = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Odd}\n";
    for (manifests, complaint) in [
        (boat, "stdin:1: Boat/b: no matches for kind \"Boat\" in version \"example.com/v1\""),
        (odd, "stdin:1: ConfigMap/Odd: ConfigMap \"Odd\" is invalid: metadata.name: Invalid value: \"Odd\""),
        ("a: [", "stdin:1: "),
    ] {
        let output = berth_reading("world -f -", manifests).expect("berth starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{manifests}: {said}");
        assert!(said.contains(complaint) && said.contains("no world was started"), "{manifests}: {said}");
    }
}
