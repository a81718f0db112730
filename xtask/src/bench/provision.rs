//! `cargo xtask bench provision`: plans for pods without a place.

use clap::Args;

use super::bar::Bar;
use super::form::{Form, RealPods};
use super::growth::{self, Growth};
use super::planner::{Effort, Planned, Planner, Workload};
use super::report::{Report, Section};
use super::table::{Table, bytes, count, megabytes, money, percent, seconds};
use super::{answer, reading, real};
use crate::step::StepError;

const COMMAND: &str = "cargo xtask bench provision";

/// What Karpenter's own benchmark is made of, in words.
pub(super) const KARPENTER_ABOUT: &str = "A fifth each of generic pods, zone spread, hostname spread, zone affinity and hostname anti-affinity, on 400 \
     types of linear price: the mix of Karpenter's own scheduling benchmark.";
pub(super) const KARPENTER_PODS: [u32; 5] = [1_000, 2_000, 5_000, 10_000, 20_000];

/// The types of `aws-us-east-1`, in three zones, on demand and on spot.
pub(super) const TYPES: u32 = 1345;
pub(super) const CLASSES: u32 = 500;
pub(super) const PODS: u32 = 100_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) real_pods: RealPods,
    #[command(flatten)]
    pub(super) form: Form,
}

pub(super) fn run(options: &Options) -> Result<(), StepError> {
    let form = options.form;
    let mut planner = Planner::build(form.runs())?;
    let karpenter = planner.series(&form.all_sized(&KARPENTER_PODS), |pods| Workload::Karpenter { pods })?;
    let many = Workload::Classes { pods: form.sized(PODS), classes: CLASSES, types: TYPES };
    let many = planner.plan(&many, Effort::Usual)?;
    let real = options.real_pods.csv().map(|csv| real::measure(&mut planner, csv, form)).transpose()?;
    let growth = Growth::measure(&mut planner, form)?;
    let read = reading::measure(form)?;
    let answers = answer::measure()?;

    let mut sections = vec![karpenter_section(&karpenter), many_section(&many)];
    sections.push(
        real.as_deref()
            .map_or_else(|| Section::left_out(real::TITLE, "there is no file of them"), real::section),
    );
    sections.extend(growth.sections());
    sections.extend([reading::section(&read), answer::section(&answers)]);
    let mut bars = vec![karpenter_bar(karpenter.last().map(|(_, planned)| planned)), many_bar(&many)];
    bars.extend(real.iter().flat_map(|rows| real::bars(rows)));
    bars.extend([growth::bar(&growth.pods), reading::bar(&read)]);
    bars.extend(answers.iter().map(answer::bar));
    let report = Report {
        part: "provision",
        title: "Provisioning",
        command: COMMAND,
        besides: None,
        method: form.method(),
        bars,
        sections,
    };
    report.finish(form)
}

pub(super) const PLAN_COLUMNS: [&str; 6] =
    ["time", "peak memory", "nodes", "cost per hour", "gap", "unplaced"];

pub(super) fn plan_cells(planned: &Planned) -> Vec<String> {
    vec![
        seconds(planned.microseconds),
        megabytes(planned.peak_kib),
        count(planned.nodes),
        money(planned.cost_per_hour),
        percent(planned.gap_percent),
        count(planned.unplaced),
    ]
}

fn karpenter_section(rows: &[(u32, Planned)]) -> Section {
    let columns = [&["pods"], &PLAN_COLUMNS[..]].concat();
    let mut table = Table::new("Karpenter's workload", KARPENTER_ABOUT, columns);
    for (pods, planned) in rows {
        table.row([vec![count(*pods)], plan_cells(planned)].concat());
    }
    Section::new(&table, Vec::new())
}

fn many_section(planned: &Planned) -> Section {
    let mut table = Table::new(
        "Many pods on real types",
        "Pods in classes of random size on `aws-us-east-1`: its types in three zones, on demand and on spot.",
        [&["pods", "classes", "types", "offerings"], &PLAN_COLUMNS[..]].concat(),
    );
    let sizes = vec![count(planned.pods), count(CLASSES), count(TYPES), count(planned.offerings)];
    table.row([sizes, plan_cells(planned)].concat());
    Section::new(&table, Vec::new())
}

fn karpenter_bar(planned: Option<&Planned>) -> Bar {
    let Some(planned) = planned else {
        return Bar::not_measured("Karpenter's workload");
    };
    Bar {
        text: format!(
            "{} pods of Karpenter's workload: {} nodes (bar 4,000), {} unplaced (bar 0), {} (bar under 0.5 s)",
            count(planned.pods),
            count(planned.nodes),
            count(planned.unplaced),
            seconds(planned.microseconds),
        ),
        holds: planned.nodes == 4_000 && planned.unplaced == 0 && planned.microseconds < 500_000,
    }
}

fn many_bar(planned: &Planned) -> Bar {
    Bar {
        text: format!(
            "{} pods in {} classes on {} offerings: {} (bar under 1 s), {} (bar under 300 MB)",
            count(planned.pods),
            count(CLASSES),
            count(planned.offerings),
            seconds(planned.microseconds),
            megabytes(planned.peak_kib),
        ),
        holds: planned.microseconds < 1_000_000 && bytes(planned.peak_kib) < 300_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_below_and_not_at_their_limit() {
        for (microseconds, nodes, unplaced, holds) in [
            (499_999, 4_000, 0, true),
            (500_000, 4_000, 0, false),
            (100_000, 4_001, 0, false),
            (100_000, 3_999, 0, false),
            (100_000, 4_000, 1, false),
        ] {
            let planned = Planned { microseconds, nodes, unplaced, ..Planned::default() };
            assert_eq!(karpenter_bar(Some(&planned)).holds, holds, "{planned:?}");
        }
        for (microseconds, peak_kib, holds) in
            [(999_999, 292_968, true), (1_000_000, 1, false), (1, 292_969, false)]
        {
            let planned = Planned { microseconds, peak_kib, ..Planned::default() };
            assert_eq!(many_bar(&planned).holds, holds, "{planned:?}");
        }
        assert!(!karpenter_bar(None).holds);
    }
}
