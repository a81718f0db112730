//! A browser without a window, driven by its DevTools protocol through a pair of pipes: JSON, each message ended by NUL.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// After so long nothing is expected to come any more. It decides no test: all of them wait for what they want to see.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program that can be driven, if there is one. Where there is none, that is said, and fails only where `CI` is set.
pub(super) fn chromium() -> Option<&'static str> {
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

/// Where the browser keeps what it wants to remember.
struct Profile(PathBuf);

impl Profile {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("berth-browser-{name}-{}", std::process::id()));
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

/// A browser with one tab. It does not outlive the test, however that ends.
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    /// What the page has complained of.
    console: Vec<String>,
    /// Dropped after the process that uses it has ended.
    _profile: Profile,
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        // It ends its own children and what it is writing.
        if self.send("Browser.close", &json!({})).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Browser {
    pub(super) fn start(program: &str, name: &str) -> Self {
        let profile = Profile::new(name);
        let mut child = Command::new("sh")
            // It reads from descriptor 3 and writes to 4.
            .args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, "sh", program])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            // Whatever is not here cannot be reached, so that it is complained of.
            .args([
                "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ])
            .arg(format!("--user-data-dir={}", profile.0.display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let to = child.stdin.take().expect("it is piped");
        let from = heard(child.stdout.take().expect("it is piped"));
        let mut browser =
            Self { child, to, from, last_id: 0, session: None, console: Vec::new(), _profile: profile };
        let tabs = browser.call("Target.getTargets", &json!({}));
        let tab = tabs["targetInfos"].as_array().into_iter().flatten().find(|tab| tab["type"] == "page");
        let tab = tab.expect("it has a tab")["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": tab, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "DOM", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        // Else it is a window that nobody looks at.
        browser.call("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
        browser
    }

    fn send(&mut self, method: &str, params: &Value) -> io::Result<u64> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes())?;
        Ok(self.last_id)
    }

    /// What it answers.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params).expect("the browser listens");
        loop {
            let mut message = self.from.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method} {params}: {}", message["error"]);
                return message["result"].take();
            }
            self.console.extend(complaint(&message));
        }
    }

    /// What the page has complained of since it was last asked.
    pub(super) fn console(&mut self) -> Vec<String> {
        // Whatever was said before this is answered has been heard then.
        self.eval("0");
        std::mem::take(&mut self.console)
    }

    pub(super) fn open(&mut self, address: &str) {
        let opened = self.call("Page.navigate", &json!({ "url": format!("http://{address}/") }));
        assert!(opened.get("errorText").is_none(), "{address}: {opened}");
    }

    /// The value of an expression in the page.
    pub(super) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until the expression is true.
    pub(super) fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.eval(&format!("Boolean({expression})")) != json!(true) {
            if began.elapsed() > PATIENCE {
                let text = self.eval("document.body.innerText");
                panic!("it never was true that {expression}\n{}", text.as_str().unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// A screen of this size; a narrow one is that of a phone, which is touched.
    pub(super) fn resize(&mut self, (wide, high): (u32, u32)) {
        let is_phone = wide < 500;
        let metrics = json!({ "width": wide, "height": high, "deviceScaleFactor": 1, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        self.call("Emulation.setTouchEmulationEnabled", &json!({ "enabled": is_phone }));
        self.until(&format!("matchMedia('(width: {wide}px)').matches"));
        self.settle();
    }

    /// What the viewer prefers.
    pub(super) fn prefer(&mut self, scheme: &str, motion: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
        self.settle();
    }

    /// Waits until what has changed is drawn.
    pub(super) fn settle(&mut self) {
        self.eval(
            "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => 0)",
        );
    }

    pub(super) fn press(&mut self, key: &str) {
        let (key, code, text, modifiers) = match key {
            "Tab" => ("Tab", 9, "", 0),
            "Shift+Tab" => ("Tab", 9, "", 8),
            "Enter" => ("Enter", 13, "\r", 0),
            "Escape" => ("Escape", 27, "", 0),
            "End" => ("End", 35, "", 0),
            "Home" => ("Home", 36, "", 0),
            "ArrowLeft" => ("ArrowLeft", 37, "", 0),
            "ArrowUp" => ("ArrowUp", 38, "", 0),
            "ArrowRight" => ("ArrowRight", 39, "", 0),
            "ArrowDown" => ("ArrowDown", 40, "", 0),
            other => panic!("there is no key {other}"),
        };
        for kind in [if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers,
            });
            if kind == "keyDown" {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Moves the pointer to what an expression names, and clicks there if that is wanted.
    fn point(&mut self, element: &str, kinds: &[&str]) {
        let at = self.eval(&format!(
            "(() => {{
                const {{ left, top, width, height }} = {element}.getBoundingClientRect();
                return [left + width / 2, top + height / 2];
            }})()"
        ));
        for kind in kinds {
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    pub(super) fn point_at(&mut self, element: &str) {
        self.eval(&format!("{element}.scrollIntoView({{ block: 'center', behavior: 'instant' }})"));
        self.settle();
        self.point(element, &["mouseMoved"]);
    }

    /// Clicks on what an expression names, where a hand would. What moves away meanwhile is tried again.
    pub(super) fn click(&mut self, element: &str) {
        let began = Instant::now();
        loop {
            self.point_at(element);
            self.eval(&format!(
                "(() => {{
                    const wanted = {element};
                    window.clicked = false;
                    const note = (event) => (window.clicked = wanted.contains(event.target));
                    addEventListener('click', note, {{ capture: true, once: true }});
                }})()"
            ));
            self.point(element, &["mousePressed", "mouseReleased"]);
            if self.eval("window.clicked") == json!(true) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{element} cannot be clicked on");
        }
    }

    /// Writes into the field that an expression names, in place of what is there, and leaves it.
    pub(super) fn write(&mut self, field: &str, text: &str) {
        self.eval(&format!("(() => {{ const field = {field}; field.focus(); field.select(); }})()"));
        self.call("Input.insertText", &json!({ "text": text }));
        self.press("Tab");
    }
}

/// Messages as they come.
fn heard(from: ChildStdout) -> Receiver<Value> {
    let (told, messages) = channel();
    // It ends with the browser.
    thread::spawn(move || {
        for message in BufReader::new(from).split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&message) else { return };
            if told.send(message).is_err() {
                return;
            }
        }
    });
    messages
}

/// What an event complains of, if it does.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Log.entryAdded" => Some(params["entry"].to_string()),
        _ => None,
    }
}
