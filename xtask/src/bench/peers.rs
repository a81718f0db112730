//! `cargo xtask bench --peer karpenter`: Berth and a peer on the same files in the same run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::bar::Bar;
use super::chart::{Chart, Scale, in_megabytes, in_seconds};
use super::form::{Form, RealPods};
use super::planner::{Effort, Planned, Planner, Workload};
use super::program::dollars;
use super::provision::{KARPENTER_ABOUT, KARPENTER_PODS};
use super::real;
use super::report::{Report, Section};
use super::table::{Table, count, megabytes, money, percent, ratio, seconds};
use crate::peer::{self, Built, Peer};
use crate::step::{StepError, output};

const COMMAND: &str = "cargo xtask bench --peer karpenter";
const PODS_MOST: u32 = KARPENTER_PODS[KARPENTER_PODS.len() - 1];
/// What the versions after the first are run on: enough to see what a version changed.
const OTHERS_PODS: [u32; 3] = [1_000, 5_000, 20_000];
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
    /// Whom to run beside Berth on the same files
    #[arg(long)]
    peer: Option<PeerName>,

    /// Which versions of it, without those that Go cannot build here: the first is run on everything, the others
    /// on 1,000, 5,000 and 20,000 pods and on the real ones
    #[arg(long, value_name = "VERSION", value_delimiter = ',', default_values = ["v1.15.0", "v1.14.1"])]
    peer_version: Vec<Version>,

    #[command(flatten)]
    pub(super) real_pods: RealPods,

    /// Leave out larger numbers of pods; the bars are for 20,000
    #[arg(long, value_name = "PODS", default_value_t = PODS_MOST)]
    pods_max: u32,

    #[command(flatten)]
    pub(super) form: Form,
}

impl Options {
    pub(super) fn names_a_peer(&self) -> bool {
        self.peer.is_some()
    }
}

pub(super) fn run(options: &Options) -> Result<(), StepError> {
    let programs = build(&options.peer_version)?;
    let Some((peer, others)) = programs.split_first() else {
        println!("Karpenter was left out, and nothing was compared.");
        return Ok(());
    };
    let form = options.form;
    let planner = Planner::build(form.runs())?;
    let mut sides = Sides { planner, peer, others, runs: form.runs(), files: files_directory()? };
    let own: Vec<Pair> = KARPENTER_PODS
        .into_iter()
        .filter(|pods| *pods <= options.pods_max)
        .map(|pods| {
            let workload = Workload::Karpenter { pods: form.sized(pods) };
            sides.compare(&count(form.sized(pods)), &workload, OTHERS_PODS.contains(&pods))
        })
        .collect::<Result<_, _>>()?;
    let real = real(&mut sides, options)?;

    let own_table = table("Karpenter's own workload", KARPENTER_ABOUT, "pods", &own);
    let real_section = if real.is_empty() {
        Section::left_out(real::TITLE, "there is no file of them, or it was to be quick")
    } else {
        let about = format!("{} {ABOUT_AGENT}", real::ABOUT);
        Section::new(&table(real::TITLE, &about, "types", &real), vec![real_chart(&real)])
    };
    let mut bars: Vec<Bar> = own.last().into_iter().flat_map(faster_bars).collect();
    bars.extend(own.iter().chain(&real).flat_map(not_dearer_bars));
    let report = Report {
        part: "karpenter",
        title: "Against Karpenter",
        command: COMMAND,
        besides: own.iter().chain(&real).next().map(Pair::peers_described),
        method: METHOD.to_owned(),
        bars,
        sections: vec![Section::new(&own_table, own_charts(&own)), real_section],
    };
    report.finish(form)
}

const METHOD: &str = "Both read the same files. Karpenter's time is that of its scheduler's `Solve` alone, without \
    its deadline of a minute; Berth's is that of the plan alone. Each is the fastest of 3 runs, but a run of \
    Karpenter that takes more than 10 s is made once. The memory is that of the whole process. Karpenter's cost \
    is that of the cheapest offering that each of its node claims leaves open, which is what it would launch. \
    *times faster* and *saved* are against the Karpenter named first. \
    [peers.md](peers.md) says more.";

/// Why the agent changes nothing for Karpenter.
const ABOUT_AGENT: &str = "Karpenter counts the agent, too, but buys so few and such large nodes (384 or 896 CPUs \
    each) that all agents together ask for less than a fifth of the CPUs that its pods leave free there.";

/// The versions that can be built here, in their order; for the others it says why not.
fn build(versions: &[Version]) -> Result<Vec<PathBuf>, StepError> {
    let mut programs = Vec::new();
    for version in versions {
        let peer = version.peer();
        match peer.build()? {
            Built::Program(program) => programs.push(program),
            Built::LeftOut(why) => println!("{} is left out: {why}", peer.program),
        }
    }
    Ok(programs)
}

/// Not in the quick form: Karpenter takes most of a minute for them.
fn real(sides: &mut Sides, options: &Options) -> Result<Vec<Pair>, StepError> {
    match options.real_pods.csv().filter(|_| !options.form.quick) {
        Some(csv) => {
            real::CASES.iter().map(|case| sides.compare(case.name, &case.workload(csv), true)).collect()
        }
        None => Ok(Vec::new()),
    }
}

fn files_directory() -> Result<PathBuf, StepError> {
    Ok(peer::directory()?.join("files"))
}

/// The planners, and where their common files go.
struct Sides<'p> {
    planner: Planner,
    peer: &'p Path,
    others: &'p [PathBuf],
    runs: u32,
    files: PathBuf,
}

impl Sides<'_> {
    fn compare(&mut self, name: &str, workload: &Workload, with_others: bool) -> Result<Pair, StepError> {
        let folder: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let dir = self.files.join(folder);
        self.planner.export(workload, &dir)?;
        let peer = self.solve(self.peer, &dir)?;
        let others = if with_others { self.others } else { &[] };
        let others = others.iter().map(|other| self.solve(other, &dir)).collect::<Result<_, _>>()?;
        let files = Workload::Files { dir };
        let berth = self.planner.plan(&files, Effort::Usual)?;
        let quick = self.planner.plan(&files, Effort::QUICK)?;
        if peer.pods != berth.pods {
            let message = format!("Karpenter read {} pods and Berth {}", peer.pods, berth.pods);
            return Err(StepError::Output { command: COMMAND.to_owned(), message });
        }
        Ok(Pair { name: name.to_owned(), peer, others, berth, quick })
    }

    fn solve(&self, program: &Path, dir: &Path) -> Result<Solved, StepError> {
        let (program, dir) = (program.to_string_lossy(), dir.to_string_lossy());
        let words = [&*program, &*dir];
        eprintln!("measuring {}", words.join(" on "));
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

/// What one run of `peers/karpenter` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Solved {
    version: String,
    /// Of the Go that built it.
    go: String,
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
    /// Those of other versions, where they were asked.
    others: Vec<Solved>,
    berth: Planned,
    /// Berth without improving its first answer.
    quick: Planned,
}

impl Solved {
    fn name(&self) -> String {
        format!("Karpenter {}", self.version)
    }

    /// How many times as long as a plan of Berth's it took.
    fn times_slower(&self, plan: &Planned) -> f64 {
        ratio(self.microseconds, plan.microseconds)
    }
}

impl Pair {
    fn peers(&self) -> impl Iterator<Item = &Solved> {
        std::iter::once(&self.peer).chain(&self.others)
    }

    fn peers_described(&self) -> String {
        let versions: Vec<&str> = self.peers().map(|peer| peer.version.as_str()).collect();
        format!("Karpenter {}, {}", versions.join(" and "), self.peer.go)
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
    let mut table = Table::new(title, about, columns);
    for pair in pairs {
        for (index, peer) in pair.peers().enumerate() {
            table.row(vec![
                if index == 0 { pair.name.clone() } else { String::new() },
                peer.name(),
                seconds(peer.microseconds),
                String::new(),
                megabytes(peer.peak_kib),
                count(peer.nodes),
                money(peer.cost_per_hour),
                String::new(),
                String::new(),
                count(peer.unplaced),
            ]);
        }
        for (name, plan) in [("Berth, quick", &pair.quick), ("Berth", &pair.berth)] {
            let saved = 1.0 - plan.cost_per_hour / pair.peer.cost_per_hour.max(f64::MIN_POSITIVE);
            table.row(vec![
                String::new(),
                name.to_owned(),
                seconds(plan.microseconds),
                format!("{:.0}", pair.peer.times_slower(plan)),
                megabytes(plan.peak_kib),
                count(plan.nodes),
                money(plan.cost_per_hour),
                format!("{:.1}%", 100.0 * saved),
                percent(plan.gap_percent),
                count(plan.unplaced),
            ]);
        }
    }
    table
}

fn faster_bars(pair: &Pair) -> Vec<Bar> {
    let bars =
        [("the plan", &pair.berth, TIMES_FASTER), ("the quick answer", &pair.quick, QUICK_TIMES_FASTER)];
    let bar = |peer: &Solved, (name, plan, bar): (&str, &Planned, f64)| {
        let times = peer.times_slower(plan);
        Bar {
            text: format!(
                "{} pods of Karpenter's workload: {name} {times:.0} times as fast as that of {} (bar {bar:.0} at {})",
                count(plan.pods),
                peer.name(),
                count(PODS_MOST),
            ),
            holds: plan.pods >= u64::from(PODS_MOST) && times >= bar,
        }
    };
    pair.peers().flat_map(|peer| bars.map(|of| bar(peer, of))).collect()
}

fn not_dearer_bars(pair: &Pair) -> impl Iterator<Item = Bar> {
    let Pair { name, berth, .. } = pair;
    pair.peers().map(move |peer| Bar {
        text: format!(
            "{name}: {} an hour and {} unplaced (bar at most the {} and {} of {})",
            money(berth.cost_per_hour),
            count(berth.unplaced),
            money(peer.cost_per_hour),
            count(peer.unplaced),
            peer.name(),
        ),
        holds: berth.cost_per_hour <= peer.cost_per_hour && berth.unplaced <= peer.unplaced,
    })
}

/// The numbers of each planner, side by side.
fn series(
    pairs: &[Pair],
    peer: impl Fn(&Solved) -> f64,
    plan: impl Fn(&Planned) -> f64,
) -> Vec<(String, Vec<f64>)> {
    let series = |name: &str, value: &dyn Fn(&Pair) -> f64| {
        (name.to_owned(), pairs.iter().map(value).collect::<Vec<f64>>())
    };
    vec![
        series("Karpenter", &|pair| peer(&pair.peer)),
        series("Berth, quick", &|pair| plan(&pair.quick)),
        series("Berth", &|pair| plan(&pair.berth)),
    ]
}

fn own_charts(pairs: &[Pair]) -> Vec<Chart> {
    let cost = Chart {
        name: "karpenter-cost",
        title: "Cost of a plan, by pods",
        across: "pods",
        ..real_chart(pairs)
    };
    let time = Chart {
        name: "karpenter-time",
        title: "Time of a plan, by pods",
        unit: "seconds",
        scale: Scale::Log,
        series: series(pairs, |peer| in_seconds(peer.microseconds), |plan| in_seconds(plan.microseconds)),
        ..cost.clone()
    };
    let memory = Chart {
        name: "karpenter-memory",
        title: "Peak memory, by pods",
        unit: "MB",
        series: series(pairs, |peer| in_megabytes(peer.peak_kib), |plan| in_megabytes(plan.peak_kib)),
        ..cost.clone()
    };
    vec![time, memory, cost]
}

/// What each pays, and what nobody can stay below.
fn real_chart(pairs: &[Pair]) -> Chart {
    let mut series = series(pairs, |peer| peer.cost_per_hour, |plan| plan.cost_per_hour);
    let bounds = pairs.iter().map(|pair| pair.berth.lower_bound).collect();
    series.push(("no plan costs less".to_owned(), bounds));
    Chart {
        name: "karpenter-real-cost",
        title: "Cost of real pods, by types",
        unit: "dollars an hour",
        across: "instance types to choose from",
        scale: Scale::Linear,
        groups: pairs.iter().map(|pair| pair.name.clone()).collect(),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(pods: u64, peer: (u64, f64, u64), berth: (u64, f64, u64)) -> Pair {
        let (microseconds, cost_per_hour, unplaced) = peer;
        let peer = Solved { pods, microseconds, cost_per_hour, unplaced, ..Solved::default() };
        let (microseconds, cost_per_hour, unplaced) = berth;
        let berth = Planned { pods, microseconds, cost_per_hour, unplaced, ..Planned::default() };
        Pair { name: count(pods), peer, others: Vec::new(), quick: berth.clone(), berth }
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
            let found: Vec<bool> = faster_bars(&pair).iter().map(|bar| bar.holds).collect();
            assert_eq!(found, holds, "{pair:?}");
        }
        for (peer, berth, holds) in [
            ((1, 2.0, 0), (1, 2.0, 0), true),
            ((1, 2.0, 0), (1, 2.01, 0), false),
            ((1, 2.0, 1), (1, 1.0, 1), true),
            ((1, 2.0, 0), (1, 1.0, 1), false),
        ] {
            let pair = pair(1_000, peer, berth);
            let found: Vec<bool> = not_dearer_bars(&pair).map(|bar| bar.holds).collect();
            assert_eq!(found, [holds], "{pair:?}");
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
    fn every_version_has_a_row_and_its_bars() {
        let mut pair = pair(20_000, (1_000_000, 2.0, 0), (1_000, 1.5, 0));
        pair.peer.version = "v2".to_owned();
        pair.others = vec![Solved {
            version: "v1".to_owned(),
            microseconds: 999_999,
            cost_per_hour: 1.0,
            ..Solved::default()
        }];
        let holds: Vec<bool> =
            faster_bars(&pair).into_iter().chain(not_dearer_bars(&pair)).map(|bar| bar.holds).collect();
        assert_eq!(holds, [true, true, true, false, true, false]);
        let table = table("", "", "pods", &[pair]).to_string();
        let planners: Vec<&str> =
            table.lines().filter_map(|line| line.split('|').nth(2)).map(str::trim).skip(2).collect();
        assert_eq!(planners, ["Karpenter v2", "Karpenter v1", "Berth, quick", "Berth"]);
    }

    #[test]
    fn real_pods_are_charted_against_the_bound() {
        let mut pair = pair(8_152, (1, 5_304.0, 0), (1, 4_000.0, 0));
        pair.berth.lower_bound = 3_960.0;
        let values: Vec<f64> = real_chart(&[pair]).series.iter().map(|(_, values)| values[0]).collect();
        assert_eq!(values, [5_304.0, 4_000.0, 4_000.0, 3_960.0]);
    }
}
