//! `cargo xtask bench --peer karpenter`: Berth and a peer on the same files in the same run.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::chart::{Chart, Scale};
use super::measure::{self, Planned, Programs, Workload, dollars};
use super::table::{Table, count, megabytes, seconds};
use super::{Bar, QUICK_DIVISOR, machine, report};
use crate::peer::{self, Built, Peer};
use crate::root;
use crate::step::{StepError, check, output};

const COMMAND: &str = "cargo xtask bench --peer karpenter";
const CHARTS: &str = "docs/charts";
const SIZES: [u32; 5] = [1_000, 2_000, 5_000, 10_000, 20_000];
/// A run that takes longer than this is made once: so long a run is no longer at the mercy of one process.
const LONG_MICROSECONDS: u64 = 10_000_000;
/// How many times as fast as the peer Berth must be at the largest size, and its quick answer.
const TIMES_FASTER: f64 = 300.0;
const QUICK_TIMES_FASTER: f64 = 1_000.0;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PeerName {
    Karpenter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "v1.15.0")]
    V1_15_0,
    #[value(name = "v1.14.1")]
    V1_14_1,
}

impl Version {
    fn peer(self) -> Peer {
        let (module_file, program) = match self {
            Self::V1_15_0 => ("go.mod", "karpenter-v1.15.0"),
            Self::V1_14_1 => ("go.v1.14.1.mod", "karpenter-v1.14.1"),
        };
        Peer { folder: "karpenter", module_file, program }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Whom to run beside Berth
    #[arg(long, required = true)]
    peer: Option<PeerName>,

    /// Which version of it
    #[arg(long, value_name = "VERSION", default_value = "v1.15.0")]
    peer_version: Version,

    /// A CSV with the name, the milli-CPU and the MiB of real pods in its first columns
    #[arg(long, value_name = "PATH", default_value_os_t = super::default_real_pods())]
    real_pods: PathBuf,

    /// Leave out larger numbers of pods; the bars are for 20,000
    #[arg(long, value_name = "PODS", default_value_t = SIZES[SIZES.len() - 1])]
    pods_max: u32,

    /// Also write the tables to docs/benchmarks.md, and the charts
    #[arg(long, conflicts_with = "quick")]
    write: bool,

    /// A hundredth of the pods, one run each, no real pods and no bars: shows that it works, and nothing else
    #[arg(long)]
    quick: bool,
}

pub(super) fn run(options: &Options) -> Result<(), StepError> {
    let program = match options.peer_version.peer().build()? {
        Built::Program(program) => program,
        Built::LeftOut(why) => {
            println!("Karpenter was left out, and nothing was compared. {why}");
            return Ok(());
        }
    };
    eprintln!("building, optimised");
    let runs = if options.quick { 1 } else { measure::RUNS };
    let mut sides =
        Sides { programs: Programs::build(runs)?, peer: program, runs, files: files_directory()? };

    let divisor = if options.quick { QUICK_DIVISOR } else { 1 };
    let sizes: Vec<u32> =
        SIZES.into_iter().filter(|size| *size <= options.pods_max).map(|size| size / divisor).collect();
    let own: Vec<Pair> = sizes
        .iter()
        .map(|pods| sides.compare(&count(*pods), &Workload::Karpenter { pods: *pods }))
        .collect::<Result<_, _>>()?;
    let real = real(&mut sides, options)?;

    let own_table = table("Karpenter's own workload", OWN_ABOUT, "pods", &own).to_string();
    let real_table = if real.is_empty() {
        "### Real pods\n\nLeft out.\n".to_owned()
    } else {
        table("Real pods", REAL_ABOUT, "types", &real).to_string()
    };
    println!("{own_table}\n{real_table}");
    if options.quick {
        println!("quick: the bars are not judged");
        return Ok(());
    }
    let mut bars: Vec<Bar> = own.last().into_iter().flat_map(faster_bars).collect();
    bars.extend(own.iter().chain(&real).map(not_dearer_bar));
    let lines: Vec<String> = bars.iter().map(|bar| format!("- {bar}")).collect();
    if options.write {
        let charts = [(own_charts(&own), own_table), (real_charts(&real), real_table)]
            .map(|(charts, table)| write_charts(&charts).map(|images| format!("{table}\n{images}")));
        let [own, real] = charts;
        let text = format!(
            "## Against Karpenter\n\nWritten by `{COMMAND} --write` on {}, {}. {METHOD}\n\n{}\n\n{}\n{}",
            machine::description(),
            described(options.peer_version),
            lines.join("\n"),
            own?,
            real?,
        );
        report::write("karpenter", &text)?;
    }
    check("bars", COMMAND, || {
        println!("{}", lines.join("\n"));
        Ok(bars.iter().filter(|bar| !bar.holds).map(ToString::to_string).collect())
    })
}

const METHOD: &str = "Both read the same files. Karpenter's time is that of its scheduler's `Solve` alone, without \
    its deadline of a minute; Berth's is that of the plan alone. Each is the fastest of 3 runs, but a run of \
    Karpenter that takes more than 10 s is made once. The memory is that of the whole process. Karpenter's cost \
    is that of the cheapest offering that each of its node claims leaves open, which is what it would launch. \
    [peers.md](peers.md) says more.";

const OWN_ABOUT: &str = "A fifth each of generic pods, zone spread, hostname spread, zone affinity and hostname \
    anti-affinity, on 400 types of linear price: the mix of Karpenter's own scheduling benchmark.";

const REAL_ABOUT: &str = "CPU and memory of the 8,152 pods of a production cluster on `aws-us-east-1`, amd64 \
    without metal, on demand, in one zone. *c/m/r* are the families c, m and r newer than generation 3, *all* \
    is all types without a GPU; with *agent*, a DaemonSet asks for 300m and 512Mi on each node.";

fn real(sides: &mut Sides, options: &Options) -> Result<Vec<Pair>, StepError> {
    if options.quick || !options.real_pods.is_file() {
        eprintln!("no real pods: there is no {}, or it was not asked for", options.real_pods.display());
        return Ok(Vec::new());
    }
    let cases = [
        ("c/m/r", false, false),
        ("c/m/r, agent", false, true),
        ("all", true, false),
        ("all, agent", true, true),
    ];
    cases
        .into_iter()
        .map(|(name, all_types, daemon_set)| {
            let csv = options.real_pods.clone();
            sides.compare(name, &Workload::Real { csv, all_types, daemon_set })
        })
        .collect()
}

fn files_directory() -> Result<PathBuf, StepError> {
    Ok(peer::directory()?.join("files"))
}

/// Both planners, and where their common files go.
struct Sides {
    programs: Programs,
    peer: PathBuf,
    runs: u32,
    files: PathBuf,
}

impl Sides {
    fn compare(&mut self, name: &str, workload: &Workload) -> Result<Pair, StepError> {
        let folder: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let dir = self.files.join(folder);
        self.programs.export(workload, &dir)?;
        let peer = self.solve(&dir)?;
        let berth = self.programs.plan(&Workload::Files { dir: dir.clone(), quick: false })?;
        let quick = self.programs.plan(&Workload::Files { dir, quick: true })?;
        if peer.pods != berth.pods {
            let message = format!("Karpenter read {} pods and Berth {}", peer.pods, berth.pods);
            return Err(StepError::Output { command: COMMAND.to_owned(), message });
        }
        Ok(Pair { name: name.to_owned(), peer, berth, quick })
    }

    fn solve(&self, dir: &Path) -> Result<Solved, StepError> {
        eprintln!("measuring Karpenter on {}", dir.display());
        let (program, dir) = (self.peer.to_string_lossy(), dir.to_string_lossy());
        let words = [&*program, &*dir];
        let mut best: Option<Solved> = None;
        for _ in 0..self.runs {
            let solved: Solved = serde_json::from_slice(&output(&words)?).map_err(|error| {
                StepError::Output { command: words.join(" "), message: error.to_string() }
            })?;
            let long = solved.microseconds > LONG_MICROSECONDS;
            best = match best {
                Some(best) if best.microseconds <= solved.microseconds => Some(best),
                _ => Some(solved),
            };
            if long {
                break;
            }
        }
        best.ok_or_else(|| StepError::Output {
            command: words.join(" "),
            message: "there were no runs".to_owned(),
        })
    }
}

fn described(version: Version) -> String {
    let go = output(&["go", "env", "GOVERSION"]).unwrap_or_default();
    let version = version.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    format!("Karpenter {version}, {}", String::from_utf8_lossy(&go).trim())
}

/// What one run of `peers/karpenter` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Solved {
    pods: u64,
    microseconds: u64,
    #[serde(rename = "peakKiB")]
    peak_kib: u64,
    nodes: u64,
    #[serde(deserialize_with = "dollars")]
    cost_per_hour: f64,
    unplaced: u64,
}

/// Both answers to one question.
#[derive(Clone, Debug, Default)]
struct Pair {
    name: String,
    peer: Solved,
    berth: Planned,
    /// Berth without improving its first answer.
    quick: Planned,
}

impl Pair {
    /// How many times as long as a plan of Berth's the peer took.
    fn times_faster(&self, plan: &Planned) -> f64 {
        as_f64(self.peer.microseconds) / as_f64(plan.microseconds.max(1))
    }
}

fn table(title: &str, about: &str, grows: &'static str, pairs: &[Pair]) -> Table {
    let columns = vec![
        grows,
        "planner",
        "time",
        "times faster",
        "peak memory",
        "nodes",
        "cost per hour",
        "saved",
        "gap",
        "unplaced",
    ];
    let mut table = Table::new(title, about, columns).at_level(3);
    for pair in pairs {
        let peer = &pair.peer;
        table.row(vec![
            pair.name.clone(),
            "Karpenter".to_owned(),
            seconds(peer.microseconds),
            String::new(),
            megabytes(peer.peak_kib),
            count(peer.nodes),
            format!("${:.2}", peer.cost_per_hour),
            String::new(),
            String::new(),
            count(peer.unplaced),
        ]);
        for (name, plan) in [("Berth, quick", &pair.quick), ("Berth", &pair.berth)] {
            let saved = 1.0 - plan.cost_per_hour / peer.cost_per_hour.max(f64::MIN_POSITIVE);
            table.row(vec![
                String::new(),
                name.to_owned(),
                seconds(plan.microseconds),
                format!("{:.0}", pair.times_faster(plan)),
                megabytes(plan.peak_kib),
                count(plan.nodes),
                format!("${:.2}", plan.cost_per_hour),
                format!("{:.1}%", 100.0 * saved),
                format!("{:.2}%", plan.gap_percent),
                count(plan.unplaced),
            ]);
        }
    }
    table
}

fn faster_bars(pair: &Pair) -> [Bar; 2] {
    let largest = u64::from(SIZES[SIZES.len() - 1]);
    [("the plan", &pair.berth, TIMES_FASTER), ("the quick answer", &pair.quick, QUICK_TIMES_FASTER)].map(
        |(name, plan, bar)| {
            let times = pair.times_faster(plan);
            Bar {
                text: format!(
                    "{} pods of Karpenter's workload: {name} {times:.0} times as fast as Karpenter's (bar {bar:.0} \
                     at {})",
                    count(plan.pods),
                    count(largest),
                ),
                holds: plan.pods >= largest && times >= bar,
            }
        },
    )
}

fn not_dearer_bar(Pair { name, peer, berth, .. }: &Pair) -> Bar {
    Bar {
        text: format!(
            "{name}: ${:.2} an hour and {} unplaced (bar at most Karpenter's ${:.2} and {})",
            berth.cost_per_hour,
            count(berth.unplaced),
            peer.cost_per_hour,
            count(peer.unplaced),
        ),
        holds: berth.cost_per_hour <= peer.cost_per_hour && berth.unplaced <= peer.unplaced,
    }
}

fn chart(
    title: &'static str,
    unit: &'static str,
    scale: Scale,
    pairs: &[Pair],
    peer: impl Fn(&Solved) -> f64,
    plan: impl Fn(&Planned) -> f64,
) -> Chart {
    let series = |name: &str, value: &dyn Fn(&Pair) -> f64| {
        (name.to_owned(), pairs.iter().map(value).collect::<Vec<f64>>())
    };
    Chart {
        title,
        unit,
        scale,
        groups: pairs.iter().map(|pair| pair.name.clone()).collect(),
        series: vec![
            series("Karpenter", &|pair| peer(&pair.peer)),
            series("Berth, quick", &|pair| plan(&pair.quick)),
            series("Berth", &|pair| plan(&pair.berth)),
        ],
    }
}

fn own_charts(pairs: &[Pair]) -> Vec<(&'static str, Chart)> {
    let time = chart(
        "Time of a plan, by pods",
        "seconds",
        Scale::Log,
        pairs,
        |peer| in_seconds(peer.microseconds),
        |plan| in_seconds(plan.microseconds),
    );
    let memory = chart(
        "Peak memory, by pods",
        "MB",
        Scale::Linear,
        pairs,
        |peer| in_megabytes(peer.peak_kib),
        |plan| in_megabytes(plan.peak_kib),
    );
    let cost = cost_chart("Cost of a plan, by pods", pairs);
    vec![("karpenter-time", time), ("karpenter-memory", memory), ("karpenter-cost", cost)]
}

fn real_charts(pairs: &[Pair]) -> Vec<(&'static str, Chart)> {
    if pairs.is_empty() {
        return Vec::new();
    }
    vec![("real-cost", cost_chart("Cost of real pods, by types", pairs))]
}

/// What each pays, and what nobody can stay below.
fn cost_chart(title: &'static str, pairs: &[Pair]) -> Chart {
    let mut chart = chart(
        title,
        "dollars an hour",
        Scale::Linear,
        pairs,
        |peer| peer.cost_per_hour,
        |plan| plan.cost_per_hour,
    );
    let bound = |pair: &Pair| pair.berth.cost_per_hour * (1.0 - pair.berth.gap_percent / 100.0);
    chart.series.push(("No plan costs less".to_owned(), pairs.iter().map(bound).collect()));
    chart
}

/// Writes the charts, and gives what shows them on a page of the docs.
fn write_charts(charts: &[(&'static str, Chart)]) -> Result<String, StepError> {
    let failed = |source| StepError::File { path: CHARTS.to_owned(), source };
    fs::create_dir_all(root().join(CHARTS)).map_err(failed)?;
    let mut images = Vec::new();
    for (name, chart) in charts {
        fs::write(root().join(CHARTS).join(format!("{name}.svg")), chart.svg()).map_err(failed)?;
        images.push(format!("![{}](charts/{name}.svg)\n", chart.title));
    }
    Ok(images.join("\n"))
}

#[expect(clippy::cast_precision_loss, reason = "for ratios with few digits")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn in_seconds(microseconds: u64) -> f64 {
    as_f64(microseconds) / 1e6
}

fn in_megabytes(kib: u64) -> f64 {
    as_f64(kib) * 1024.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(pods: u64, peer: (u64, f64, u64), berth: (u64, f64, u64)) -> Pair {
        let (microseconds, cost_per_hour, unplaced) = peer;
        let peer = Solved { pods, microseconds, cost_per_hour, unplaced, ..Solved::default() };
        let (microseconds, cost_per_hour, unplaced) = berth;
        let berth = Planned { pods, microseconds, cost_per_hour, unplaced, ..Planned::default() };
        Pair { name: count(pods), peer, quick: berth.clone(), berth }
    }

    #[test]
    fn bars_hold_at_their_limit_and_not_beyond() {
        for (pods, peer, holds) in [
            (20_000, 1_000_000, [true, true]),
            (20_000, 999_999, [true, false]),
            (20_000, 300_000, [true, false]),
            (20_000, 299_999, [false, false]),
            (10_000, 1_000_000, [false, false]),
        ] {
            let pair = pair(pods, (peer, 1.0, 0), (1_000, 1.0, 0));
            assert_eq!(faster_bars(&pair).map(|bar| bar.holds), holds, "{pair:?}");
        }
        for (peer, berth, holds) in [
            ((1, 2.0, 0), (1, 2.0, 0), true),
            ((1, 2.0, 0), (1, 2.01, 0), false),
            ((1, 2.0, 1), (1, 1.0, 1), true),
            ((1, 2.0, 0), (1, 1.0, 1), false),
        ] {
            let pair = pair(1_000, peer, berth);
            assert_eq!(not_dearer_bar(&pair).holds, holds, "{pair:?}");
        }
    }

    #[test]
    fn a_run_of_the_peer_is_read_from_its_line() {
        let line = r#"{"version":"v1.15.0","go":"go1.27.3","pods":1000,"microseconds":7546434,"peakKiB":68508,
            "nodes":200,"costPerHour":"327.653054","unplaced":0}"#;
        let solved: Solved = serde_json::from_str(line).unwrap();
        assert_eq!((solved.pods, solved.microseconds, solved.nodes), (1000, 7_546_434, 200));
    }

    #[test]
    fn real_pods_are_charted_against_the_bound() {
        let mut pair = pair(8_152, (1, 5_304.0, 0), (1, 4_000.0, 0));
        pair.berth.gap_percent = 1.0;
        let [(_, chart)] = real_charts(&[pair]).try_into().unwrap();
        let values: Vec<f64> = chart.series.iter().map(|(_, values)| values[0]).collect();
        assert_eq!(values, [5_304.0, 4_000.0, 4_000.0, 3_960.0]);
        assert!(real_charts(&[]).is_empty());
    }
}
