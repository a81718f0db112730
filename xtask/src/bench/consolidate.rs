//! `cargo xtask bench consolidate`: plans for clusters that have more nodes than they need.

use serde::Deserialize;

use super::bar::Bar;
use super::chart::{Chart, Scale, in_megabytes, in_seconds};
use super::form::Form;
use super::program::{Program, Run, dollars};
use super::report::{Report, Section};
use super::table::{Table, count, megabytes, money, percent, ratios, seconds};
use crate::step::StepError;

const COMMAND: &str = "cargo xtask bench consolidate";
const WORKLOADS: [&str; 2] = ["even", "mixed"];
/// The size that is judged, and those around it.
const NODES: u32 = 1_000;
const NODES_GROWING: [u32; 4] = [250, 500, NODES, 2_000];
const PODS_PER_NODE: u32 = 30;
const CLASSES: u32 = 500;

pub(super) fn run(form: Form) -> Result<(), StepError> {
    let program = Program::bench("berth-cloud", "consolidate", form.runs())?;
    let series: Vec<Series> = WORKLOADS
        .iter()
        .map(|workload| Series::measure(&program, workload, form))
        .collect::<Result<_, _>>()?;
    let judged: Vec<(&'static str, &Consolidated)> =
        series.iter().filter_map(|series| Some((series.workload, series.of(form.sized(NODES))?))).collect();
    let mut bars: Vec<Bar> = judged.iter().flat_map(|(name, run)| judged_bars(name, run)).collect();
    bars.push(legal_bar(series.iter().flat_map(|series| &series.runs)));
    let report = Report {
        part: "consolidate",
        title: "Consolidation",
        command: COMMAND,
        besides: None,
        method: form.method(),
        bars,
        sections: vec![judged_section(&judged), growth_section(&series)],
    };
    report.finish(form)
}

/// One workload at several sizes.
struct Series {
    workload: &'static str,
    runs: Vec<Consolidated>,
}

impl Series {
    fn measure(program: &Program, workload: &'static str, form: Form) -> Result<Self, StepError> {
        let measure = |nodes: u32| {
            let sizes = [nodes, nodes * PODS_PER_NODE, CLASSES].map(|size| size.to_string());
            program.measure(&[&[workload.to_owned()], &sizes[..]].concat())
        };
        let runs = form.all_sized(&NODES_GROWING).into_iter().map(measure).collect::<Result<_, _>>()?;
        Ok(Self { workload, runs })
    }

    fn of(&self, nodes: u32) -> Option<&Consolidated> {
        self.runs.iter().find(|run| run.nodes == u64::from(nodes))
    }
}

/// What one run of `crates/cloud/benches/consolidate` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consolidated {
    nodes: u64,
    pods: u64,
    microseconds: u64,
    #[serde(rename = "peakKiB")]
    peak_kib: u64,
    nodes_judged: u64,
    #[serde(deserialize_with = "dollars")]
    cost_per_hour_before: f64,
    times_applied: u64,
    /// What the last plan would still do.
    steps_left: u64,
    nodes_bought: u64,
    pods_moved: u64,
    pods_moved_twice: u64,
    final_nodes: u64,
    #[serde(deserialize_with = "dollars")]
    final_cost_per_hour: f64,
    #[serde(deserialize_with = "dollars")]
    final_lower_bound: f64,
    final_gap_percent: f64,
    violations: u64,
    first_violation: Option<String>,
}

impl Run for Consolidated {
    fn microseconds(&self) -> u64 {
        self.microseconds
    }

    fn peak_kib(&mut self) -> &mut u64 {
        &mut self.peak_kib
    }

    fn has_outcome_of(&self, other: &Self) -> bool {
        let outcome = |run: &Self| (run.times_applied, run.final_nodes, run.nodes_bought, run.pods_moved);
        outcome(self) == outcome(other)
            && self.final_cost_per_hour.total_cmp(&other.final_cost_per_hour).is_eq()
    }
}

fn judged_section(judged: &[(&'static str, &Consolidated)]) -> Section {
    let title = judged.first().map_or_else(
        || "Not measured".to_owned(),
        |(_, run)| format!("{} nodes, {} pods", count(run.nodes), count(run.pods)),
    );
    let columns = vec![
        "workload",
        "time",
        "peak memory",
        "nodes before",
        "nodes after",
        "bought",
        "pods moved",
        "cost before",
        "cost after",
        "bound",
        "gap",
        "plans applied",
        "violations",
    ];
    let mut table = Table::new(&title, ABOUT, columns);
    for (workload, run) in judged {
        table.row(vec![
            (*workload).to_owned(),
            seconds(run.microseconds),
            megabytes(run.peak_kib),
            count(run.nodes),
            count(run.final_nodes),
            count(run.nodes_bought),
            count(run.pods_moved),
            money(run.cost_per_hour_before),
            money(run.final_cost_per_hour),
            money(run.final_lower_bound),
            percent(run.final_gap_percent),
            count(run.times_applied),
            count(run.violations),
        ]);
    }
    Section::new(&table, vec![cost_chart(judged)])
}

const ABOUT: &str = "Pods in 500 classes of random size, scattered at random over too many nodes of \
    `aws-us-east-1`: in *even*, nodes of the family m6i, which the pods suit on the whole; in *mixed*, of c6i, m6i \
    and r6i at random. The time is that of the first plan, in which every node is judged. Plans are then carried \
    out until one finds nothing more to do; the other numbers are those of the end. No set of nodes for the same \
    pods costs less than the bound.";

fn cost_chart(judged: &[(&'static str, &Consolidated)]) -> Chart {
    let series = |name: &str, value: fn(&Consolidated) -> f64| {
        (name.to_owned(), judged.iter().map(|(_, run)| value(run)).collect())
    };
    Chart {
        name: "consolidate-cost",
        title: "Cost of a scattered cluster before and after",
        unit: "dollars an hour",
        across: "workload",
        scale: Scale::Linear,
        groups: judged.iter().map(|(workload, _)| (*workload).to_owned()).collect(),
        series: vec![
            series("before", |run| run.cost_per_hour_before),
            series("after", |run| run.final_cost_per_hour),
            series("no set of nodes costs less", |run| run.final_lower_bound),
        ],
    }
}

fn growth_section(series: &[Series]) -> Section {
    let about = format!(
        "With {PODS_PER_NODE} pods a node. The last column is the time divided by that of the row before."
    );
    let columns = vec![
        "workload",
        "nodes",
        "pods",
        "time",
        "peak memory",
        "nodes after",
        "cost after",
        "gap",
        "plans applied",
        "time ratio",
    ];
    let mut table = Table::new("Growth with nodes", &about, columns);
    for Series { workload, runs } in series {
        let ratios = ratios(runs.iter().map(|run| run.microseconds));
        for (index, (run, ratio)) in runs.iter().zip(ratios).enumerate() {
            table.row(vec![
                if index == 0 { (*workload).to_owned() } else { String::new() },
                count(run.nodes),
                count(run.pods),
                seconds(run.microseconds),
                megabytes(run.peak_kib),
                count(run.final_nodes),
                money(run.final_cost_per_hour),
                percent(run.final_gap_percent),
                count(run.times_applied),
                ratio,
            ]);
        }
    }
    let time = growth_chart(series, |run| in_seconds(run.microseconds));
    let memory = Chart {
        name: "consolidate-memory-by-nodes",
        title: "Peak memory of a consolidation, by nodes",
        unit: "MB",
        ..growth_chart(series, |run| in_megabytes(run.peak_kib))
    };
    Section::new(&table, vec![time, memory])
}

fn growth_chart(series: &[Series], value: fn(&Consolidated) -> f64) -> Chart {
    let sizes = series.first().map_or(&[][..], |series| &series.runs);
    Chart {
        name: "consolidate-time-by-nodes",
        title: "Time of a consolidation, by nodes",
        unit: "seconds",
        across: "nodes",
        scale: Scale::Linear,
        groups: sizes.iter().map(|run| count(run.nodes)).collect(),
        series: series
            .iter()
            .map(|series| (series.workload.to_owned(), series.runs.iter().map(value).collect()))
            .collect(),
    }
}

fn judged_bars(workload: &str, run: &Consolidated) -> [Bar; 2] {
    let (nodes, pods) = (count(run.nodes), count(run.pods));
    [
        Bar {
            text: format!(
                "{workload}, {nodes} nodes with {pods} pods: {} judged (bar all), {} (bar under 1 s)",
                count(run.nodes_judged),
                seconds(run.microseconds),
            ),
            holds: run.nodes_judged == run.nodes && run.microseconds < 1_000_000,
        },
        Bar {
            text: format!(
                "{workload}, {nodes} nodes with {pods} pods: a gap of {} in the end (bar at most 3.00%), {} steps \
                 left to do (bar 0)",
                percent(run.final_gap_percent),
                count(run.steps_left),
            ),
            holds: run.final_gap_percent <= 3.0 && run.steps_left == 0,
        },
    ]
}

fn legal_bar<'r>(runs: impl Iterator<Item = &'r Consolidated> + Clone) -> Bar {
    let violations: u64 = runs.clone().map(|run| run.violations).sum();
    let twice: u64 = runs.clone().map(|run| run.pods_moved_twice).sum();
    let first = runs.clone().find_map(|run| run.first_violation.as_deref());
    Bar {
        text: format!(
            "all {} clusters: {} rules broken (bar 0), {} pods that a plan moves twice (bar 0){}",
            runs.count(),
            count(violations),
            count(twice),
            first.map_or_else(String::new, |first| format!("; the first: {first}")),
        ),
        holds: violations == 0 && twice == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Consolidated);

    const LINE: &str = r#"{"anewCostPerHour":"344.832000","anewLowerBound":"333.381562","anewNodes":142,
        "classes":500,"costPerHourAfter":"342.912000","costPerHourBefore":"571.392000",
        "finalCostPerHour":"342.912000","finalGapPercent":2.78,"finalLowerBound":"333.381562","finalNodes":702,
        "firstViolation":null,"gapPercent":2.78,"largestStep":1,"mainThreadMicroseconds":215910,
        "microseconds":999999,"nodes":1000,"nodesBought":0,"nodesJudged":1000,"peakKiB":35308,"pods":30000,
        "podsMoved":8109,"podsMovedTwice":0,"rounds":99,"steps":298,"stepsLeft":0,"timesApplied":1,
        "violations":0}"#;

    fn run(change: Change) -> Consolidated {
        let mut run = serde_json::from_str(LINE).unwrap();
        change(&mut run);
        run
    }

    #[test]
    fn bars_hold_within_their_limits_and_not_beyond() {
        let cases: [(Change, [bool; 3]); 8] = [
            (|_| (), [true, true, true]),
            (|run| run.microseconds = 1_000_000, [false, true, true]),
            (|run| run.nodes_judged = 999, [false, true, true]),
            (|run| run.final_gap_percent = 3.0, [true, true, true]),
            (|run| run.final_gap_percent = 3.01, [true, false, true]),
            (|run| run.steps_left = 1, [true, false, true]),
            (|run| run.violations = 1, [true, true, false]),
            (|run| run.pods_moved_twice = 1, [true, true, false]),
        ];
        for (index, (change, expected)) in cases.into_iter().enumerate() {
            let run = run(change);
            let [time, end] = judged_bars("even", &run);
            assert_eq!([time.holds, end.holds, legal_bar([&run].into_iter()).holds], expected, "{index}");
        }
    }

    #[test]
    fn the_judged_size_is_charted_with_its_bound_and_all_sizes_with_their_time() {
        let even = run(|_| ());
        let values =
            |chart: &Chart| chart.series.iter().map(|(_, values)| values.clone()).collect::<Vec<_>>();
        let cost = cost_chart(&[("even", &even)]);
        assert_eq!(values(&cost), [[571.392], [342.912], [333.381_562]]);
        let series = [
            Series { workload: "even", runs: vec![run(|run| run.nodes = 500), even] },
            Series { workload: "mixed", runs: vec![run(|run| run.microseconds = 5), run(|_| ())] },
        ];
        let time = growth_chart(&series, |run| in_seconds(run.microseconds));
        assert_eq!(time.groups, ["500", "1,000"]);
        assert_eq!(values(&time), [[0.999_999, 0.999_999], [0.000_005, 0.999_999]]);
        assert!(series[0].of(NODES).is_some() && series[0].of(7).is_none());
    }
}
