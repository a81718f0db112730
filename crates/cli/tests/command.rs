//! The binary as a shell sees it: exit codes, streams, closed pipes.

use std::io::pipe;
use std::process::{Command, Stdio};

fn berth(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(line.split_whitespace()).env_remove("NO_COLOR").stdin(Stdio::null());
    command
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
    for line in ["completions zsh", "crds", "catalog list -o json", "catalog list"] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let output = berth(line).stdout(writer).output().expect("berth starts");
        assert_eq!(output.status.code(), Some(0), "berth {line}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "berth {line}");
    }
}
