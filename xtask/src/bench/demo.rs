//! `cargo xtask bench demo`: how long it takes from the command until there is something to look at.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bar::Bar;
use super::form::Form;
use super::program::Program;
use super::report::{Report, Section};
use super::table::{Table, count, timed};
use crate::step::StepError;

const COMMAND: &str = "cargo xtask bench demo";
const SHOWN_WITHIN: Duration = Duration::from_secs(2);
/// Whoever takes longer is not waited for.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(10);

pub(super) fn run(form: Form) -> Result<(), StepError> {
    let berth = Program::binary("berth-cli", "berth", form.runs())?;
    let mut slowest = Shown::default();
    for _ in 0..berth.runs() {
        eprintln!("starting the demo");
        let shown = show(&berth)
            .map_err(|message| StepError::Output { command: "berth demo".to_owned(), message })?;
        if shown.view > slowest.view {
            slowest = shown;
        }
    }
    let report = Report {
        part: "demo",
        title: "The demo",
        command: COMMAND,
        besides: None,
        method: format!(
            "`berth demo` is started {} times, and the slowest counts. The page is asked for as a browser asks for it, \
             and what it shows until there is a node in it.",
            berth.runs()
        ),
        bars: vec![bar(&slowest)],
        sections: vec![section(&slowest)],
    };
    report.finish(form)
}

/// From the start of the process.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    /// Until it has said where to look.
    greeting: Duration,
    page: Duration,
    /// Until the page shows nodes.
    view: Duration,
    nodes: usize,
}

/// Ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn show(berth: &Program) -> Result<Shown, String> {
    let began = Instant::now();
    let mut command = berth.command();
    command.args(["demo", "--port", "0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running(command.spawn().map_err(|error| error.to_string())?);
    let out = running.0.stdout.take().ok_or("it has no output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
    let address = line.trim().rsplit("http://").next().filter(|_| line.contains("http://"));
    let address = address.ok_or_else(|| format!("it says `{}` and not where to look", line.trim()))?;
    let greeting = began.elapsed();
    if !ask(address, "/")?.contains("</html>") {
        return Err("the page is not whole".to_owned());
    }
    let page = began.elapsed();
    loop {
        let nodes = nodes_in(&ask(address, "/api/view")?);
        if nodes > 0 {
            return Ok(Shown { greeting, page, view: began.elapsed(), nodes });
        }
        if began.elapsed() > GIVEN_UP_AFTER {
            return Err("no node was shown".to_owned());
        }
        std::thread::sleep(ASKED_AGAIN_AFTER);
    }
}

/// The answer's body.
fn ask(address: &str, path: &str) -> Result<String, String> {
    let told = |error: std::io::Error| format!("http://{address}{path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(told)?;
    stream.set_read_timeout(Some(GIVEN_UP_AFTER)).map_err(told)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn nodes_in(view: &str) -> usize {
    let view: Value = serde_json::from_str(view).unwrap_or_default();
    view["nodes"].as_array().map_or(0, Vec::len)
}

fn bar(shown: &Shown) -> Bar {
    Bar {
        text: format!("the demo is on screen after {} (bar under 2 s)", timed(shown.view)),
        holds: shown.view < SHOWN_WITHIN,
    }
}

fn section(shown: &Shown) -> Section {
    let mut table = Table::new(
        "From the command to the picture",
        "*greeting* is until it says where to look, *page* until the page is read, *nodes* until there are nodes in it.",
        vec!["greeting", "page", "nodes", "shown"],
    );
    let nodes = u64::try_from(shown.nodes).unwrap_or(u64::MAX);
    table.row(vec![timed(shown.greeting), timed(shown.page), timed(shown.view), count(nodes)]);
    Section::new(&table, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_and_the_bar_is_two_seconds() {
        for (view, nodes) in [("", 0), ("{}", 0), (r#"{"nodes": []}"#, 0), (r#"{"nodes": [{}, {}]}"#, 2)] {
            assert_eq!(nodes_in(view), nodes, "{view}");
        }
        for (millis, holds) in [(1_999, true), (2_000, false)] {
            let shown = Shown { view: Duration::from_millis(millis), ..Shown::default() };
            assert_eq!(bar(&shown).holds, holds);
        }
    }
}
