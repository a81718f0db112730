//! `berth run`: where Karpenter has a setting of the same meaning, it has the same name, in flags and environment.

use std::path::PathBuf;
use std::str::FromStr;

use berth_api::duration::GoDuration;
use berth_operator::{Metrics, Mode, Settings, Whereabouts};
use clap::{ArgAction, Args, ValueEnum};

use super::input::{Judging, WhichCluster};
use super::listen::Listen;
use super::{Idle, Vpsie, Webhook, Worth};

#[derive(Debug, Args)]
#[command(after_help = "\
Settings come from flags, else from the environment, else from the file of --config, else they are as
above. The file is YAML; its keys are the flags' names without dashes in front: `metrics-port: 9090`.

Examples:
  berth run --shadow
      Beside another autoscaler: what Berth would do, and save. Writes nothing to the cluster.
  berth crds | kubectl apply --server-side -f - && berth run
      For real, with the cluster that kubectl would ask.
  berth run --config berth.yaml --log-format json
      As in a cluster; two replicas decide by a lease who of them leads.

Exit codes: 0 it was ended; 2 bad input or usage, or a cluster that Berth cannot work on.")]
#[command(
    mut_arg("kubeconfig", |arg| arg.env("BERTH_KUBECONFIG")),
    mut_arg("context", |arg| arg.env("BERTH_CONTEXT")),
    mut_arg("preference_policy", |arg| arg.env("PREFERENCE_POLICY")),
    mut_arg("min_values_policy", |arg| arg.env("MIN_VALUES_POLICY")),
    mut_arg("scheduler_config", |arg| arg.env("SCHEDULER_CONFIG")),
    mut_arg("unavailable", |arg| arg.env("BERTH_UNAVAILABLE").value_delimiter(',')),
    mut_arg("rounds", |arg| arg.env("BERTH_ROUNDS")),
    mut_arg("node_cost", |arg| arg.env("BERTH_NODE_COST")),
    mut_arg("min_saving", |arg| arg.env("BERTH_MIN_SAVING")),
    mut_arg("disruption_price", |arg| arg.env("BERTH_DISRUPTION_PRICE")),
    mut_arg("spot_types_min", |arg| arg.env("BERTH_SPOT_TYPES_MIN")),
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag by itself, and any may stand with any other"
)]
pub(crate) struct Run {
    /// Only read: say what would be done, and what that would have saved, at the end and every hour
    #[arg(long, env = "BERTH_SHADOW", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) shadow: bool,

    /// Manifests to judge by besides the cluster's, with --shadow: pools for a cluster that has none, as beside Cluster
    /// Autoscaler. Nodes that no pool has bought are judged as those of the heaviest pool that could have
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(crate) paths: Vec<PathBuf>,

    /// A file with settings
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: WhichCluster,

    /// The port of /metrics, or HOST:PORT; 0 for none
    #[arg(
        long,
        visible_alias = "metrics-addr",
        env = "METRICS_PORT",
        value_name = "PORT",
        default_value = "8080"
    )]
    pub(crate) metrics_port: Listen,

    /// The port of /healthz and /readyz, or HOST:PORT; 0 for none
    #[arg(
        long,
        visible_alias = "health-addr",
        env = "HEALTH_PROBE_PORT",
        value_name = "PORT",
        default_value = "8081"
    )]
    pub(crate) health_probe_port: Listen,

    /// The port of the page, or HOST:PORT; 0 for none. It asks nobody who they are: by default only this machine, or who
    /// may forward a port of its pod, sees it
    #[arg(long, env = "BERTH_PAGE_PORT", value_name = "PORT", default_value = "127.0.0.1:8082")]
    pub(crate) page_port: Listen,

    /// What is worth a line of the log
    #[arg(long, env = "LOG_LEVEL", value_enum, value_name = "LEVEL", default_value_t, ignore_case = true)]
    pub(crate) log_level: LogLevel,

    /// How the log is written
    #[arg(
        long,
        env = "BERTH_LOG_FORMAT",
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        ignore_case = true
    )]
    pub(crate) log_format: LogFormat,

    /// Log for people, at debug, whatever --log-level and --log-format say
    #[arg(long, env = "BERTH_DEVELOPMENT", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) development: bool,

    /// How many requests a second the API is asked at most, in the long run
    #[arg(long, env = "KUBE_CLIENT_QPS", value_name = "NUMBER", default_value_t = 200.0, value_parser = rate)]
    pub(crate) kube_client_qps: f64,

    /// How many at once, after a pause
    #[arg(long, env = "KUBE_CLIENT_BURST", value_name = "NUMBER", default_value_t = 300,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_client_burst: u32,

    /// Pods that come one after the other are planned for together, for so long at most
    #[arg(long, env = "BATCH_MAX_DURATION", value_name = "DURATION", default_value = "10s")]
    pub(crate) batch_max_duration: GoDuration,

    /// And until none has come for so long
    #[arg(long, env = "BATCH_IDLE_DURATION", value_name = "DURATION", default_value = "1s")]
    pub(crate) batch_idle_duration: GoDuration,

    #[command(flatten)]
    pub(crate) judging: Judging,

    #[command(flatten)]
    pub(crate) worth: Worth,

    /// Decide by a lease who of several replicas leads; `false` is the same as --disable-leader-election
    #[arg(long, env = "LEADER_ELECTION", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) leader_election: bool,

    /// Lead without asking others; for a single replica that is never replaced by another while it runs
    #[arg(long, env = "DISABLE_LEADER_ELECTION", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) disable_leader_election: bool,

    /// The lease by which replicas know who leads
    #[arg(
        long,
        visible_alias = "leader-election-id",
        env = "LEADER_ELECTION_NAME",
        value_name = "NAME",
        default_value = "berth"
    )]
    pub(crate) leader_election_name: String,

    /// Its namespace; the one that this runs in if not given, or kube-system outside of clusters
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", value_name = "NAME")]
    pub(crate) leader_election_namespace: Option<String>,

    /// Karpenter's feature gates. None is needed: what they turn on, Berth has. NodeRepair=false leaves unhealthy nodes
    /// alone; others that ask for something else are named in the log
    #[arg(
        long,
        env = "FEATURE_GATES",
        value_name = "GATE=BOOL,...",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) feature_gates: FeatureGates,

    #[command(flatten)]
    pub(crate) vpsie: Vpsie,

    #[command(flatten)]
    pub(crate) webhook: Webhook,

    #[command(flatten)]
    pub(crate) idle: Idle,
}

impl Run {
    /// What was asked for and is not so.
    pub(crate) fn remarks(&self) -> Vec<String> {
        self.feature_gates.remarks().iter().cloned().chain(self.idle.remarks()).collect()
    }

    /// Whether a lease decides who leads.
    pub(crate) fn elects_leader(&self) -> bool {
        self.leader_election && !self.disable_leader_election
    }

    /// What is logged, and how.
    pub(crate) fn log(&self) -> (LogLevel, LogFormat) {
        if self.development {
            (LogLevel::Debug, LogFormat::Console)
        } else {
            (self.log_level, self.log_format)
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        if self.shadow { Mode::Shadow } else { Mode::Act }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            mode: self.mode(),
            batch_idle: self.batch_idle_duration.as_std(),
            batch_max: self.batch_max_duration.as_std(),
            policy: self.judging.policy(self.worth.policy()),
            node_cost: self.judging.node_cost,
            repairs: self.feature_gates.repairs,
            failed_vpsie_nodes: self.vpsie.failures(),
            group_defaults: self.vpsie.group_defaults(),
            whereabouts: Whereabouts::default(),
            scheduler: self.judging.scheduler_config.clone(),
            given: Vec::new(),
            rivals: None,
            metrics: Metrics::default(),
        }
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 1.0);
    rate.ok_or("write a number of at least 1, such as 200")
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// What went wrong
    Error,
    /// What looks wrong
    Warn,
    /// What was decided and done
    #[default]
    Info,
    /// How it came to that
    Debug,
    /// Everything
    Trace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people
    #[default]
    Console,
    /// An object for programs
    Json,
}

/// The one of Karpenter's gates that can be closed.
const NODE_REPAIR: &str = "NodeRepair";

/// The others, and what is so in Berth whatever they say.
const GATES: [(&str, bool, &str); 5] = [
    ("ReservedCapacity", true, "reserved capacity is always used where a class names it"),
    (
        "SpotToSpotConsolidation",
        true,
        "spot nodes are always replaced where --spot-types-min types are left to choose from",
    ),
    ("NodeOverlay", true, "NodeOverlays always count"),
    ("StaticCapacity", true, "a pool's replicas always count"),
    ("CapacityBuffer", true, "CapacityBuffers always count"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// Whether nodes that stay unhealthy are replaced.
    repairs: bool,
    /// What was asked for and is not so.
    remarks: Vec<String>,
}

impl FeatureGates {
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self { repairs: true, remarks: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part}: write {part}=true or {part}=false"))?;
            let wanted: bool =
                value.trim().parse().map_err(|_| format!("{part}: write {name}=true or {name}=false"))?;
            if name.trim().eq_ignore_ascii_case(NODE_REPAIR) {
                gates.repairs = wanted;
                continue;
            }
            let gate = GATES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name.trim()));
            let Some((known, is_so, why)) = gate else {
                let others = GATES.iter().map(|(name, ..)| *name);
                let names: Vec<&str> = [NODE_REPAIR].into_iter().chain(others).collect();
                return Err(format!("there is no gate {name}; there are {}", names.join(", ")));
            };
            if wanted != *is_so {
                gates.remarks.push(format!("{known}={wanted} has no effect: {why}"));
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates() {
        for (text, expected) in [
            ("", Ok(vec![])),
            ("NodeRepair=true, NodeOverlay=true", Ok(vec![])),
            ("NodeRepair=false", Ok(vec![])),
            ("NodeOverlay=false", Ok(vec!["NodeOverlay=false has no effect: NodeOverlays always count"])),
            (
                "CapacityBuffer=false",
                Ok(vec!["CapacityBuffer=false has no effect: CapacityBuffers always count"]),
            ),
            (
                "Drift=true",
                Err(
                    "there is no gate Drift; there are NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer",
                ),
            ),
            ("NodeRepair", Err("NodeRepair: write NodeRepair=true or NodeRepair=false")),
            ("NodeRepair=on", Err("NodeRepair=on: write NodeRepair=true or NodeRepair=false")),
        ] {
            let gates = text.parse::<FeatureGates>();
            let remarks =
                gates.as_ref().map(|gates| gates.remarks().iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(remarks.map_err(String::as_str), expected, "{text}");
        }
    }
}
