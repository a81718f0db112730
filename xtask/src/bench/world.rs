//! `cargo xtask bench world`: how fast the in-process world lives, how much room it needs, and how like Kubernetes it is.

use serde::Deserialize;

use super::bar::Bar;
use super::form::Form;
use super::likeness;
use super::program::{Program, Run};
use super::report::{Report, Section};
use super::table::{Table, count, megabytes, seconds};
use crate::step::StepError;

const COMMAND: &str = "cargo xtask bench world";
const MINUTES: u32 = 10;
const LIFE: (u32, u32) = (50, 1_000);
const LARGE: (u32, u32) = (5_000, 100_000);
const LARGE_MINUTES: u32 = 5;

const LIFE_MICROSECONDS_MAX: u64 = 2_000_000;
const LARGE_KIB_MAX: u64 = 1_500_000_000 / 1_024;

pub(super) fn run(form: Form) -> Result<(), StepError> {
    let program = Program::bench("berth-world", "life", form.runs())?;
    let once = Program::bench("berth-world", "life", 1)?;
    let live = |program: &Program, (nodes, pods): (u32, u32), minutes: u32| {
        let words = [form.sized(nodes).max(2), form.sized(pods).max(20), minutes, 1];
        program.measure::<Lived>(&words.map(|word| word.to_string()))
    };
    let life = live(&program, LIFE, MINUTES)?;
    let large = live(&once, LARGE, LARGE_MINUTES)?;
    let likeness = likeness::measure(form)?;
    let report = Report {
        part: "world",
        title: "The in-process world",
        command: COMMAND,
        besides: None,
        method: "Each life is played in virtual time in a process of its own, on one thread: the API, the scheduler, \
                 the controllers and the kubelets. In it nodes register and twenty deployments start all pods; a node \
                 is cordoned and drained, one is deleted, a deployment is scaled down and up, one is restarted and \
                 one loses its pods. The time and the memory are those of the whole process. MB are 10^6 bytes."
            .to_owned(),
        bars: [life_bar(&life), large_bar(&large), whole_bar(&[&life, &large])]
            .into_iter()
            .chain(likeness.bars())
            .collect(),
        sections: vec![section(&[&life, &large]), likeness.section()],
    };
    report.finish(form)
}

/// What one run of `crates/world/benches/life` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lived {
    nodes: u64,
    pods: u64,
    minutes: u64,
    microseconds: u64,
    #[serde(rename = "peakKiB")]
    peak_kib: u64,
    nodes_ready: u64,
    pods_running: u64,
    changes: u64,
}

impl Run for Lived {
    fn microseconds(&self) -> u64 {
        self.microseconds
    }

    fn peak_kib(&mut self) -> &mut u64 {
        &mut self.peak_kib
    }

    fn has_outcome_of(&self, other: &Self) -> bool {
        let outcome = |run: &Self| (run.nodes_ready, run.pods_running, run.changes);
        outcome(self) == outcome(other)
    }
}

fn section(lives: &[&Lived]) -> Section {
    let columns = vec![
        "nodes",
        "pods",
        "virtual time",
        "real time",
        "peak memory",
        "changes",
        "nodes ready",
        "pods running",
    ];
    let mut table =
        Table::new("Lives", "One node is deleted on the way, and its pods run elsewhere.", columns);
    for life in lives {
        table.row(vec![
            count(life.nodes),
            count(life.pods),
            format!("{} min", life.minutes),
            seconds(life.microseconds),
            megabytes(life.peak_kib),
            count(life.changes),
            count(life.nodes_ready),
            count(life.pods_running),
        ]);
    }
    Section::new(&table, Vec::new())
}

fn life_bar(life: &Lived) -> Bar {
    Bar {
        text: format!(
            "{} minutes of {} nodes and {} pods: {} (bar under 2 s)",
            life.minutes,
            count(life.nodes),
            count(life.pods),
            seconds(life.microseconds),
        ),
        holds: life.minutes >= u64::from(MINUTES) && life.microseconds < LIFE_MICROSECONDS_MAX,
    }
}

fn large_bar(large: &Lived) -> Bar {
    Bar {
        text: format!(
            "{} nodes and {} pods: {} (bar at most 1,500 MB)",
            count(large.nodes),
            count(large.pods),
            megabytes(large.peak_kib),
        ),
        holds: large.peak_kib <= LARGE_KIB_MAX,
    }
}

fn whole_bar(lives: &[&Lived]) -> Bar {
    let whole = lives.iter().all(|life| life.pods_running == life.pods && life.nodes_ready + 1 == life.nodes);
    Bar {
        text: "in the end all nodes but the deleted one are ready, and all pods run".to_owned(),
        holds: whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Lived);

    #[test]
    fn bars_hold_within_their_limits_and_not_beyond() {
        let cases: [(Change, [bool; 3]); 6] = [
            (|_| (), [true, true, true]),
            (|run| run.microseconds = LIFE_MICROSECONDS_MAX, [false, true, true]),
            (|run| run.minutes = 9, [false, true, true]),
            (|run| run.peak_kib = LARGE_KIB_MAX + 1, [true, false, true]),
            (|run| run.pods_running = 999, [true, true, false]),
            (|run| run.nodes_ready = 50, [true, true, false]),
        ];
        for (index, (change, expected)) in cases.into_iter().enumerate() {
            let mut run = Lived {
                nodes: 50,
                pods: 1_000,
                minutes: 10,
                microseconds: 1,
                peak_kib: LARGE_KIB_MAX,
                nodes_ready: 49,
                pods_running: 1_000,
                changes: 1,
            };
            change(&mut run);
            let bars = [life_bar(&run), large_bar(&run), whole_bar(&[&run])].map(|bar| bar.holds);
            assert_eq!(bars, expected, "{index}");
        }
    }
}
