//! What the measured programs share: how they measure, and what their workloads are made of.

use std::sync::Arc;
use std::time::Instant;

use berth_cloud::CatalogOptions;
use berth_core::catalog::InstanceType;
use berth_core::disruption::{PodDisruption, PoolDisruption};
use berth_core::division::Division;
use berth_core::names::{self, Labels, Text};
use berth_core::pod::{Pod, PodOrigin, PodPhase, PodSpec};
use berth_core::pool::{Limits, Pool};
use berth_core::requirement::{Expression, Operator};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::snapshot::{Effort, Policy};
use berth_core::units::Price;

pub(crate) const MIB: i64 = 1 << 20;
pub(crate) const CATALOG: &str = "aws-us-east-1";
pub(crate) const POOL: &str = "default";

/// What is asked for, without options such as `--rounds=N` and those that cargo adds.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect()
}

/// As `berth advise` plans: with all of the machine's threads, for `--rounds=N` if they are named.
pub(crate) fn policy() -> Policy {
    let rounds = std::env::args().find_map(|argument| argument.strip_prefix("--rounds=")?.parse().ok());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Policy { effort: Effort { rounds, threads }, ..Policy::default() }
}

/// What a piece of work took.
pub(crate) struct Spent {
    pub(crate) microseconds: u64,
    /// For how long the main thread had a processor: what remains of the time when others use the machine too.
    pub(crate) main_thread_microseconds: u64,
    /// The most memory that the process ever had, up to then.
    pub(crate) peak_kib: u64,
}

pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, Spent) {
    let (start, nanos) = (Instant::now(), main_thread_nanos());
    let done = work();
    let spent = Spent {
        microseconds: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
        main_thread_microseconds: (main_thread_nanos() - nanos) / 1000,
        peak_kib: peak_kib(),
    };
    (done, spent)
}

fn main_thread_nanos() -> u64 {
    let status = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    status.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// SplitMix64: the same workload on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        usize::try_from(z % n as u64).unwrap_or(0)
    }

    /// From `low` up to, and without, `high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(usize::try_from(high - low).unwrap_or(1))).unwrap_or(0)
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}

/// Classes of pods: each has a label of its own, and asks for what `requests` throws the dice for.
pub(crate) fn classes(count: usize, mut requests: impl FnMut() -> Resources) -> Vec<Arc<PodSpec>> {
    (0..count)
        .map(|class| {
            Arc::new(PodSpec {
                labels: Labels::from([("app".into(), format!("app-{class}").into())]),
                requests: requests(),
                ..PodSpec::default()
            })
        })
        .collect()
}

pub(crate) fn requests(cpu_milli: i64, memory: i64) -> Resources {
    Resources::of(&[(CPU, cpu_milli), (MEMORY, memory), (PODS, 1)])
}

/// One that waits for a place.
pub(crate) fn pod(index: usize, spec: &Arc<PodSpec>) -> Pod {
    Pod {
        namespace: "default".into(),
        name: format!("pod-{index:06}").into(),
        spec: Arc::clone(spec),
        phase: PodPhase::Pending,
        node: None,
        nominated: None,
        is_fresh: false,
        deleting: false,
        origin: PodOrigin::Object,
        daemon_set: None,
        mirror: false,
        volumes: Box::default(),
        disruption: PodDisruption::default(),
    }
}

pub(crate) fn pool(
    types: Vec<Arc<InstanceType>>,
    requirements: Vec<Expression>,
    disruption: PoolDisruption,
) -> Pool {
    Pool {
        name: POOL.into(),
        requirements: requirements.into_iter().collect(),
        labels: Labels::from([(names::NODEPOOL.into(), POOL.into())]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Limits::default(),
        weight: 0,
        replicas: None,
        nodes_min: 0,
        division: Division::default(),
        types: types.into(),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption,
        node_cost: Price::ZERO,
    }
}

/// The real types and prices in one zone, without metal.
pub(crate) fn types_of_one_zone() -> Option<Vec<Arc<InstanceType>>> {
    let options = CatalogOptions { zones: vec!["us-east-1a".into()], ..CatalogOptions::default() };
    let types = berth_cloud::builtin(CATALOG, &options)?.types;
    Some(types.into_iter().filter(|sold| !sold.name.contains("metal")).collect())
}

/// On demand and amd64, and what is required besides.
pub(crate) fn on_demand_amd64(besides: &[(&str, Operator, &[&str])]) -> Vec<Expression> {
    let common: [(&str, Operator, &[&str]); 2] =
        [(names::CAPACITY_TYPE, Operator::In, &["on-demand"]), (names::ARCH, Operator::In, &["amd64"])];
    common
        .iter()
        .chain(besides)
        .filter_map(|(key, operator, values)| {
            let values = values.iter().map(|value| Text::from(*value)).collect();
            Expression::new(*key, *operator, values).ok()
        })
        .collect()
}
