//! How plans grow: one number grows, the others stay.

use super::bar::Bar;
use super::chart::{Chart, Scale, in_megabytes, in_seconds};
use super::form::Form;
use super::planner::{Planned, Planner, Workload};
use super::provision::{CLASSES, PLAN_COLUMNS, PODS, TYPES, plan_cells};
use super::report::Section;
use super::table::{Table, count, ratios};
use crate::step::StepError;

type Rows = Vec<(u32, Planned)>;

pub(super) struct Growth {
    pub(super) pods: Rows,
    classes: Rows,
    types: Rows,
}

impl Growth {
    pub(super) fn measure(planner: &mut Planner, form: Form) -> Result<Self, StepError> {
        let (pods, classes, types) = (form.sized(PODS), CLASSES, TYPES);
        let growing_pods = form.all_sized(&[25_000, 50_000, PODS, 200_000]);
        let growing_classes = [125, 250, CLASSES, 1_000, 2_000];
        let growing_types = [168, 336, 672, TYPES];
        Ok(Self {
            pods: planner.series(&growing_pods, |pods| Workload::Classes { pods, classes, types })?,
            classes: planner.series(&growing_classes, |classes| Workload::Classes {
                pods,
                classes,
                types,
            })?,
            types: planner.series(&growing_types, |types| Workload::Classes { pods, classes, types })?,
        })
    }

    pub(super) fn sections(&self) -> [Section; 3] {
        let memory = Chart {
            name: "provision-memory-by-pods",
            title: "Peak memory, by pods",
            unit: "MB",
            ..chart("", "", "pods", &self.pods, |planned| in_megabytes(planned.peak_kib))
        };
        let time = |name, title, grows, rows: &Rows| {
            chart(name, title, grows, rows, |planned| in_seconds(planned.microseconds))
        };
        let pods = time("provision-time-by-pods", "Time of a plan, by pods", "pods", &self.pods);
        let classes = time(
            "provision-time-by-classes",
            "Time of a plan, by classes of pods",
            "classes of pods",
            &self.classes,
        );
        let types =
            time("provision-time-by-types", "Time of a plan, by types", "instance types", &self.types);
        [
            Section::new(&table("Growth with pods", "pods", &self.pods), vec![pods, memory]),
            Section::new(&table("Growth with classes", "classes", &self.classes), vec![classes]),
            Section::new(&table("Growth with types", "types", &self.types), vec![types]),
        ]
    }
}

fn table(title: &str, grows: &'static str, rows: &[(u32, Planned)]) -> Table {
    let about = "The last column is the time divided by that of the row before.";
    let mut table = Table::new(title, about, [&[grows], &PLAN_COLUMNS[..], &["time ratio"]].concat());
    let ratios = ratios(rows.iter().map(|(_, planned)| planned.microseconds));
    for ((size, planned), ratio) in rows.iter().zip(ratios) {
        table.row([vec![count(*size)], plan_cells(planned), vec![ratio]].concat());
    }
    table
}

fn chart(
    name: &'static str,
    title: &'static str,
    across: &'static str,
    rows: &[(u32, Planned)],
    value: impl Fn(&Planned) -> f64,
) -> Chart {
    Chart {
        name,
        title,
        unit: "seconds",
        across,
        scale: Scale::Linear,
        groups: rows.iter().map(|(size, _)| count(*size)).collect(),
        series: vec![("Berth".to_owned(), rows.iter().map(|(_, planned)| value(planned)).collect())],
    }
}

/// Linear over the whole range: neighbouring rows differ by more than the machine's noise allows to judge.
pub(super) fn bar(rows: &[(u32, Planned)]) -> Bar {
    let (Some((least, first)), Some((most, last))) = (rows.first(), rows.last()) else {
        return Bar::not_measured("growth");
    };
    let factor = f64::from(*most) / f64::from(*least);
    let times = last.times(first);
    Bar {
        text: format!(
            "from {} to {} pods ({factor:.0} times): {times:.2} times the time (bar at most {factor:.0})",
            count(*least),
            count(*most),
        ),
        holds: times <= factor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(microseconds: u64, peak_kib: u64) -> Planned {
        Planned { microseconds, peak_kib, ..Planned::default() }
    }

    #[test]
    fn growth_may_be_linear_and_not_more() {
        for (times, holds) in [(8, true), (9, false)] {
            let rows = [(25_000, planned(1_000, 0)), (200_000, planned(1_000 * times, 0))];
            assert_eq!(bar(&rows).holds, holds, "{times}");
        }
        assert!(!bar(&[]).holds);
    }

    #[test]
    fn growth_has_ratios_from_the_second_row() {
        let rows = [(1_000, planned(200_000, 0)), (2_000, planned(300_000, 0))];
        let text = table("Growth", "pods", &rows).to_string();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).skip(2).collect();
        assert!(lines[0].ends_with("|            |"), "{text}");
        assert!(lines[1].ends_with("|       1.50 |"), "{text}");
    }
}
