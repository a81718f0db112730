//! The binary as a shell sees it: exit codes, streams, closed pipes.

use std::io::{self, Write, pipe};
use std::process::{Command, Output, Stdio};

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
        ("catalog --help", 0, "Built in:", ""),
        ("catalog list --help", 0, "Examples:", ""),
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
