//! `cargo xtask bench`: how long plans take, how much memory, how good they are, and whether that is enough.

mod chart;
mod machine;
mod measure;
mod peers;
mod report;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::root;
use crate::step::{StepError, check};
use measure::{Answer, Planned, Programs, Read, Workload};
use table::{Table, count, megabytes, seconds};

const COMMAND: &str = "cargo xtask bench provision";

/// The types of `aws-us-east-1`, in three zones, on demand and on spot.
const TYPES: u32 = 1345;
const CLASSES: u32 = 500;
/// What the quick form makes of every number of pods.
const QUICK_DIVISOR: u32 = 100;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    question: Option<Question>,
    #[command(flatten)]
    peers: peers::Options,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Plans for pods without a place: time, memory, nodes, cost, and how these grow
    Provision(Options),
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A CSV with the name, the milli-CPU and the MiB of real pods in its first columns
    #[arg(long, value_name = "PATH", default_value_os_t = default_real_pods())]
    real_pods: PathBuf,

    /// Also write the tables to docs/benchmarks.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,

    /// A hundredth of the pods, one run each and no bars: shows that it works, and nothing else
    #[arg(long)]
    quick: bool,
}

fn default_real_pods() -> PathBuf {
    root().join("../shared/data/openb_pods.csv")
}

pub(crate) fn run(bench: &Bench) -> Result<(), StepError> {
    match &bench.question {
        Some(Question::Provision(options)) => provision(options),
        None => peers::run(&bench.peers),
    }
}

fn provision(options: &Options) -> Result<(), StepError> {
    eprintln!("building, optimised");
    let mut programs = Programs::build(if options.quick { 1 } else { measure::RUNS })?;
    let sizes = Sizes { divisor: if options.quick { QUICK_DIVISOR } else { 1 } };

    let karpenter = karpenter(&mut programs, &sizes)?;
    let classes = classes(&mut programs, &sizes)?;
    let real = real(&mut programs, options)?;
    let growth = Growth::measure(&mut programs, &sizes)?;
    let reading = programs.read(sizes.pods(150_000))?;
    let answers = ["kwok", "aws-us-east-1"]
        .map(|catalog| programs.answer(catalog))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;

    let mut sections = vec![karpenter_table(&karpenter).to_string(), classes_table(&classes).to_string()];
    sections.push(real.map_or_else(
        || "## Real pods\n\nLeft out: there is no such file; `--real-pods` names one.\n".to_owned(),
        |planned| real_table(&planned).to_string(),
    ));
    sections.extend(growth.tables().iter().map(ToString::to_string));
    sections.push(reading_table(&reading).to_string());
    sections.push(answers_table(&answers).to_string());
    let tables = sections.join("\n");
    println!("{}\n\n{tables}", programs.method());
    if options.quick {
        println!("quick: the bars are not judged");
        return Ok(());
    }

    let mut bars = vec![
        karpenter_bar(karpenter.last().map(|(_, planned)| planned)),
        classes_bar(&classes),
        growth_bar(&growth.pods),
        reading_bar(&reading),
    ];
    bars.extend(answers.iter().map(answer_bar));
    let lines: Vec<String> = bars.iter().map(|bar| format!("- {bar}")).collect();
    if options.write {
        let text = format!(
            "Written by `{COMMAND} --write` on {}.\n\n{}\n\n## Bars\n\n{}\n\n{tables}",
            machine::description(),
            programs.method(),
            lines.join("\n"),
        );
        report::write("provision", &text)?;
    }
    check("bars", COMMAND, || {
        println!("{}", lines.join("\n"));
        Ok(bars.iter().filter(|bar| !bar.holds).map(ToString::to_string).collect())
    })
}

/// Numbers of pods, as they are or for the quick form.
struct Sizes {
    divisor: u32,
}

impl Sizes {
    fn pods(&self, pods: u32) -> u32 {
        pods / self.divisor
    }

    fn all(&self, pods: &[u32]) -> Vec<u32> {
        pods.iter().map(|pods| self.pods(*pods)).collect()
    }
}

/// Plans for one workload at several sizes.
fn series(
    programs: &mut Programs,
    sizes: &[u32],
    workload: impl Fn(u32) -> Workload,
) -> Result<Vec<(u32, Planned)>, StepError> {
    sizes.iter().map(|size| Ok((*size, programs.plan(&workload(*size))?))).collect()
}

fn karpenter(programs: &mut Programs, sizes: &Sizes) -> Result<Vec<(u32, Planned)>, StepError> {
    let pods = sizes.all(&[1_000, 2_000, 5_000, 10_000, 20_000]);
    series(programs, &pods, |pods| Workload::Karpenter { pods })
}

fn classes(programs: &mut Programs, sizes: &Sizes) -> Result<Planned, StepError> {
    programs.plan(&Workload::Classes { pods: sizes.pods(100_000), classes: CLASSES, types: TYPES })
}

fn real(programs: &mut Programs, options: &Options) -> Result<Option<Planned>, StepError> {
    if !options.real_pods.is_file() {
        eprintln!("no real pods: {} is no file", options.real_pods.display());
        return Ok(None);
    }
    programs
        .plan(&Workload::Real { csv: options.real_pods.clone(), all_types: false, daemon_set: false })
        .map(Some)
}

/// One number grows, the others stay.
struct Growth {
    pods: Vec<(u32, Planned)>,
    classes: Vec<(u32, Planned)>,
    types: Vec<(u32, Planned)>,
}

impl Growth {
    fn measure(programs: &mut Programs, sizes: &Sizes) -> Result<Self, StepError> {
        let (pods, classes, types) = (sizes.pods(100_000), CLASSES, TYPES);
        let growing_pods = sizes.all(&[25_000, 50_000, 100_000, 200_000]);
        let growing_classes = [125, 250, 500, 1_000, 2_000];
        let growing_types = [168, 336, 672, TYPES];
        Ok(Self {
            pods: series(programs, &growing_pods, |pods| Workload::Classes { pods, classes, types })?,
            classes: series(programs, &growing_classes, |classes| Workload::Classes {
                pods,
                classes,
                types,
            })?,
            types: series(programs, &growing_types, |types| Workload::Classes { pods, classes, types })?,
        })
    }

    fn tables(&self) -> [Table; 3] {
        [
            growth_table("Growth with pods", "pods", &self.pods),
            growth_table("Growth with classes", "classes", &self.classes),
            growth_table("Growth with types", "types", &self.types),
        ]
    }
}

const PLAN_COLUMNS: [&str; 6] = ["time", "peak memory", "nodes", "cost per hour", "gap", "unplaced"];

fn plan_cells(planned: &Planned) -> Vec<String> {
    vec![
        seconds(planned.microseconds),
        megabytes(planned.peak_kib),
        count(planned.nodes),
        format!("${:.2}", planned.cost_per_hour),
        format!("{:.2}%", planned.gap_percent),
        count(planned.unplaced),
    ]
}

fn karpenter_table(rows: &[(u32, Planned)]) -> Table {
    let mut table = Table::new(
        "Karpenter's workload",
        "A fifth each of generic pods, zone spread, hostname spread, zone affinity and hostname anti-affinity, \
         on 400 types of linear price: the mix of Karpenter's own scheduling benchmark.",
        [&["pods"], &PLAN_COLUMNS[..]].concat(),
    );
    for (pods, planned) in rows {
        table.row([vec![count(*pods)], plan_cells(planned)].concat());
    }
    table
}

fn classes_table(planned: &Planned) -> Table {
    let mut table = Table::new(
        "Many pods on real types",
        "Pods in classes of random size on `aws-us-east-1`: its types in three zones, on demand and on spot.",
        [&["pods", "classes", "types", "offerings"], &PLAN_COLUMNS[..]].concat(),
    );
    let sizes = vec![count(planned.pods), count(CLASSES), count(TYPES), count(planned.offerings)];
    table.row([sizes, plan_cells(planned)].concat());
    table
}

fn real_table(planned: &Planned) -> Table {
    let mut table = Table::new(
        "Real pods",
        "CPU and memory of the pods of a production cluster, on `aws-us-east-1`: amd64 types of the families c, \
         m and r newer than generation 3, without metal, on demand, in one zone.",
        [&["pods", "offerings"], &PLAN_COLUMNS[..]].concat(),
    );
    table.row([vec![count(planned.pods), count(planned.offerings)], plan_cells(planned)].concat());
    table
}

fn growth_table(title: &str, grows: &'static str, rows: &[(u32, Planned)]) -> Table {
    let mut table = Table::new(
        title,
        "The last column is the time divided by that of the row before.",
        [&[grows], &PLAN_COLUMNS[..], &["time ratio"]].concat(),
    );
    let mut before = None;
    for (size, planned) in rows {
        let ratio = before.map_or_else(String::new, |before| format!("{:.2}", planned.times(before)));
        table.row([vec![count(*size)], plan_cells(planned), vec![ratio]].concat());
        before = Some(planned);
    }
    table
}

fn reading_table(read: &Read) -> Table {
    let mut table = Table::new(
        "Reading",
        "Pods as `kubectl get pods -A -o json` prints them, from a file to a snapshot.",
        vec!["pods", "file", "time", "peak memory"],
    );
    table.row(vec![
        count(read.pods),
        megabytes(read.bytes / 1024),
        seconds(read.microseconds),
        megabytes(read.peak_kib),
    ]);
    table
}

fn answers_table(answers: &[Answer]) -> Table {
    let mut table = Table::new(
        "A small question",
        "The whole of `berth advise` on a file with two pods, from start to exit: the median of 15 runs.",
        vec!["catalog", "time", "peak memory"],
    );
    for answer in answers {
        table.row(vec![answer.catalog.to_owned(), seconds(answer.microseconds), megabytes(answer.peak_kib)]);
    }
    table
}

/// A promise with its numbers, and whether it holds.
struct Bar {
    text: String,
    holds: bool,
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", if self.holds { "holds" } else { "MISSED" }, self.text)
    }
}

fn karpenter_bar(planned: Option<&Planned>) -> Bar {
    let Some(planned) = planned else {
        return Bar { text: "Karpenter's workload was not measured".to_owned(), holds: false };
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

fn classes_bar(planned: &Planned) -> Bar {
    Bar {
        text: format!(
            "{} pods in {} classes on {} offerings: {} (bar under 1 s), {} (bar under 300 MB)",
            count(planned.pods),
            count(CLASSES),
            count(planned.offerings),
            seconds(planned.microseconds),
            megabytes(planned.peak_kib),
        ),
        holds: planned.microseconds < 1_000_000 && table::bytes(planned.peak_kib) < 300_000_000,
    }
}

/// Linear over the whole range: neighbouring rows differ by more than the machine's noise allows to judge.
fn growth_bar(rows: &[(u32, Planned)]) -> Bar {
    let (Some((least, first)), Some((most, last))) = (rows.first(), rows.last()) else {
        return Bar { text: "growth was not measured".to_owned(), holds: false };
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

fn reading_bar(read: &Read) -> Bar {
    Bar {
        text: format!(
            "{} pods read from JSON: {} (bar under 3 s), {} (bar under 400 MB)",
            count(read.pods),
            seconds(read.microseconds),
            megabytes(read.peak_kib),
        ),
        holds: read.microseconds < 3_000_000 && table::bytes(read.peak_kib) < 400_000_000,
    }
}

fn answer_bar(answer: &Answer) -> Bar {
    Bar {
        text: format!(
            "two pods, --catalog {}: {} (bar under 0.020 s), {} (bar under 20 MB)",
            answer.catalog,
            seconds(answer.microseconds),
            megabytes(answer.peak_kib),
        ),
        holds: answer.microseconds < 20_000 && table::bytes(answer.peak_kib) < 20_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(microseconds: u64, peak_kib: u64, nodes: u64, unplaced: u64) -> Planned {
        Planned { pods: 20_000, microseconds, peak_kib, nodes, unplaced, ..Planned::default() }
    }

    #[test]
    fn bars_hold_below_and_not_at_their_limit() {
        for (microseconds, nodes, unplaced, holds) in [
            (499_999, 4_000, 0, true),
            (500_000, 4_000, 0, false),
            (100_000, 4_001, 0, false),
            (100_000, 3_999, 0, false),
            (100_000, 4_000, 1, false),
        ] {
            let planned = planned(microseconds, 0, nodes, unplaced);
            assert_eq!(karpenter_bar(Some(&planned)).holds, holds, "{planned:?}");
        }
        for (microseconds, peak_kib, holds) in
            [(999_999, 292_968, true), (1_000_000, 1, false), (1, 292_969, false)]
        {
            let planned = planned(microseconds, peak_kib, 1, 0);
            assert_eq!(classes_bar(&planned).holds, holds, "{planned:?}");
        }
        for (microseconds, peak_kib, holds) in
            [(2_999_999, 390_624, true), (3_000_000, 1, false), (1, 390_625, false)]
        {
            let read = Read { pods: 150_000, microseconds, peak_kib, ..Read::default() };
            assert_eq!(reading_bar(&read).holds, holds, "{read:?}");
        }
        for (microseconds, peak_kib, holds) in
            [(19_999, 19_531, true), (20_000, 1, false), (1, 19_532, false)]
        {
            let answer = Answer { catalog: "kwok", microseconds, peak_kib };
            assert_eq!(answer_bar(&answer).holds, holds, "{answer:?}");
        }
        for (times, holds) in [(8, true), (9, false)] {
            let rows = [(25_000, planned(1_000, 0, 1, 0)), (200_000, planned(1_000 * times, 0, 1, 0))];
            assert_eq!(growth_bar(&rows).holds, holds, "{times}");
        }
        assert!(!karpenter_bar(None).holds && !growth_bar(&[]).holds);
    }

    #[test]
    fn growth_has_ratios_from_the_second_row() {
        let rows = [(1_000, planned(200_000, 0, 1, 0)), (2_000, planned(300_000, 0, 2, 0))];
        let text = growth_table("Growth", "pods", &rows).to_string();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).skip(2).collect();
        assert!(lines[0].ends_with("|            |"), "{text}");
        assert!(lines[1].ends_with("|       1.50 |"), "{text}");
    }
}
