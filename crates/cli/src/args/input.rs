//! What is judged, and how: for every command that plans.

use std::collections::BTreeMap;
use std::path::PathBuf;

use berth_api::{Context, SchedulerConfig, Timestamp};
use berth_cloud::CatalogOptions;
use berth_core::catalog::OfferingPattern;
use berth_core::disruption::DisruptionPolicy;
use berth_core::names::{self, Text};
use berth_core::snapshot::{Effort, MinValuesPolicy, Policy, PreferencePolicy, SchedulerPolicy};
use berth_core::units::Price;
use berth_operator::Choice;
use clap::{ArgGroup, Args, ValueEnum};

use super::{dollars, offering_pattern};

/// Where manifests come from, and how they are judged.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").args(["paths", "cluster"]).required(true).multiple(true))]
pub(crate) struct Input {
    /// Manifests in YAML or JSON: files, directories, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,

    /// Judge what can be read although something else cannot; the exit code is still 2
    #[arg(long)]
    pub(crate) keep_going: bool,

    #[command(flatten)]
    pub(crate) catalog: CatalogChoice,

    #[command(flatten)]
    pub(crate) judging: Judging,

    /// The instant at which ages, schedules and durations are judged, such as 2026-01-31T08:00:00Z; the
    /// clock's if not given
    #[arg(long, value_name = "RFC3339")]
    pub(crate) now: Option<Timestamp>,
}

/// How plans are made.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// Whether preferred affinities and ScheduleAnyway spreads count
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, ignore_case = true)]
    pub(crate) preference_policy: Preferences,

    /// What happens where a pool's minValues cannot be met
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, ignore_case = true)]
    pub(crate) min_values_policy: MinValues,

    /// What the cluster's scheduler is configured to, in YAML: as Karpenter's flag of this name, which has
    /// `podTopologySpread: {defaultConstraints: [...]}` for pods that ask for no spread
    #[arg(long, value_name = "YAML", default_value = "", hide_default_value = true)]
    pub(crate) scheduler_config: SchedulerConfig,

    /// Offerings that cannot be had at the moment, with * for any; may be repeated
    #[arg(long, value_name = "TYPE:ZONE:CAPACITYTYPE", value_parser = offering_pattern)]
    pub(crate) unavailable: Vec<OfferingPattern>,

    /// Rounds of improvement after the quick answer, at most: 0 is the quick answer alone, many come close to
    /// the cheapest plan there is. The same number gives the same plan. If not given, what suits the size of
    /// the problem
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u64>,

    /// What each node costs an hour beyond its price, such as licences and agents, in pools without the
    /// annotation berth.dev/node-cost-per-hour
    #[arg(long, value_name = "USD", default_value = "0", value_parser = dollars)]
    pub(crate) node_cost: Price,
}

#[derive(Debug, Args)]
#[command(
    mut_arg("kubeconfig", |arg| arg.requires("cluster")),
    mut_arg("context", |arg| arg.requires("cluster")),
)]
pub(crate) struct ClusterChoice {
    /// Read the cluster that kubectl would ask, or the one that this runs in, and write nothing to it. Files are
    /// added to what it holds, and take the place of what has the same name there
    #[arg(long)]
    pub(crate) cluster: bool,

    #[command(flatten)]
    pub(crate) which: WhichCluster,
}

#[derive(Debug, Args)]
pub(crate) struct WhichCluster {
    /// The kubeconfig that names the cluster; KUBECONFIG or ~/.kube/config if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; its current one if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl WhichCluster {
    pub(crate) fn choice(&self) -> Choice {
        Choice { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}

impl ClusterChoice {
    pub(crate) fn choice(&self) -> Option<Choice> {
        self.cluster.then(|| self.which.choice())
    }
}

impl Input {
    pub(crate) fn context(&self) -> Context {
        Context { now: self.now.unwrap_or_else(Timestamp::now), node_cost: self.judging.node_cost }
    }
}

impl Judging {
    pub(crate) fn policy(&self, disruption: DisruptionPolicy) -> Policy {
        Policy {
            preferences: match self.preference_policy {
                Preferences::Respect => PreferencePolicy::Respect,
                Preferences::Ignore => PreferencePolicy::Ignore,
            },
            min_values: match self.min_values_policy {
                MinValues::Strict => MinValuesPolicy::Strict,
                MinValues::BestEffort => MinValuesPolicy::BestEffort,
            },
            unavailable: self.unavailable.clone(),
            unavailable_to: BTreeMap::new(),
            effort: Effort {
                rounds: self.rounds,
                threads: std::thread::available_parallelism().map_or(1, usize::from),
            },
            disruption,
            scheduler: SchedulerPolicy::Tried,
        }
    }
}

/// Which catalog, and what it says nothing about.
#[derive(Debug, Args)]
pub(crate) struct CatalogChoice {
    /// What can be bought: kwok, aws-us-east-1, or a file; if not given, what is built in for each pool's
    /// class
    #[arg(long, value_name = "NAME_OR_FILE")]
    pub(crate) catalog: Option<String>,

    #[command(flatten)]
    pub(crate) offers: Offers,
}

/// What a price list leaves open: where its types are offered, and what spot costs.
#[derive(Debug, Args)]
pub(crate) struct Offers {
    /// Zones in which types are offered: in place of those of a built-in catalog, or where a price list names
    /// none
    #[arg(long, value_name = "ZONE,...", value_delimiter = ',', value_parser = zone)]
    pub(crate) zones: Vec<String>,

    /// How much cheaper spot is than on-demand, in percent, where the catalog has no spot prices: such
    /// prices are marked as estimated. 60 if not given; 0 offers no spot
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(crate) spot_discount: Option<u8>,
}

fn zone(text: &str) -> Result<String, String> {
    match names::label_value_problem(text) {
        None if !text.is_empty() => Ok(text.to_owned()),
        Some(problem) => Err(problem.to_owned()),
        None => Err("a zone has a name, for example us-east-1a".to_owned()),
    }
}

impl Offers {
    pub(crate) fn options(&self) -> CatalogOptions {
        let assumed = CatalogOptions::default();
        CatalogOptions {
            zones: self.zones.iter().map(|zone| Text::from(zone.as_str())).collect(),
            spot_discount_percent: self.spot_discount.unwrap_or(assumed.spot_discount_percent),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preferences {
    /// As requirements, given up one by one where they cannot be met
    #[default]
    Respect,
    /// Not at all
    Ignore,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinValues {
    /// Nothing is bought
    #[default]
    Strict,
    /// It is bought all the same, and the plan says so
    #[value(alias = "BestEffort")]
    BestEffort,
}
