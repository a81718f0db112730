//! kube-scheduler's own filters against Berth's rules, on random clusters.
//!
//! `oracle <filters> <pairs> <seed>`, where `filters` is the program of `peers/filters`; `cargo xtask oracle`
//! builds and runs both. Each case is a small cluster with one pod that looks for a place. For every node,
//! kube-scheduler's filters and Berth's checker must agree on whether the pod may run there; and the planner,
//! with nothing to buy, must place it exactly if there is such a node. A disagreement is reduced to the
//! manifests that still show it.

mod berth;
mod filters;
mod generate;
mod shrink;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::Value;

use berth::Judged;
use filters::Filters;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(program), Some(pairs), Some(seed)) = (arguments.first(), number(1), number(2)) else {
        eprintln!("usage: oracle <filters> <pairs> <seed>");
        return ExitCode::from(2);
    };
    match Filters::start(program).and_then(|mut filters| compare(&mut filters, pairs, seed)) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(disagreement)) => {
            println!("{disagreement}");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// The first disagreement, reduced and in words.
fn compare(filters: &mut Filters, pairs: u64, seed: u64) -> Result<Option<String>, String> {
    let mut tally = Tally::default();
    let mut case = 0;
    while tally.pairs < pairs {
        let objects = generate::cluster(seed, case);
        let verdicts = filters
            .judge(&objects)
            .map_err(|error| format!("case {case} of seed {seed}: {error}\n{}", as_yaml(&objects)))?;
        let judged = berth::judge(&objects)
            .map_err(|error| format!("case {case} of seed {seed}: {error}\n{}", as_yaml(&objects)))?;
        if disagreement(&verdicts, &judged).is_some() {
            let reduced = shrink::reduce(objects, &mut |objects| {
                let (Ok(verdicts), Ok(judged)) = (filters.judge(objects), berth::judge(objects)) else {
                    return false;
                };
                disagreement(&verdicts, &judged).is_some()
            });
            let (verdicts, judged) = (filters.judge(&reduced)?, berth::judge(&reduced)?);
            let what = disagreement(&verdicts, &judged).unwrap_or_default();
            let manifests = as_yaml(&reduced);
            return Ok(Some(format!("case {case} of seed {seed}, reduced:\n{manifests}\n{what}")));
        }
        tally.count(&verdicts);
        case += 1;
    }
    println!("{case} cases of seed {seed}, {tally}, no disagreement");
    Ok(None)
}

/// Both verdicts, where they differ.
fn disagreement(verdicts: &BTreeMap<String, String>, judged: &Judged) -> Option<String> {
    for (node, theirs) in verdicts {
        let ours = judged.nodes.get(node).map_or("it knows no such node", String::as_str);
        if theirs.is_empty() != ours.is_empty() {
            return Some(format!(
                "node {node}\n  kube-scheduler: {}\n  Berth: {}",
                in_words(theirs),
                in_words(ours)
            ));
        }
    }
    let admitting: Vec<&str> =
        verdicts.iter().filter(|(_, verdict)| verdict.is_empty()).map(|(node, _)| node.as_str()).collect();
    match &judged.placed {
        Ok(node) if !admitting.contains(&node.as_str()) => {
            Some(format!("the planner places the pod on {node}; kube-scheduler admits it on {admitting:?}"))
        }
        Err(refusal) if !admitting.is_empty() => Some(format!(
            "the planner does not place the pod: {refusal}; kube-scheduler admits it on {admitting:?}"
        )),
        _ => None,
    }
}

fn in_words(verdict: &str) -> &str {
    if verdict.is_empty() { "the pod may run there" } else { verdict }
}

fn as_yaml(objects: &[Value]) -> String {
    let documents: Vec<String> = objects
        .iter()
        .map(|object| serde_saphyr::to_string(object).unwrap_or_else(|_| object.to_string()))
        .collect();
    documents.join("---\n")
}

/// How often each filter had the last word: a rule that never refused was not tried.
#[derive(Default)]
struct Tally {
    pairs: u64,
    admitted: u64,
    refusals: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, verdicts: &BTreeMap<String, String>) {
        for verdict in verdicts.values() {
            self.pairs += 1;
            match verdict.split_once(": ") {
                Some((filter, _)) => *self.refusals.entry(filter.to_owned()).or_default() += 1,
                None => self.admitted += 1,
            }
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pairs, {} admitted", self.pairs, self.admitted)?;
        for (filter, count) in &self.refusals {
            write!(f, ", {count} refused by {filter}")?;
        }
        Ok(())
    }
}
