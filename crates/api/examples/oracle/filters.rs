//! The program of `peers/filters`, asked line by line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) struct Filters {
    child: Child,
    /// Closed before the program is waited for.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    verdicts: BTreeMap<String, String>,
    error: Option<String>,
}

impl Filters {
    pub(crate) fn start(program: &str) -> Result<Self, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().ok_or("it has no standard output")?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// For each node which filter refuses the pod and why; an empty text where none does.
    pub(crate) fn judge(&mut self, objects: &[Value]) -> Result<BTreeMap<String, String>, String> {
        let question = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let questions = self.questions.as_mut().ok_or("the filters are gone")?;
        writeln!(questions, "{question}").map_err(|error| format!("the filters do not listen: {error}"))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| format!("the filters do not answer: {error}"))?;
        let answer: Answer = serde_json::from_str(&line)
            .map_err(|error| format!("the filters answer {line:?}, which is no answer: {error}"))?;
        match answer.error {
            Some(error) => Err(format!("the filters cannot judge it: {error}")),
            None => Ok(answer.verdicts),
        }
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        // At the end of its input it ends, too.
        self.questions = None;
        let _ = self.child.wait();
    }
}
