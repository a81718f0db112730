//! `cargo xtask bench vpsie`: `berth run` with VPSie over TLS: how soon machines are asked for, and how many.

use serde::Deserialize;

use super::bar::Bar;
use super::form::Form;
use super::program::Program;
use super::report::{Report, Section};
use super::table::{Table, count, seconds};
use crate::step::StepError;

const COMMAND: &str = "cargo xtask bench vpsie";
const LONE_PODS: u32 = 7;
const NODES: u32 = 5;
/// The two kinds of paths that VPSie has.
const FAMILIES: [&str; 2] = ["managed", "servers"];

const ASKED_MS_MAX: u64 = 1_000;

pub(super) fn run(form: Form) -> Result<(), StepError> {
    let berth = Program::binary("berth-cli", "berth", 1)?;
    let program = Program::bench("berth-operator", "e2e", 1)?;
    let mut measured = Vec::new();
    for family in FAMILIES {
        eprintln!("playing vpsie {family}");
        let lone = form.sized(LONE_PODS).max(1);
        let words = ["vpsie", family, berth.path(), &lone.to_string(), &NODES.to_string()].map(str::to_owned);
        let bought: Bought = serde_json::from_slice(&program.output(&words)?)
            .map_err(|error| StepError::Output { command: "e2e".to_owned(), message: error.to_string() })?;
        measured.push((family, bought));
    }
    let report = Report {
        part: "vpsie",
        title: "VPSie",
        command: COMMAND,
        besides: None,
        method: "`berth run` is a process of its own on a real control plane, which shares the machine with it. VPSie is \
                 played over TLS on loopback; it answers after 0.1 s, its machines run after 2 s and join after one more."
            .to_owned(),
        bars: measured.iter().flat_map(|(family, bought)| bought.bars(family)).collect(),
        sections: vec![section(&measured)],
    };
    report.finish(form)
}

/// What `crates/operator/benches/e2e` says of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bought {
    /// From each pending pod to the call that creates its machine.
    asked_ms: Vec<u64>,
    pods: u64,
    nodes_needed: u64,
    nodes: u64,
    creates: u64,
    all_asked_ms: u64,
    run_ms: u64,
    calls_in_a_minute: u64,
}

impl Bought {
    fn worst_ms(&self) -> u64 {
        self.asked_ms.iter().copied().max().unwrap_or(u64::MAX)
    }

    fn median_ms(&self) -> u64 {
        let mut sorted = self.asked_ms.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(u64::MAX)
    }

    fn bars(&self, family: &str) -> Vec<Bar> {
        let asked = Bar {
            text: format!(
                "{family}: from a pending pod to the create call {} at worst (bar under 1 s)",
                seconds(self.worst_ms() * 1000)
            ),
            holds: self.worst_ms() < ASKED_MS_MAX,
        };
        let exact = Bar {
            text: format!(
                "{family}: {} pods that need {} nodes get {}, by {} create calls (bar exactly so many)",
                count(self.pods),
                count(self.nodes_needed),
                count(self.nodes),
                count(self.creates),
            ),
            holds: self.nodes == self.nodes_needed && self.creates == self.nodes_needed,
        };
        vec![asked, exact]
    }
}

fn section(measured: &[(&str, Bought)]) -> Section {
    let mut table = Table::new(
        "From pods to machines",
        "*create* is from a pod for which there is no room to the call that creates its machine. Then many pods come at \
         once: *all asked* is until the last machine is asked for, *all run* until the pods run. *calls* are the most \
         within a minute; VPSie takes a hundred.",
        vec!["paths", "create, median", "create, worst", "pods", "nodes", "all asked", "all run", "calls"],
    );
    for (family, bought) in measured {
        table.row(vec![
            (*family).to_owned(),
            seconds(bought.median_ms() * 1000),
            seconds(bought.worst_ms() * 1000),
            count(bought.pods),
            count(bought.nodes),
            seconds(bought.all_asked_ms * 1000),
            seconds(bought.run_ms * 1000),
            count(bought.calls_in_a_minute),
        ]);
    }
    Section::new(&table, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_within_their_limits_and_not_beyond() {
        type Change = fn(&mut Bought);
        let cases: [(Change, [bool; 2]); 4] = [
            (|_| (), [true, true]),
            (|bought| bought.asked_ms.push(1000), [false, true]),
            (|bought| bought.nodes = 6, [true, false]),
            (|bought| bought.creates = 6, [true, false]),
        ];
        for (index, (change, expected)) in cases.into_iter().enumerate() {
            let mut bought = Bought {
                asked_ms: vec![3, 999, 5],
                pods: 30,
                nodes_needed: 5,
                nodes: 5,
                creates: 5,
                all_asked_ms: 1,
                run_ms: 1,
                calls_in_a_minute: 1,
            };
            assert_eq!(bought.median_ms(), 5);
            change(&mut bought);
            let holds: Vec<bool> = bought.bars("managed").iter().map(|bar| bar.holds).collect();
            assert_eq!(holds, expected, "{index}");
        }
    }
}
