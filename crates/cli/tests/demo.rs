//! `berth demo` as a shell, a program and a browser see it.

#![cfg(unix)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod browser;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use browser::Truth;
use serde_json::{Value, json};

/// A demo that does not outlive the test, however that ends.
struct Demo {
    child: Child,
    page: String,
    api: String,
    kubeconfig: String,
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended, as it was told to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn berth(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

impl Demo {
    fn start(line: &str) -> io::Result<Self> {
        let mut child = berth(line).stdout(Stdio::piped()).spawn()?;
        let mut lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let mut after = |words: &str| {
            let said = lines.find_map(|line| Some(line.ok()?.split_once(words)?.1.to_owned()));
            said.ok_or_else(|| io::Error::other(format!("berth {line} does not say {words}")))
        };
        let page = after("http://")?;
        let api = after("https://")?.trim_end_matches(':').to_owned();
        let kubeconfig = after("--kubeconfig ")?.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { child, page, api, kubeconfig })
    }

    fn view(&self) -> Option<Value> {
        let Answer { code, body, .. } = ask(&self.page, "GET", "/api/view", "").expect("the page answers");
        (code == 200).then(|| serde_json::from_str(&body).expect("it is JSON"))
    }

    fn wish(&self, wish: &Value) -> (u16, String) {
        let answer = ask(&self.page, "POST", "/api/control", &wish.to_string()).expect("the page answers");
        (answer.code, answer.body)
    }

    /// The first view for which it holds.
    fn until(&self, secs_max: u64, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        let mut last = None;
        while began.elapsed() < Duration::from_secs(secs_max) {
            last = self.view().or(last);
            match &last {
                Some(view) if holds(view) => return view.clone(),
                _ => sleep(Duration::from_millis(100)),
            }
        }
        panic!("{what}: not after {secs_max} s: {last:?}")
    }
}

#[derive(Clone)]
struct Answer {
    code: u16,
    /// The headers that say what the body is and what it may do.
    policy: String,
    body: String,
}

/// One request on a connection of its own.
fn ask(address: &str, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no answer"))?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let is_of_page = |line: &&str| line.starts_with("content-");
    let policy: Vec<&str> =
        head.lines().filter(is_of_page).filter(|line| !line.starts_with("content-length")).collect();
    Ok(Answer {
        code: code.ok_or_else(|| io::Error::other("no status"))?,
        policy: policy.join("\r\n"),
        body: body.to_owned(),
    })
}

fn all<'v>(view: &'v Value, list: &str) -> &'v [Value] {
    view[list].as_array().map_or(&[], Vec::as_slice)
}

fn running(view: &Value, workload: &str) -> usize {
    let pods = all(view, "nodes").iter().flat_map(|node| all(node, "pods"));
    let of_workload = pods.filter(|pod| pod["name"].as_str().is_some_and(|name| name.starts_with(workload)));
    of_workload.filter(|pod| pod["phase"] == "Running").count()
}

#[test]
fn a_demo_buys_from_vpsie_if_it_is_told_to() {
    let demo = Demo::start("demo --cloud vpsie --port 0").expect("it starts");
    let pools = |view: &Value| -> Vec<String> {
        all(view, "pools").iter().filter_map(|pool| Some(pool["name"].as_str()?.to_owned())).collect()
    };
    let began = demo.until(30, "its groups are on screen", |view| pools(view).len() == 2);
    assert_eq!(demo.wish(&json!({ "speed": { "times": 5 } })).0, 204);
    let filled = demo.until(120, "the shop runs", |view| {
        running(view, "web-") >= 6 && all(view, "nodes").iter().any(|node| node["phase"] == "Ready")
    });
    let truth = Truth::of(&demo.kubeconfig);
    let groups = truth.list("/apis/autoscaler.vpsie.com/v1alpha1/nodegroups");
    assert!(groups.iter().all(|group| pools(&began).iter().any(|name| group["metadata"]["name"] == **name)));
    assert_eq!(groups.len(), 2);
    let of_vpsie = truth.list("/apis/autoscaler.vpsie.com/v1alpha1/vpsienodes");
    let is_shown = |node: &Value| {
        node["status"]["phase"] == "Ready"
            && all(&filled, "nodes").iter().any(|shown| shown["name"] == node["status"]["nodeName"])
    };
    assert!(of_vpsie.iter().any(is_shown), "{of_vpsie:?}");
    assert_eq!(truth.list("/apis/karpenter.sh/v1/nodeclaims"), Vec::<Value>::new());
}

#[test]
fn a_demo_shows_its_world_and_leaves_nothing() {
    let mut demo = Demo::start("demo --port 0").expect("it starts");
    let began = demo.until(10, "it is on screen", |view| !all(view, "pools").is_empty());
    assert_eq!((&began["mode"], &began["leader"]), (&json!("demo"), &json!(true)));
    assert_eq!(demo.wish(&json!({ "speed": { "times": 5 } })).0, 204);
    let filled = demo.until(90, "the shop runs", |view| {
        running(view, "web-") >= 6 && all(view, "nodes").iter().all(|node| node["phase"] == "Ready")
    });
    let prices = all(&filled, "nodes").iter().map(|node| micro_usd(&node["pricePerHour"]));
    assert_eq!(prices.sum::<i64>(), micro_usd(&filled["cost"]["perHour"]), "the cost is that of its nodes");

    let (code, said) =
        demo.wish(&json!({ "scale": { "namespace": "shop", "name": "web", "replicas": 3000 } }));
    assert_eq!((code, &*said), (422, "replicas has to be from 0 to 500"));
    let (code, said) = demo.wish(&json!({ "scale": { "namespace": "shop", "name": "boat", "replicas": 1 } }));
    assert_eq!((code, &*said), (422, "deployments.apps \"boat\" not found"));
    let (code, said) = demo.wish(&json!({ "scale": { "namespace": "shop", "name": "web", "replicas": 35 } }));
    assert_eq!((code, &*said), (204, ""));
    demo.until(120, "the pods that were asked for run", |view| running(view, "web-") == 35);
    // It is theirs now: the day, which would have it otherwise several times by now, leaves it alone.
    let web = |view: &Value| {
        let workloads = all(&view["controls"], "workloads").to_vec();
        workloads.into_iter().find(|workload| workload["name"] == "web").map(|web| web["replicas"].clone())
    };
    assert_eq!(demo.view().as_ref().and_then(web), Some(json!(35)));

    let port = demo.page.rsplit(':').next().unwrap_or_default();
    let output = berth(&format!("demo --port {port}")).output().expect("berth starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!("another program listens on {}; choose another port", demo.page)),
        "{said}"
    );
    let output =
        berth(&format!("demo --port 0 --kubeconfig {}", demo.kubeconfig)).output().expect("berth starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("exists already"));

    let killed =
        Command::new("kill").args(["-INT", &demo.child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    assert_eq!(demo.child.wait().expect("it ends").code(), Some(0));
    assert!(!Path::new(&demo.kubeconfig).parent().is_some_and(Path::exists), "{} is left", demo.kubeconfig);
    for address in [&demo.page, &demo.api] {
        assert!(TcpStream::connect(address).is_err(), "{address} still listens");
    }
}

fn micro_usd(price: &Value) -> i64 {
    let digits: String = price.as_str().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("a price")
}
