//! One measured plan: `cargo bench -p berth-cloud --bench provision -- <workload>`, where a workload is
//!
//! - `karpenter <pods>`: the mix of Karpenter's own scheduling benchmark
//! - `classes <pods> [classes] [types]`: classes of random size on real types
//! - `real <csv> [newer|all] [daemonset]`: real pods on newer types of the common families, or on all
//! - `files <dir>`: manifests and a catalog, as `export <dir> <workload>` writes them for a peer to read too
//!
//! `--rounds=N` is the effort; 0 is the quick answer alone.
//!
//! Prints one line of JSON: the time of the plan alone, the peak memory of the process, what would be bought.
//! `cargo xtask bench` runs it for whole tables, each in a process of its own so that one workload's memory
//! does not hide another's.

#[path = "../common/mod.rs"]
mod common;
mod files;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use berth_cloud::CatalogOptions;
use berth_core::catalog::{CapacityType, InstanceType, Offering};
use berth_core::disruption::PoolDisruption;
use berth_core::names::{self, Labels, Text};
use berth_core::pod::{Pod, PodSpec, PodTerm, Spread};
use berth_core::requirement::{Expression, Operator};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::selector::Selector;
use berth_core::snapshot::{DaemonSet, Snapshot};
use berth_core::units::Price;
use berth_core::{check, provision};
use common::{Dice, MIB, requests};

const GIB: i64 = 1 << 30;

fn main() -> ExitCode {
    let arguments = common::arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["export", dir, workload @ ..] => workload_of(workload)
            .and_then(|workload| files::write(&workload, Path::new(dir)).map_err(|error| error.to_string())),
        ["files", dir] => files::read(Path::new(dir)).map(|snapshot| measure(&snapshot)),
        workload => workload_of(workload).map(|workload| measure(&workload.snapshot())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn workload_of(words: &[&str]) -> Result<Workload, String> {
    let number = |index: usize| words.get(index).and_then(|text| text.parse::<usize>().ok());
    let pods = number(1).unwrap_or(1000);
    match words.first() {
        Some(&"karpenter") | None => Ok(karpenter_workload(pods)),
        Some(&"classes") => {
            Ok(classes_workload(pods, number(2).unwrap_or(500), number(3).unwrap_or(usize::MAX)))
        }
        Some(&"real") => {
            let csv = words.get(1).ok_or("real: name the CSV file of the pods")?;
            let choice = if words.contains(&"all") { Choice::All } else { Choice::Newer };
            real_workload(Path::new(csv), choice, words.contains(&"daemonset"))
                .ok_or_else(|| format!("real: cannot read {csv}"))
        }
        Some(other) => Err(format!("unknown workload {other}: use karpenter, classes, real or files")),
    }
}

/// Pods without a place, one pool to buy for them from, and perhaps a DaemonSet on each of its nodes.
struct Workload {
    pods: Vec<Pod>,
    requirements: Vec<Expression>,
    types: Vec<Arc<InstanceType>>,
    daemon_requests: Option<Resources>,
}

impl Workload {
    fn snapshot(self) -> Snapshot {
        let daemon_set = |requests| DaemonSet {
            namespace: "default".into(),
            name: "agent".into(),
            spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        };
        Snapshot {
            pods: self.pods,
            pools: vec![common::pool(self.types, self.requirements, PoolDisruption::default())],
            daemon_sets: self.daemon_requests.into_iter().map(daemon_set).collect(),
            ..Snapshot::default()
        }
        .in_order()
    }
}

fn measure(snapshot: &Snapshot) {
    let policy = common::policy();
    let (plan, spent) = common::measured(|| provision::plan(snapshot, &policy));
    let violations = check::check(snapshot, &policy, &plan);
    let measured = serde_json::json!({
        "pods": snapshot.pods.len(),
        "offerings": snapshot.pools[0].types.iter().map(|t| t.offerings.len()).sum::<usize>(),
        "microseconds": spent.microseconds,
        "mainThreadMicroseconds": spent.main_thread_microseconds,
        "peakKiB": spent.peak_kib,
        "nodes": plan.launches.len(),
        "costPerHour": plan.cost_after.to_string(),
        "lowerBound": plan.lower_bound.to_string(),
        "gapPercent": f64::from(plan.gap_basis_points()) / 100.0,
        "unplaced": plan.unplaced.len(),
        "rounds": plan.rounds,
        "violations": violations.len(),
        "firstViolation": violations.first().map(ToString::to_string),
    });
    println!("{measured}");
}

/// The mix of Karpenter's own scheduling benchmark: a fifth each of generic pods, zone spread, hostname
/// spread, zone affinity and hostname anti-affinity, on 400 types of linear price.
fn karpenter_workload(count: usize) -> Workload {
    let mut dice = Dice(42);
    let types = (0..400).map(karpenter_type).collect();
    let letters = ["a", "b", "c", "d", "e", "f", "g"];
    let each = count / 5;
    let pods = (0..count)
        .map(|index| {
            let group = if index < each * 4 { index / each.max(1) + 1 } else { 0 };
            let mut spec = PodSpec::default();
            let label = |key: &str, value: &str| Labels::from([(Text::from(key), Text::from(value))]);
            let selector = |key: &str, value: &str| Some(Selector::new(vec![Expression::equals(key, value)]));
            match group {
                1 | 2 => {
                    spec.labels = label("my-label", dice.pick(&letters));
                    spec.spread.push(Spread {
                        topology_key: if group == 1 { names::ZONE.into() } else { names::HOSTNAME.into() },
                        max_skew: 1,
                        required: true,
                        selector: selector("my-label", dice.pick(&letters)),
                        min_domains: 1,
                        honor_node_affinity: true,
                        honor_node_taints: false,
                    });
                }
                3 => {
                    let value = dice.pick(&letters);
                    spec.labels = label("my-affinity", value);
                    spec.affinity.push(term(selector("my-affinity", value), names::ZONE));
                }
                4 => {
                    spec.labels = label("app", "nginx");
                    spec.anti_affinity.push(term(selector("app", "nginx"), names::HOSTNAME));
                }
                _ => spec.labels = label("my-label", dice.pick(&letters)),
            }
            let cpu = dice.pick(&[100, 250, 500, 1000, 1500]);
            let memory = dice.pick(&[100, 256, 512, 1024, 2048, 4096]) * MIB;
            spec.requests = requests(cpu, memory);
            common::pod(index, &Arc::new(spec))
        })
        .collect();
    Workload { pods, requirements: Vec::new(), types, daemon_requests: None }
}

fn term(selector: Option<Selector>, key: &str) -> PodTerm {
    PodTerm { selector, namespaces: Vec::new(), namespace_selector: None, topology_key: key.into() }
}

fn karpenter_type(index: i64) -> Arc<InstanceType> {
    let size = index + 1;
    // 0.1 per core and 0.1 per 10^9 bytes, in micro-dollars.
    let price = Price::from_micro_usd((3_147_483_648 * size + 5_000) / 10_000);
    let offerings = [("test-zone-1", true), ("test-zone-2", true), ("test-zone-3", false)]
        .into_iter()
        .flat_map(|(zone, spot)| {
            let types = if spot {
                &[CapacityType::OnDemand, CapacityType::Spot][..]
            } else {
                &[CapacityType::OnDemand]
            };
            types.iter().flat_map(move |capacity_type| {
                ["linux", "windows", "darwin"].map(|os| Offering {
                    zone: zone.into(),
                    capacity_type: *capacity_type,
                    price,
                    estimated: false,
                    available: true,
                    remaining: None,
                    labels: Labels::from([(names::OS.into(), os.into())]),
                })
            })
        })
        .collect();
    Arc::new(InstanceType {
        name: format!("fake-it-{index}").into(),
        labels: Labels::from([(names::ARCH.into(), "amd64".into())]),
        capacity: Resources::of(&[(CPU, 1000 * size), (MEMORY, 2 * GIB * size), (PODS, 10 * size)]),
        overhead: Resources::of(&[(CPU, 100), (MEMORY, 10 * MIB)]),
        volume_limits: std::collections::BTreeMap::new(),
        offerings,
    })
}

/// Pods in so many classes of random size on the real types and prices.
fn classes_workload(count: usize, classes: usize, types: usize) -> Workload {
    let mut dice = Dice(7);
    let specs =
        common::classes(classes, || requests(10 * dice.between(5, 405), 16 * MIB * dice.between(4, 1004)));
    let pods = (0..count).map(|index| common::pod(index, &specs[index % classes])).collect();
    let catalog = berth_cloud::builtin(common::CATALOG, &CatalogOptions::default());
    let all = catalog.map(|catalog| catalog.types).unwrap_or_default();
    let stride = (all.len() / types.min(all.len()).max(1)).max(1);
    let types = all.into_iter().step_by(stride).take(types).collect();
    Workload { pods, requirements: Vec::new(), types, daemon_requests: None }
}

/// Which types real pods may be put on: amd64 without metal, on demand, in one zone, in any case.
#[derive(Clone, Copy)]
enum Choice {
    /// The families c, m and r newer than generation 3.
    Newer,
    /// All without a GPU.
    All,
}

impl Choice {
    fn requirements(self) -> Vec<Expression> {
        common::on_demand_amd64(match self {
            Self::Newer => &[
                ("karpenter.k8s.aws/instance-category", Operator::In, &["c", "m", "r"]),
                ("karpenter.k8s.aws/instance-generation", Operator::Gt, &["3"]),
            ],
            Self::All => &[("karpenter.k8s.aws/instance-gpu-count", Operator::DoesNotExist, &[])],
        })
    }
}

/// CPU and memory of real pods; GPUs are ignored.
fn real_workload(csv: &Path, choice: Choice, daemon_set: bool) -> Option<Workload> {
    let text = std::fs::read_to_string(csv).ok()?;
    let pods = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split(',');
            let (name, cpu, memory) = (columns.next()?, columns.next()?, columns.next()?);
            let spec = PodSpec {
                requests: requests(cpu.parse().ok()?, memory.parse::<i64>().ok()? * MIB),
                ..PodSpec::default()
            };
            Some(Pod { name: name.into(), ..common::pod(0, &Arc::new(spec)) })
        })
        .collect();
    Some(Workload {
        pods,
        requirements: choice.requirements(),
        types: common::types_of_one_zone()?,
        daemon_requests: daemon_set.then(|| requests(300, 512 * MIB)),
    })
}
