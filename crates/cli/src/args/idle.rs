//! Flags of VPSie's autoscaler that mean nothing here. They are taken, so that its command line goes on working, and
//! named in the log.

use berth_api::duration::GoDuration;
use clap::Args;

#[derive(Args, Debug)]
#[command(next_help_heading = "Of VPSie's autoscaler, without effect here")]
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
        ];
        let given = all.into_iter().filter(|(_, is_given, _)| *is_given);
        given.map(|(flag, _, why)| format!("{flag} has no effect: {why}")).collect()
    }
}
