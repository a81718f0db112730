//! `cargo xtask bench e2e`: `berth run` on whole clusters: how long things take, what they cost, what it needs.

use serde::Deserialize;

use super::bar::Bar;
use super::form::Form;
use super::program::{Program, dollars};
use super::report::{Report, Section};
use super::table::{Table, bytes, count, megabytes, money, percent, ratio, seconds};
use crate::step::StepError;

const COMMAND: &str = "cargo xtask bench e2e";
const PODS: u32 = 1_000;
const IDLE_SECS: u32 = 180;
const LARGE: (u32, u32) = (5_000, 100_000);

const CLAIM_MS_MAX: u64 = 300;
const IDLE_BYTES_MAX: u64 = 25_000_000;
const LARGE_BYTES_MAX: u64 = 300_000_000;
const LARGE_PLAN_MS_MAX: u64 = 2_000;
const POD_BYTES_MAX: u64 = 1_000;

pub(super) fn run(form: Form) -> Result<(), StepError> {
    let berth = Program::binary("berth-cli", "berth", 1)?;
    let program = Program::bench("berth-operator", "e2e", 1)?;
    let play = |what: &str, numbers: [u32; 2]| {
        eprintln!("playing {what} {}", numbers.map(|number| number.to_string()).join(" "));
        let words = [what.to_owned(), berth.path().to_owned()];
        let words: Vec<String> = words.into_iter().chain(numbers.map(|number| number.to_string())).collect();
        program.output(&words)
    };
    let basic: Basic = parsed(&play("basic", [form.sized(PODS).max(20), form.sized(IDLE_SECS).max(5)])?)?;
    tell(&basic.bars());
    let (nodes, pods) = (form.sized(LARGE.0), form.sized(LARGE.1));
    let large: Large = parsed(&play("large", [nodes, pods])?)?;
    tell(&large.bars());
    let pods = Pods { many: large, few: parsed(&play("large", [nodes, nodes])?)? };
    tell(&[pods.bar()]);
    let report = Report {
        part: "e2e",
        title: "Whole clusters",
        command: COMMAND,
        besides: None,
        method: "`berth run` is a process of its own, and its memory (resident) and processor time are counted twice a \
                 second. Its metrics are scraped every 15 s, and before each rest its page is loaded. The control plane, which is real, its scheduler and KWOK share the machine with it. The \
                 large cluster is served by the in-process world over TLS: it takes 200,000 writes to make one. MB \
                 are 10^6 bytes."
            .to_owned(),
        bars: [basic.bars(), pods.many.bars(), vec![pods.bar()]].concat(),
        sections: vec![basic.section(), basic.rest_section(), pods.section()],
    };
    report.finish(form)
}

/// What one part found is not lost should the next one fail.
fn tell(bars: &[Bar]) {
    for bar in bars {
        eprintln!("{bar}");
    }
}

fn parsed<T: serde::de::DeserializeOwned>(output: &[u8]) -> Result<T, StepError> {
    serde_json::from_slice(output)
        .map_err(|error| StepError::Output { command: "e2e".to_owned(), message: error.to_string() })
}

/// What `crates/operator/benches/e2e` says of Karpenter's basic test.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Basic {
    lone_claim_ms: u64,
    idle_secs: u64,
    idle_writes: u64,
    #[serde(rename = "idleKiB")]
    idle_kib: u64,
    idle_cpu_ms: u64,
    out: Scaled,
    #[serde(rename = "in")]
    back: Scaled,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scaled {
    pods: u64,
    pods_wanted: u64,
    milliseconds: u64,
    nodes: u64,
    nodes_planned: u64,
    #[serde(deserialize_with = "dollars")]
    cost_per_hour: f64,
    #[serde(deserialize_with = "dollars")]
    lower_bound_per_hour: f64,
    kib_p95: u64,
    kib_max: u64,
    cpu_ms: u64,
    wall_ms: u64,
}

impl Scaled {
    fn above_bound_percent(&self) -> f64 {
        100.0 * (self.cost_per_hour / self.lower_bound_per_hour - 1.0)
    }

    fn all_run(&self) -> bool {
        self.pods == self.pods_wanted
    }
}

impl Basic {
    fn bars(&self) -> Vec<Bar> {
        let Self { out, back, .. } = self;
        let claim = Bar {
            text: format!(
                "a lone pod has its claim after {} (bar under 0.3 s)",
                seconds(self.lone_claim_ms * 1000)
            ),
            holds: self.lone_claim_ms < CLAIM_MS_MAX,
        };
        let nodes = Bar {
            text: format!(
                "{} of {} pods run on {} nodes; the plan has {} (bar at most 1% more)",
                count(out.pods),
                count(out.pods_wanted),
                count(out.nodes),
                count(out.nodes_planned),
            ),
            holds: out.all_run() && out.nodes * 100 <= out.nodes_planned * 101,
        };
        let cost = Bar {
            text: format!(
                "{} of {} pods left: {} an hour, {} above the bound (bar at most 5%)",
                count(back.pods),
                count(back.pods_wanted),
                money(back.cost_per_hour),
                percent(back.above_bound_percent()),
            ),
            holds: back.all_run() && 100.0 * back.cost_per_hour <= 105.0 * back.lower_bound_per_hour,
        };
        let idle = Bar {
            text: format!(
                "{} s idle: {} (bar under 25 MB), {} writes (bar 0)",
                count(self.idle_secs),
                megabytes(self.idle_kib),
                count(self.idle_writes),
            ),
            holds: bytes(self.idle_kib) < IDLE_BYTES_MAX && self.idle_writes == 0,
        };
        vec![claim, nodes, cost, idle]
    }

    fn section(&self) -> Section {
        let mut table = Table::new(
            "Karpenter's basic test",
            "Half of the pods ask for 900m and 3100Mi, half for 3500m and 28Gi; nodes are linux, on demand, smaller than \
             32 CPUs, and may be consolidated after 30 s without a budget. First all pods come at once, then three \
             tenths of them go. The time is until all run, or until the last node has gone. *planned* is what `berth \
             advise` buys for the same manifests; no plan costs less than the bound. Karpenter's own test allows 2 \
             minutes, 260 MB and 0.50 cores, then 20 minutes, 260 MB and 0.25 cores.",
            vec![
                "pods",
                "time",
                "nodes",
                "planned",
                "cost/h",
                "bound/h",
                "above",
                "memory P95",
                "memory max",
                "cores",
            ],
        );
        for scaled in [&self.out, &self.back] {
            table.row(vec![
                count(scaled.pods),
                seconds(scaled.milliseconds * 1000),
                count(scaled.nodes),
                count(scaled.nodes_planned),
                money(scaled.cost_per_hour),
                money(scaled.lower_bound_per_hour),
                percent(scaled.above_bound_percent()),
                megabytes(scaled.kib_p95),
                megabytes(scaled.kib_max),
                format!("{:.2}", ratio(scaled.cpu_ms, scaled.wall_ms)),
            ]);
        }
        Section::new(&table, Vec::new())
    }

    fn rest_section(&self) -> Section {
        let mut table = Table::new(
            "At rest",
            "An empty cluster with one pool. Writes are changes of pools, claims, nodes, pods and events; the lease by \
             which replicas know who leads is renewed besides.",
            vec!["time", "memory", "processor time", "writes"],
        );
        table.row(vec![
            format!("{} s", count(self.idle_secs)),
            megabytes(self.idle_kib),
            seconds(self.idle_cpu_ms * 1000),
            count(self.idle_writes),
        ]);
        Section::new(&table, Vec::new())
    }
}

/// What it says of a large cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Large {
    nodes: u64,
    pods: u64,
    first_claim_ms: u64,
    claim_ms: u64,
    kib_max: u64,
    #[serde(rename = "settledKiB")]
    settled_kib: u64,
    settled_cpu_ms: u64,
    settled_ms: u64,
}

impl Large {
    fn bars(&self) -> Vec<Bar> {
        let size = format!("{} nodes and {} pods", count(self.nodes), count(self.pods));
        vec![
            Bar {
                text: format!("{size}: {} (bar under 300 MB)", megabytes(self.kib_max)),
                holds: bytes(self.kib_max) < LARGE_BYTES_MAX,
            },
            Bar {
                text: format!(
                    "{size}: from a pod to its claim, plan included, {} (bar under 2 s)",
                    seconds(self.claim_ms * 1000)
                ),
                holds: self.claim_ms < LARGE_PLAN_MS_MAX,
            },
        ]
    }

    fn row(&self) -> Vec<String> {
        vec![
            count(self.nodes),
            count(self.pods),
            seconds(self.first_claim_ms * 1000),
            seconds(self.claim_ms * 1000),
            megabytes(self.kib_max),
            megabytes(self.settled_kib),
            format!("{:.2}", ratio(self.settled_cpu_ms, self.settled_ms)),
        ]
    }
}

/// The same nodes, full of many pods and of few large ones.
#[derive(Clone, Debug)]
struct Pods {
    many: Large,
    few: Large,
}

impl Pods {
    /// What one pod more takes, at rest.
    fn bytes_each(&self) -> u64 {
        let more = self.many.settled_kib.saturating_sub(self.few.settled_kib);
        bytes(more) / self.many.pods.saturating_sub(self.few.pods).max(1)
    }

    fn bar(&self) -> Bar {
        let each = self.bytes_each();
        let (many, few) = (count(self.many.pods), count(self.few.pods));
        Bar {
            text: format!("{many} pods instead of {few}: {} bytes each (bar under 1 KB)", count(each)),
            holds: each < POD_BYTES_MAX,
        }
    }

    fn section(&self) -> Section {
        let mut table = Table::new(
            "A large cluster",
            "Every node is full; then pods come one by one for which there is no room. *start* is from the start of the \
             process to the first claim, *claim* the longest that another pod waited for its own. What more pods on the \
             same nodes take at rest is what a pod takes.",
            vec!["nodes", "pods", "start", "claim", "memory max", "memory at rest", "cores at rest"],
        );
        for large in [&self.many, &self.few] {
            table.row(large.row());
        }
        Section::new(&table, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled() -> Scaled {
        Scaled {
            pods: 1_000,
            pods_wanted: 1_000,
            milliseconds: 1,
            nodes: 303,
            nodes_planned: 300,
            cost_per_hour: 105.0,
            lower_bound_per_hour: 100.0,
            kib_p95: 1,
            kib_max: 1,
            cpu_ms: 1,
            wall_ms: 1,
        }
    }

    type Change = fn(&mut Basic);

    #[test]
    fn bars_hold_within_their_limits_and_not_beyond() {
        let cases: [(Change, [bool; 4]); 8] = [
            (|_| (), [true; 4]),
            (|basic| basic.lone_claim_ms = 300, [false, true, true, true]),
            (|basic| basic.out.nodes = 304, [true, false, true, true]),
            (|basic| basic.out.pods = 999, [true, false, true, true]),
            (|basic| basic.back.cost_per_hour = 105.1, [true, true, false, true]),
            (|basic| basic.back.pods = 999, [true, true, false, true]),
            (|basic| basic.idle_kib = 24_415, [true, true, true, false]),
            (|basic| basic.idle_writes = 1, [true, true, true, false]),
        ];
        for (index, (change, expected)) in cases.into_iter().enumerate() {
            let mut basic = Basic {
                lone_claim_ms: 299,
                idle_secs: 1,
                idle_writes: 0,
                idle_kib: 24_414,
                idle_cpu_ms: 1,
                out: scaled(),
                back: scaled(),
            };
            change(&mut basic);
            let holds: Vec<bool> = basic.bars().iter().map(|bar| bar.holds).collect();
            assert_eq!(holds, expected, "{index}");
        }
        let large = |kib_max, claim_ms, pods, settled_kib| Large {
            nodes: 1,
            pods,
            first_claim_ms: 1,
            claim_ms,
            kib_max,
            settled_kib,
            settled_cpu_ms: 1,
            settled_ms: 1,
        };
        for (kib_max, claim_ms, expected) in
            [(292_968, 1_999, [true, true]), (292_969, 1_999, [false, true]), (1, 2_000, [true, false])]
        {
            let bars = large(kib_max, claim_ms, 1, 1).bars();
            let holds: Vec<bool> = bars.iter().map(|bar| bar.holds).collect();
            assert_eq!(holds, expected, "{kib_max} {claim_ms}");
        }
        for (settled_kib, expected) in [(50_000, true), (142_773, true), (142_774, false)] {
            let few = large(1, 1, 5_000, 50_000);
            let pods = Pods { many: large(1, 1, 100_000, settled_kib), few };
            assert_eq!(pods.bar().holds, expected, "{settled_kib}");
        }
    }
}
