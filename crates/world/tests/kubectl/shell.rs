//! Where it is typed: a shell with kubectl on its path, a home of its own, and a kubeconfig.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use berth_control_plane::Directory;
use serde_json::{Value, json};

/// How long something may take until it works, or until it has printed what is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Shell {
    home: Directory,
    programs: PathBuf,
    kubeconfig: Value,
}

impl Shell {
    pub(crate) fn new(kubectl: &Path, kubeconfig: &str) -> Self {
        let home = Directory::temporary().unwrap();
        for (name, at) in [("examples", "../../examples"), ("cases", "tests/kubectl/cases")] {
            let directory = std::env::current_dir().unwrap().join(at);
            std::os::unix::fs::symlink(directory, home.path().join(name)).unwrap();
        }
        let crds = berth_api::crds::yaml().unwrap();
        std::fs::write(home.path().join("crds.yaml"), crds).unwrap();
        Self {
            home,
            programs: kubectl.parent().unwrap().to_owned(),
            kubeconfig: serde_json::from_str(kubeconfig).unwrap(),
        }
    }

    /// In a namespace that is made for it.
    pub(crate) fn session(&self, namespace: &str) -> Session<'_> {
        let mut kubeconfig = self.kubeconfig.clone();
        kubeconfig["contexts"][0]["context"]["namespace"] = json!(namespace);
        let path = self.home.path().join(format!("{namespace}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let session = Session { shell: self, kubeconfig: path, begun: None };
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        session.until_it_works("kubectl apply -f -", &made.to_string());
        session
    }
}

pub(crate) struct Session<'a> {
    shell: &'a Shell,
    kubeconfig: PathBuf,
    begun: Option<(Child, Receiver<String>)>,
}

impl Session<'_> {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["-c", line])
            .current_dir(self.shell.home.path())
            .env("PATH", format!("{}:{path}", self.shell.programs.display()))
            .env("HOME", self.shell.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("TZ", "UTC");
        command
    }

    /// All that is printed, and how it ended if that was not well.
    pub(crate) fn run(&self, line: &str, input: &str) -> String {
        let (ended, said) = self.play(line, input);
        if ended == 0 { said } else { format!("{said}exit code {ended}\n") }
    }

    pub(crate) fn until_it_works(&self, line: &str, input: &str) {
        let start = Instant::now();
        loop {
            let (ended, said) = self.play(line, input);
            if ended == 0 {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{line} does not work: {said}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn play(&self, line: &str, input: &str) -> (i32, String) {
        // Both in one, in the order in which they were printed.
        let mut command = self.command(&format!("exec 2>&1; {line}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Who does not read may be gone by now.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn begin(&mut self, line: &str) {
        let mut command = self.command(&format!("exec {line}"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        self.begun = Some((child, lines));
    }

    pub(crate) fn end(&mut self, count: usize) -> String {
        let (mut child, lines) = self.begun.take().unwrap();
        let mut said = String::new();
        for _ in 0..count {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => said.extend([&*line, "\n"]),
                Err(_) => break,
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        said
    }
}
