//! Flags of Karpenter and of VPSie's autoscaler that mean nothing here. They are taken, so that their command lines go on
//! working, and named in the log.

use berth_api::duration::GoDuration;
use clap::Args;

#[derive(Args, Debug)]
#[command(next_help_heading = "Of Karpenter and VPSie's autoscaler, without effect here")]
pub(crate) struct Idle {
    /// How often everything was looked at: Berth looks at it all every 10 s, and lists anew what a watch has missed
    #[arg(long, env = "SYNC_PERIOD", value_name = "DURATION")]
    sync_period: Option<GoDuration>,

    /// Where errors were reported: Berth logs them, and reports to nobody
    #[arg(long, env = "SENTRY_DSN", value_name = "URL", hide_env_values = true)]
    sentry_dsn: Option<String>,

    /// As which environment
    #[arg(long, env = "SENTRY_ENVIRONMENT", value_name = "NAME")]
    sentry_environment: Option<String>,

    /// Which share of traces
    #[arg(long, env = "SENTRY_TRACES_SAMPLE_RATE", value_name = "SHARE")]
    sentry_traces_sample_rate: Option<f64>,

    /// Which share of errors
    #[arg(long, env = "SENTRY_ERROR_SAMPLE_RATE", value_name = "SHARE")]
    sentry_error_sample_rate: Option<f64>,

    /// By how many thousandths of a CPU Karpenter set how much it did at once: Berth plans on one thread
    #[arg(long, env = "CPU_REQUESTS", value_name = "NUMBER")]
    cpu_requests: Option<String>,

    /// By how many bytes its garbage collector was set: Berth has none
    #[arg(long, env = "MEMORY_LIMIT", value_name = "NUMBER", allow_hyphen_values = true)]
    memory_limit: Option<String>,

    /// Whether pods with resource claims are planned for as if they had none: Berth does so
    #[arg(long, env = "IGNORE_DRA_REQUESTS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    ignore_dra_requests: Option<bool>,

    /// Whether only who leads fills its caches: in Berth all replicas watch, so that any can lead at once
    #[arg(long, env = "DISABLE_CONTROLLER_WARMUP", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    disable_controller_warmup: Option<bool>,

    /// Whether the state of the cluster is not told in metrics: Berth tells it
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    disable_cluster_state_observability: Option<bool>,

    /// Whether its profiles are served: Berth serves none
    #[arg(long, env = "ENABLE_PROFILING", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    enable_profiling: Option<bool>,
}

impl Idle {
    /// Those that were given. Their values may be secrets.
    pub(crate) fn remarks(&self) -> Vec<String> {
        const UNREPORTED: &str = "errors are logged, and reported to nobody";
        let all = [
            (
                "--sync-period",
                self.sync_period.is_some(),
                "everything is looked at every 10 s, and listed anew where a watch has missed something",
            ),
            ("--sentry-dsn", self.sentry_dsn.is_some(), UNREPORTED),
            ("--sentry-environment", self.sentry_environment.is_some(), UNREPORTED),
            ("--sentry-traces-sample-rate", self.sentry_traces_sample_rate.is_some(), UNREPORTED),
            ("--sentry-error-sample-rate", self.sentry_error_sample_rate.is_some(), UNREPORTED),
            ("--cpu-requests", self.cpu_requests.is_some(), "plans are made on one thread"),
            ("--memory-limit", self.memory_limit.is_some(), "there is no garbage to be collected"),
            (
                "--ignore-dra-requests=false",
                self.ignore_dra_requests == Some(false),
                "resource claims of pods are not considered",
            ),
            (
                "--disable-controller-warmup",
                self.disable_controller_warmup.is_some(),
                "all replicas watch the cluster",
            ),
            (
                "--disable-cluster-state-observability",
                self.disable_cluster_state_observability == Some(true),
                "the cluster's state is always told",
            ),
            ("--enable-profiling", self.enable_profiling == Some(true), "no profiles are served"),
        ];
        let given = all.into_iter().filter(|(_, is_given, _)| *is_given);
        given.map(|(flag, _, why)| format!("{flag} has no effect: {why}")).collect()
    }
}
