//! The page in a real browser. Where there is none, that is said, and fails only where `CI` is set.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Demo, all, ask};

/// What a page is given to draw.
const DRAWN_AFTER: Duration = Duration::from_secs(3);

fn chromium() -> Option<&'static str> {
    let works = |program: &&str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|program| works(program));
    if found.is_none() {
        let why = "there is no chromium; get it with: apt-get install chromium";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        // Written past the test harness, which would keep it to itself.
        let _ = writeln!(io::stderr(), "the page in a browser was left out: {why}");
    }
    found
}

/// What a browser made of an address: its document, and what it complained of.
struct Seen {
    document: String,
    console: Vec<String>,
}

fn look(program: &str, address: &str, size: &str) -> Seen {
    let profile = Profile::new();
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        // Whatever is not here cannot be reached, so that it is complained of.
        .args(["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
        .args(["--enable-logging=stderr", &format!("--window-size={size}")])
        .arg(format!("--user-data-dir={}", profile.0.display()))
        .args(["--dump-dom", &format!("http://{address}/")])
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(document.contains("</html>"), "the browser showed nothing: {said}");
    let console = said.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    Seen { document, console }
}

/// Where the browser keeps what it wants to remember.
struct Profile(PathBuf);

impl Profile {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("berth-browser-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The page, with its headers and a view that stands still, so that what is drawn can be compared with it.
struct Still {
    address: String,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Still {
    fn new(page: Answer, view: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let still = Self { address, asked: asked.clone() };
        // It ends with the process of the tests.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (page, view, asked) = (page.clone(), view.clone(), asked.clone());
                thread::spawn(move || answer(stream, &page, &view, &asked));
            }
        });
        still
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn answer(
    mut stream: TcpStream,
    page: &Answer,
    view: &str,
    asked: &Mutex<BTreeSet<String>>,
) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
    let mut say = |head: &str, body: &str| {
        write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n\r\n{body}")?;
        stream.flush()
    };
    match &*path {
        // The browser prints a page once it has all of it, so the end is kept back until the rest is drawn.
        "/" => {
            let (drawn, end) = page.body.split_at(page.body.rfind("</body>").unwrap_or_default());
            say(&page.policy, drawn)?;
            thread::sleep(DRAWN_AFTER);
            stream.write_all(end.as_bytes())?;
        }
        "/api/view" => say("content-type: application/json", view)?,
        "/api/stream" => {
            say("content-type: text/event-stream", &format!("event: view\ndata: {view}\n\n"))?;
            // Longer than anybody looks.
            thread::sleep(DRAWN_AFTER * 10);
        }
        _ => say("content-type: text/plain", "")?,
    }
    Ok(())
}

/// As the page writes money.
fn money(price: &Value) -> String {
    let value: f64 = price.as_str().and_then(|price| price.parse().ok()).expect("a price");
    let digits = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 2,
        _ if value >= 1.0 => 3,
        _ => 4,
    };
    format!("${value:.digits$}")
}

fn escaped(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn a_browser_shows_what_the_view_says() {
    let Some(program) = chromium() else { return };
    let demo = Demo::start("demo --port 0 --seed 3").expect("it starts");
    assert_eq!(demo.wish(&json!({ "speed": { "times": 5 } })).0, 204);
    // Something of everything: nodes with pods, nodes and pods on their way, decisions.
    let view = demo.until(90, "there is something to see", |view| {
        let is = |phase: &str| all(view, "nodes").iter().any(|node| node["phase"] == phase);
        is("Ready")
            && is("Registering")
            && !all(view, "pending").is_empty()
            && all(view, "decisions").len() > 5
    });
    let page = ask(&demo.page, "GET", "/", "").expect("the page answers");
    assert_eq!(page.code, 200);
    let still = Still::new(page, view.to_string());
    for size in ["1440,1000", "390,844"] {
        let Seen { document, console } = look(program, &still.address, size);
        assert_eq!(console, Vec::<String>::new(), "at {size}");
        assert_shown(&document, &view);
    }
    assert_eq!(still.asked(), ["/", "/api/stream", "/api/view"], "nothing else is asked for");
}

fn assert_shown(document: &str, view: &Value) {
    let count = |text: &str| document.matches(text).count();
    let nodes = all(view, "nodes");
    assert_eq!(count("class=\"berth\""), nodes.len(), "a berth for each node");
    for node in nodes {
        let name = escaped(&node["name"]);
        assert!(document.contains(&format!("<b>{name}</b>")), "{name} is not shown");
        let price =
            if node["pricePerHour"].is_null() { "–".to_owned() } else { money(&node["pricePerHour"]) };
        assert!(document.contains(&format!("<b>{name}</b><span>{price}</span>")), "{name} costs {price}");
    }
    let decisions = all(view, "decisions");
    assert_eq!(count("class=\"item decision\""), decisions.len());
    for decision in decisions {
        let message = escaped(&decision["message"]);
        assert!(document.contains(&format!("<p>{message}</p>")), "{message} is not shown");
    }
    let pods: usize = nodes.iter().map(|node| all(node, "pods").len()).sum();
    let cost = &view["cost"];
    for (name, value) in [
        ("Cost now", money(&cost["perHour"])),
        ("Lower bound", money(&cost["lowerBoundPerHour"])),
        ("Nodes", nodes.len().to_string()),
        ("Pods on nodes", pods.to_string()),
        ("Pods pending", all(view, "pending").len().to_string()),
    ] {
        let figure = format!("<dt>{name}</dt><dd><span>{value}</span>");
        assert!(document.contains(&figure), "{name} is not {value}");
    }
    let rows = document.split("id=\"claim-rows\"").nth(1).and_then(|rest| rest.split("</tbody>").next());
    let rows = rows.map_or(0, |rows| rows.matches("<tr>").count());
    assert_eq!(rows, all(view, "claims").len().min(25));
    for pool in all(view, "pools") {
        assert!(document.contains(&format!("<span>{}</span>", escaped(&pool["name"]))), "{pool}");
    }
}
