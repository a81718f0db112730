//! Real pods on real types: what plans cost after little and after much work, against the bound.

use std::path::Path;

use super::bar::Bar;
use super::chart::{Chart, Scale};
use super::form::Form;
use super::planner::{Effort, Planned, Planner, Workload};
use super::provision::{PLAN_COLUMNS, plan_cells};
use super::report::Section;
use super::table::{Table, count, money, percent, seconds};
use crate::step::StepError;

pub(super) const TITLE: &str = "Real pods";

/// What the pods and the cases are, in words.
pub(super) const ABOUT: &str = "CPU and memory of the 8,152 pods of a production cluster on `aws-us-east-1`, amd64 without metal, on demand, \
     in one zone. *c/m/r* are the families c, m and r newer than generation 3, *all* is all types without a GPU; \
     with *agent*, a DaemonSet asks for 300m and 512Mi on each node.";

/// Which types may be bought, and what runs on each node besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    all_types: bool,
    daemon_set: bool,
}

pub(super) const CASES: [Case; 4] = [
    Case { name: "c/m/r", all_types: false, daemon_set: false },
    Case { name: "c/m/r, agent", all_types: false, daemon_set: true },
    Case { name: "all", all_types: true, daemon_set: false },
    Case { name: "all, agent", all_types: true, daemon_set: true },
];

impl Case {
    pub(super) fn workload(&self, csv: &Path) -> Workload {
        Workload::Real { csv: csv.to_owned(), all_types: self.all_types, daemon_set: self.daemon_set }
    }
}

/// What takes seconds instead of tenths of one.
const LONG_ROUNDS: u32 = 500;

/// One case after little, the usual and much work.
#[derive(Clone, Debug)]
pub(super) struct Row {
    case: Case,
    quick: Planned,
    usual: Planned,
    long: Planned,
}

impl Row {
    fn plans(&self) -> [(&'static str, &Planned); 3] {
        [("quick", &self.quick), ("default", &self.usual), ("long", &self.long)]
    }

    /// Each plan's bound holds for all of them.
    fn best_bound(&self) -> f64 {
        self.plans().map(|(_, planned)| planned.lower_bound).into_iter().fold(0.0, f64::max)
    }
}

pub(super) fn measure(planner: &mut Planner, csv: &Path, form: Form) -> Result<Vec<Row>, StepError> {
    let measure = |case: Case| {
        let workload = case.workload(csv);
        Ok(Row {
            case,
            quick: planner.plan(&workload, Effort::QUICK)?,
            usual: planner.plan(&workload, Effort::Usual)?,
            long: planner.plan(&workload, Effort::Rounds(form.sized(LONG_ROUNDS)))?,
        })
    };
    CASES.into_iter().map(measure).collect()
}

pub(super) fn section(rows: &[Row]) -> Section {
    let about = format!(
        "{ABOUT} *quick* is `--rounds 0`, *long* `--rounds {LONG_ROUNDS}`. No plan costs less than the bound; the \
         gap is what the plan's own bound leaves open."
    );
    let columns = [&["types", "effort", "rounds"], &PLAN_COLUMNS[..], &["bound"]].concat();
    let mut table = Table::new(TITLE, &about, columns);
    for row in rows {
        for (effort, planned) in row.plans() {
            let name = if effort == "quick" { row.case.name } else { "" };
            table.row(
                [
                    vec![name.to_owned(), effort.to_owned(), count(planned.rounds)],
                    plan_cells(planned),
                    vec![money(planned.lower_bound)],
                ]
                .concat(),
            );
        }
    }
    Section::new(&table, vec![cost_chart(rows), above_bound_chart(rows)])
}

fn cost_chart(rows: &[Row]) -> Chart {
    let mut chart = Chart {
        name: "provision-real-cost",
        title: "Cost of real pods after little and much work, and the bound",
        unit: "dollars an hour",
        across: "instance types to choose from",
        scale: Scale::Linear,
        groups: rows.iter().map(|row| row.case.name.to_owned()).collect(),
        series: series(rows, |_, planned| planned.cost_per_hour),
    };
    chart.series.push(("no plan costs less".to_owned(), rows.iter().map(Row::best_bound).collect()));
    chart
}

/// The same as shares, because plans that are nearly alike look alike in dollars.
fn above_bound_chart(rows: &[Row]) -> Chart {
    Chart {
        name: "provision-real-gap",
        title: "How far plans for real pods are above the best bound",
        unit: "percent of the bound",
        series: series(rows, |row, planned| 100.0 * (planned.cost_per_hour / row.best_bound() - 1.0)),
        ..cost_chart(rows)
    }
}

fn series(rows: &[Row], value: impl Fn(&Row, &Planned) -> f64) -> Vec<(String, Vec<f64>)> {
    ["quick", "default", "long"]
        .into_iter()
        .enumerate()
        .map(|(effort, name)| {
            (name.to_owned(), rows.iter().map(|row| value(row, row.plans()[effort].1)).collect())
        })
        .collect()
}

/// At most what a plan may cost, take, and leave open.
struct Limit {
    dollars: f64,
    microseconds: u64,
    gap_percent: Option<f64>,
}

impl Limit {
    const fn new(dollars: f64, microseconds: u64) -> Self {
        Self { dollars, microseconds, gap_percent: None }
    }

    fn bar(&self, case: Case, effort: &str, planned: &Planned) -> Bar {
        let gap = self.gap_percent.map_or_else(String::new, |most| {
            format!(", a gap of {} (bar at most {})", percent(planned.gap_percent), percent(most))
        });
        Bar {
            text: format!(
                "real pods, {}, {effort}: {} an hour (bar at most {}), {} (bar at most {}){gap}, {} unplaced (bar 0)",
                case.name,
                money(planned.cost_per_hour),
                money(self.dollars),
                seconds(planned.microseconds),
                seconds(self.microseconds),
                count(planned.unplaced),
            ),
            holds: planned.cost_per_hour <= self.dollars
                && planned.microseconds <= self.microseconds
                && self.gap_percent.is_none_or(|most| planned.gap_percent <= most)
                && planned.unplaced == 0,
        }
    }
}

const QUICK: Limit = Limit::new(4_000.0, 50_000);
const USUAL: Limit = Limit::new(3_700.0, 2_000_000);
const LONG: Limit = Limit::new(3_675.0, 20_000_000);
const LONG_PROVED: Limit = Limit { gap_percent: Some(1.0), ..LONG };

/// Only without the agent: with it, no plan is known that could be a measure.
pub(super) fn bars(rows: &[Row]) -> Vec<Bar> {
    rows.iter()
        .filter(|row| !row.case.daemon_set)
        .flat_map(|row| {
            let case = row.case;
            let quick = (!case.all_types).then(|| QUICK.bar(case, "quick", &row.quick));
            let long = if case.all_types { LONG } else { LONG_PROVED };
            quick
                .into_iter()
                .chain([USUAL.bar(case, "default", &row.usual), long.bar(case, "long", &row.long)])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Row);

    fn planned(cost_per_hour: f64, microseconds: u64, gap_percent: f64) -> Planned {
        let lower_bound = cost_per_hour * (1.0 - gap_percent / 100.0);
        Planned { microseconds, cost_per_hour, lower_bound, gap_percent, ..Planned::default() }
    }

    fn row(case: Case) -> Row {
        Row {
            case,
            quick: planned(4_000.0, 50_000, 50.0),
            usual: planned(3_700.0, 2_000_000, 5.0),
            long: planned(3_675.0, 20_000_000, 1.0),
        }
    }

    #[test]
    fn bars_hold_at_their_limit_and_not_beyond() {
        let rows = CASES.map(row);
        assert!(bars(&rows).iter().all(|bar| bar.holds));
        let worse: [(Change, [bool; 5]); 7] = [
            (|row| row.quick.cost_per_hour = 4_000.01, [false, true, true, true, true]),
            (|row| row.quick.microseconds = 50_001, [false, true, true, true, true]),
            (|row| row.usual.cost_per_hour = 3_700.01, [true, false, true, false, true]),
            (|row| row.usual.unplaced = 1, [true, false, true, false, true]),
            (|row| row.long.cost_per_hour = 3_675.01, [true, true, false, true, false]),
            (|row| row.long.microseconds = 20_000_001, [true, true, false, true, false]),
            (|row| row.long.gap_percent = 1.01, [true, true, false, true, true]),
        ];
        for (index, (worsen, expected)) in worse.into_iter().enumerate() {
            let mut rows = rows.clone();
            rows.iter_mut().for_each(worsen);
            let holds: Vec<bool> = bars(&rows).iter().map(|bar| bar.holds).collect();
            assert_eq!(holds, expected, "{index}");
        }
    }

    #[test]
    fn costs_are_charted_against_the_best_bound() {
        let rows = [row(CASES[0])];
        let first = |chart: Chart| chart.series.iter().map(|(_, values)| values[0]).collect::<Vec<f64>>();
        let bound = 3_675.0 * 0.99;
        assert_eq!(first(cost_chart(&rows)), [4_000.0, 3_700.0, 3_675.0, bound]);
        let above = first(above_bound_chart(&rows));
        assert_eq!(above.len(), 3);
        assert!((above[2] - (100.0 / 0.99 - 100.0)).abs() < 1e-9, "{above:?}");
    }
}
