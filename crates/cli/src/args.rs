//! What can be said on the command line. Each flag is defined here, once; its help is its documentation.

mod file;
mod idle;
mod input;
mod listen;
mod run;
mod vpsie;
mod webhook;
mod world;

use std::net::IpAddr;
use std::path::PathBuf;

use berth_cloud::filter::Filter;
use berth_core::catalog::{CapacityType, OfferingPattern};
use berth_core::disruption::{DisruptionPolicy, SavingMin};
use berth_core::names::Text;
use berth_core::units::{Price, PriceError};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use file::{Unusable, parse};
pub(crate) use idle::Idle;
pub(crate) use input::{CatalogChoice, Input, Offers};
pub(crate) use listen::Listen;
pub(crate) use run::{LogFormat, LogLevel, Run};
pub(crate) use vpsie::Vpsie;
pub(crate) use webhook::Webhook;
pub(crate) use world::World;

/// Finds every pod of a Kubernetes cluster a place, at the lowest price.
#[derive(Debug, Parser)]
#[command(
    name = "berth",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  berth demo                                        All of it at once, with nothing installed
  berth advise -f examples/shop/                    What to buy for these manifests, and why
  berth advise --cluster --consolidate              What to take away, and what that saves
  berth explain pod shop/api-7d9c --cluster         Why this pod is pending
  berth explain node ip-10-0-1-7 --cluster          Why this node is still here
  berth catalog list --filter 'cpu>=8,arch=arm64'   What there is to buy
  berth run --shadow                                What Berth would do here, and save; only reads
  berth world                                       A Kubernetes to try things in

Exit codes: 0 done; 1 it ran, and the answer is no; 2 bad input or usage."
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say which nodes to buy for the pods that have no place, and why
    Advise(Advise),
    /// Say why something is as it is
    #[command(subcommand)]
    Explain(Explain),
    /// Show and import instance types and their prices
    #[command(subcommand, arg_required_else_help = true)]
    Catalog(CatalogCommand),
    /// Own a cluster's capacity: buy nodes for pods that wait, and take away what is not needed
    Run(Box<Run>),
    /// Show the whole product, with nothing installed: a cluster in this process, and a page to look at it
    Demo(Demo),
    /// Run a Kubernetes in this process, for kubectl and for tests of controllers
    World(World),
    /// Print the custom resource definitions as YAML
    #[command(after_help = "Examples:\n  berth crds | kubectl apply --server-side -f -")]
    Crds,
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  source <(berth completions bash)
  berth completions zsh > ~/.zfunc/_berth
  berth completions fish > ~/.config/fish/completions/berth.fish")]
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  berth advise -f examples/shop/
      A directory, a file, several -f, or - for standard input.
  berth advise --cluster
      A plan for what runs now. Nothing is written to the cluster.
  berth advise --cluster -f more.yaml -o json
      The same if it held these, too, or in place of those of the same names; for programs.
  berth advise -f cluster/ --catalog aws-us-east-1 --html plan.html
      With a page to look at: which nodes, how full, at what price.
  berth advise -f cluster/ --strict --unavailable '*:us-east-1a:spot'
      Fails with exit code 1 if a pod finds no place while a zone has no spot capacity.
  berth advise -f cluster/ --consolidate --min-saving 10%
      Also what to take away: step by step, with the money saved and the pods moved.

Exit codes: 0 done; 1 pods left out, with --strict; 2 bad input or usage.")]
#[command(
    mut_arg("min_saving", |arg| arg.requires("consolidate")),
    mut_arg("disruption_price", |arg| arg.requires("consolidate")),
    mut_arg("spot_types_min", |arg| arg.requires("consolidate")),
)]
pub(crate) struct Advise {
    #[command(flatten)]
    pub(crate) input: Input,

    /// How to print the plan
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Format,

    /// Also write the plan as a self-contained page with a picture of the nodes
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Exit with 1 if a pod is left without a place
    #[arg(long)]
    pub(crate) strict: bool,

    /// Also say which nodes to take away, replace, merge or split to save money, and those that are
    /// drifted, expired or broken
    #[arg(long)]
    pub(crate) consolidate: bool,

    #[command(flatten)]
    pub(crate) worth: Worth,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Explain {
    /// Why a pod is pending: per pool, per rule, and what would have to change
    Pod(ExplainPod),
    /// Why a node is still here, rule by rule; or what taking it away would save and move
    Node(ExplainNode),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  berth explain pod shop/api-7d9c -f cluster/
  berth explain pod shop/api-7d9c --cluster")]
pub(crate) struct ExplainPod {
    /// Which pod
    #[arg(value_name = "NAMESPACE/NAME", value_parser = pod_name)]
    pub(crate) pod: PodName,

    #[command(flatten)]
    pub(crate) input: Input,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  berth explain node ip-10-0-1-7 -f cluster/
  berth explain node ip-10-0-1-7 --cluster")]
pub(crate) struct ExplainNode {
    /// Which node
    #[arg(value_name = "NAME", value_parser = node_name)]
    pub(crate) node: Text,

    #[command(flatten)]
    pub(crate) input: Input,

    #[command(flatten)]
    pub(crate) worth: Worth,
}

/// What taking a node away has to be worth.
#[derive(Debug, Args)]
pub(crate) struct Worth {
    /// What a step must save at least: a part of what its nodes cost, such as 10%, or dollars an hour;
    /// 3% if not given
    #[arg(long, value_name = "PERCENT_OR_USD", value_parser = saving_min)]
    pub(crate) min_saving: Option<SavingMin>,

    /// What each unit of disruption must save an hour: a node counts one, a pod about one, more with a
    /// high priority or deletion cost; 0.0001 if not given
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) disruption_price: Option<Price>,

    /// How many instance types a spot node that replaces a spot node must have to choose from; 15 if not
    /// given
    #[arg(long, value_name = "COUNT")]
    pub(crate) spot_types_min: Option<u32>,
}

impl Worth {
    pub(crate) fn policy(&self) -> DisruptionPolicy {
        let assumed = DisruptionPolicy::default();
        DisruptionPolicy {
            price: self.disruption_price.unwrap_or(assumed.price),
            saving_min: self.min_saving.unwrap_or(assumed.saving_min),
            spot_types_min: self.spot_types_min.unwrap_or(assumed.spot_types_min),
        }
    }
}

fn saving_min(text: &str) -> Result<SavingMin, String> {
    const FORM: &str = "write a percentage from 0% to 100%, or dollars an hour such as 0.05";
    let saving = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(SavingMin::Percent),
        None => text.parse().ok().map(SavingMin::Amount),
    };
    saving.ok_or_else(|| FORM.to_owned())
}

fn node_name(text: &str) -> Result<Text, &'static str> {
    if is_plain(text) {
        Ok(text.into())
    } else {
        Err("a node is named without a namespace, such as ip-10-0-1-7")
    }
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Built in:
  kwok            144 types in four zones, made by formula; needs no cloud
  aws-us-east-1   Amazon's types at their on-demand prices; spot is estimated

Examples:
  berth catalog list --filter 'cpu>=8,arch=arm64'
  berth catalog import prices.json -o catalog.json")]
pub(crate) enum CatalogCommand {
    /// Show the instance types of a catalog
    List(CatalogList),
    /// Read a price list and write it as a catalog of Berth's
    Import(CatalogImport),
}

#[derive(Debug, Args)]
#[command(after_help = "\
A filter is a list of conditions that must all hold. Each is a name, one of = != < <= > >=, and a value:
  cpu, memory, pods, gpu                           a quantity such as 8, 500m or 64Gi
  price                                            dollars an hour
  name, family, arch, os, zone, capacity-type      text, in which * stands for anything; = and != only
  a label or resource with a slash in its name     text with = and !=, a whole number with the others

Examples:
  berth catalog list --filter 'cpu>=8,memory<=64Gi,arch=arm64'
  berth catalog list --catalog aws-us-east-1 --filter 'nvidia.com/gpu>=1,price<2' -o json")]
pub(crate) struct CatalogList {
    /// Which catalog: kwok, aws-us-east-1, or a file
    #[arg(long, value_name = "NAME_OR_FILE", default_value = "kwok")]
    pub(crate) catalog: String,

    #[command(flatten)]
    pub(crate) offers: Offers,

    /// Only the types and offerings for which all conditions hold
    #[arg(long, value_name = "EXPR", default_value = "", hide_default_value = true)]
    pub(crate) filter: Filter,

    /// How to print the catalog
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Reads the instance_types.json of Karpenter's KWOK provider, Gardener's price list, VPSie's offers, and CSV.

Examples:
  berth catalog import instance_types.json > catalog.json
  berth catalog import prices.csv --zones a,b,c --spot-discount 60 -o catalog.json
  berth advise -f cluster/ --catalog catalog.json")]
pub(crate) struct CatalogImport {
    /// The price list
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: String,

    /// Where to write the catalog; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) offers: Offers,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A cluster that exists only in this process, with a cloud that sells machines for it, and a shop that
runs there: it grows and shrinks as its day goes by, and a day takes ten minutes. Berth buys the
nodes, fills them, and gives them back. The page shows it all, with every decision and its reason,
and lets you take a hand: scale a workload, reclaim spot machines, change the price of spot, break
the cloud, run time faster. It costs nothing, needs no network, and leaves nothing behind.

A workload that you scale is yours from then on; the day goes on with the others.

Examples:
  berth demo
      Prints where the page is, and what kubectl needs.
  berth demo --port 0
      On any free port.
  berth demo --cloud vpsie
      The same shop on NodeGroups, against a VPSie in this process.
  kubectl --kubeconfig ... scale deployment/web --replicas 40
      In another shell, with the path that it prints: real kubectl works.
  kubectl --kubeconfig ... get nodeclaims -w

Exit codes: 0 it was ended; 2 bad input or usage.")]
pub(crate) struct Demo {
    /// The port of the page; 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub(crate) port: u16,

    /// The address of the page. Whoever reaches it can do all that you can
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) listen: IpAddr,

    /// The port of the cluster's API, on 127.0.0.1; a free one if not given
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) api_port: u16,

    /// Where to write the kubeconfig; if not given, in a directory of its own among the system's temporary files
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// What identities and generated names are drawn from
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,

    /// From whom its nodes are bought
    #[arg(long, value_enum, value_name = "CLOUD", default_value_t)]
    pub(crate) cloud: DemoCloud,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoCloud {
    /// NodePools, and the simulated cloud of KWOKNodeClass
    #[default]
    Kwok,
    /// NodeGroups, and a VPSie in this process
    Vpsie,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

fn dollars(text: &str) -> Result<Price, PriceError> {
    text.parse()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    pub(crate) namespace: Text,
    pub(crate) name: Text,
}

fn pod_name(text: &str) -> Result<PodName, &'static str> {
    let namespace_and_name =
        text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && is_plain(name));
    let (namespace, name) =
        namespace_and_name.ok_or("a pod is named NAMESPACE/NAME, such as default/web-0")?;
    Ok(PodName { namespace: namespace.into(), name: name.into() })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

pub(crate) fn offering_pattern(text: &str) -> Result<OfferingPattern, String> {
    const FORM: &str =
        "offerings are named TYPE:ZONE:CAPACITYTYPE, such as m5.large:us-east-1a:spot or *:*:spot";
    let parts: Vec<&str> = text.split(':').collect();
    let [instance_type, zone, capacity_type] = parts[..] else { return Err(FORM.to_owned()) };
    if parts.iter().any(|part| part.is_empty()) {
        return Err(FORM.to_owned());
    }
    let named = |part: &str| (part != "*").then(|| Text::from(part));
    Ok(OfferingPattern {
        instance_type: named(instance_type),
        zone: named(zone),
        capacity_type: match capacity_type {
            "*" => None,
            name => {
                Some(CapacityType::parse(name).ok_or_else(|| {
                    format!("{name} is not a capacity type; they are {}", CapacityType::NAMES)
                })?)
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use berth_cloud::CatalogOptions;
    use berth_core::snapshot::{Effort, MinValuesPolicy, Policy, PreferencePolicy, SchedulerPolicy};
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        CommandLine::try_parse_from(line.split_whitespace()).map(|line| line.command)
    }

    #[test]
    fn definitions_are_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn lines_that_are_understood() {
        for line in [
            "berth advise -f a.yaml",
            "berth advise -f a.yaml -f b/ -f -",
            "berth advise -f a.yaml b.yaml -o json",
            "berth advise -f a --catalog aws-us-east-1 --zones a,b --spot-discount 60 -o yaml --html x.html",
            "berth advise -f a --strict --keep-going --preference-policy ignore --min-values-policy best-effort",
            "berth advise -f a --unavailable *:zone-a:spot --unavailable m5.large:*:*",
            "berth advise -f a --now 2026-01-31T08:00:00Z --node-cost 0.05",
            "berth advise -f a --now 2026-01-31T08:00:00+02:00",
            "berth advise -f a --consolidate",
            "berth advise -f a --consolidate --min-saving 10% --disruption-price 0.001 --spot-types-min 5",
            "berth advise --cluster",
            "berth advise --cluster --kubeconfig a --context b -f more.yaml",
            "berth explain pod shop/api -f cluster/",
            "berth explain pod shop/api --cluster",
            "berth explain node ip-10-0-1-7 -f cluster/ --now 2026-01-31T08:00:00Z --min-saving 0.05",
            "berth catalog list",
            "berth catalog list --catalog kwok --filter cpu>=8,arch=arm64 -o json",
            "berth catalog import prices.json -o catalog.json",
            "berth run",
            // As VPSie's own autoscaler is called.
            "berth run --kubeconfig k --metrics-addr :8080 --health-addr :8081 --leader-election=true \
             --leader-election-id vpsie-autoscaler-leader --leader-election-namespace kube-system --sync-period 10m \
             --vpsie-secret-name vpsie-secret --vpsie-secret-namespace kube-system --default-datacenter-id dc-1 \
             --default-offering-ids small,big --kube-size-id 2 --resource-identifier c-1 --kubernetes-version v1.34.0 --log-level info --log-format json --development=false \
             --failed-vpsienode-ttl 30m --enable-webhook --webhook-addr :9443 --webhook-cert-dir /var/run/webhook-certs \
             --webhook-cert-file tls.crt --webhook-key-file tls.key --sentry-dsn https://k@sentry.example.com/1 \
             --sentry-environment prod --sentry-traces-sample-rate 0.1 --sentry-error-sample-rate 1.0",
            "berth run --vpsie-secret-name keys --failed-vpsienode-ttl 0",
            "berth demo",
            "berth demo --cloud vpsie --port 0",
            "berth demo --port 0 --listen 0.0.0.0 --api-port 6443 --kubeconfig k --seed 7",
            "berth world",
            "berth world --port 6443 --kubeconfig k --seed 7 -f a b/ -f -",
            "berth world --nodes 0 --machine *:*:spot --machine a:*:* --catalog c --zones a --weather {}",
            "berth crds",
            "berth completions zsh",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn lines_that_are_refused() {
        for (line, kind) in [
            ("berth", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("berth catalog", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("berth advise", ErrorKind::MissingRequiredArgument),
            ("berth advise -f", ErrorKind::InvalidValue),
            ("berth advise -f a -o xml", ErrorKind::InvalidValue),
            ("berth advise -f a --spot-discount 100", ErrorKind::ValueValidation),
            ("berth advise -f a --spot-discount ten", ErrorKind::ValueValidation),
            ("berth advise -f a --unavailable m5.large", ErrorKind::ValueValidation),
            ("berth advise -f a --unavailable a::spot", ErrorKind::ValueValidation),
            ("berth advise -f a --unavailable a:b:cheap", ErrorKind::ValueValidation),
            ("berth advise -f a --now yesterday", ErrorKind::ValueValidation),
            ("berth advise -f a --now 2026-01-31", ErrorKind::ValueValidation),
            ("berth advise -f a --node-cost lots", ErrorKind::ValueValidation),
            ("berth advise -f a --node-cost=-1", ErrorKind::ValueValidation),
            ("berth advise -f a --min-saving 10%", ErrorKind::MissingRequiredArgument),
            ("berth advise -f a --disruption-price 1", ErrorKind::MissingRequiredArgument),
            ("berth advise -f a --spot-types-min 1", ErrorKind::MissingRequiredArgument),
            ("berth advise -f a --consolidate --min-saving 110%", ErrorKind::ValueValidation),
            ("berth advise -f a --consolidate --min-saving much", ErrorKind::ValueValidation),
            ("berth advise -f a --consolidate --spot-types-min few", ErrorKind::ValueValidation),
            ("berth explain node -f a", ErrorKind::MissingRequiredArgument),
            ("berth explain node a/b -f a", ErrorKind::ValueValidation),
            ("berth explain pod web-0 -f a", ErrorKind::ValueValidation),
            ("berth explain pod a/b/c -f a", ErrorKind::ValueValidation),
            ("berth catalog list --filter cpu", ErrorKind::ValueValidation),
            ("berth run --metrics-addr http://a", ErrorKind::ValueValidation),
            ("berth run --metrics-port 1 --metrics-addr :2", ErrorKind::ArgumentConflict),
            ("berth run --webhook-addr here", ErrorKind::ValueValidation),
            ("berth run --kubernetes-version 1.34.0", ErrorKind::ValueValidation),
            ("berth demo --listen localhost", ErrorKind::ValueValidation),
            ("berth demo --port http", ErrorKind::ValueValidation),
            ("berth world --port 65536", ErrorKind::ValueValidation),
            ("berth world --seed=-1", ErrorKind::ValueValidation),
            ("berth world --machine s-8x", ErrorKind::ValueValidation),
            ("berth reasons", ErrorKind::InvalidSubcommand),
        ] {
            assert_eq!(parse(line).map_err(|e| e.kind()).err(), Some(kind), "{line}");
        }
    }

    #[test]
    fn the_help_lists_every_catalog_that_is_built_in() {
        let mut command = CommandLine::command();
        let help = command.find_subcommand_mut("catalog").expect("it exists").render_help().to_string();
        for name in berth_cloud::builtin_names() {
            assert!(help.contains(name), "{name} is not in {help}");
        }
    }

    #[test]
    fn flags_of_vpsies_autoscaler_mean_what_they_meant() {
        for (line, elects, log, remarks) in [
            ("", true, (LogLevel::Info, LogFormat::Console), vec![]),
            ("--leader-election=false", false, (LogLevel::Info, LogFormat::Console), vec![]),
            ("--disable-leader-election", false, (LogLevel::Info, LogFormat::Console), vec![]),
            ("--log-format json", true, (LogLevel::Info, LogFormat::Json), vec![]),
            ("--log-format json --development", true, (LogLevel::Debug, LogFormat::Console), vec![]),
            (
                "--sync-period 10m --sentry-dsn https://secret@sentry.example.com/1 --feature-gates NodeOverlay=false",
                true,
                (LogLevel::Info, LogFormat::Console),
                vec![
                    "NodeOverlay=false has no effect: NodeOverlays always count",
                    "--sync-period has no effect: everything is looked at every 10 s, and listed anew where a watch has \
                     missed something",
                    "--sentry-dsn has no effect: errors are logged, and reported to nobody",
                ],
            ),
        ] {
            let Ok(Command::Run(run)) = parse(&format!("berth run {line}")) else { panic!("{line} is run") };
            assert_eq!((run.elects_leader(), run.log()), (elects, log), "{line}");
            assert_eq!(run.remarks(), remarks, "{line}");
        }
        let line = "berth run --metrics-addr :9000 --health-addr 127.0.0.1:9001 --leader-election-id other";
        let Ok(Command::Run(run)) = parse(line) else { panic!("{line} is run") };
        assert_eq!(run.metrics_port.to_string(), "port 9000");
        assert_eq!(run.health_probe_port.to_string(), "127.0.0.1:9001");
        assert_eq!(run.leader_election_name, "other");
        assert!(!run.webhook.enabled);
        assert_eq!(run.webhook.listen.to_string(), "port 9443");
        assert_eq!(run.webhook.files().key, PathBuf::from("/var/run/webhook-certs/tls.key"));
    }

    #[test]
    fn flags_become_policy() {
        let line = "berth advise -f a --preference-policy ignore --min-values-policy best-effort --unavailable *:b:spot \
                    --consolidate --min-saving 7% --disruption-price 0.002 --spot-types-min 3 --rounds 7";
        let Ok(Command::Advise(advise)) = parse(line) else { panic!("{line} is advise") };
        let expected = Policy {
            preferences: PreferencePolicy::Ignore,
            min_values: MinValuesPolicy::BestEffort,
            unavailable: vec![OfferingPattern {
                instance_type: None,
                zone: Some("b".into()),
                capacity_type: Some(CapacityType::Spot),
            }],
            unavailable_to: std::collections::BTreeMap::new(),
            effort: Effort { rounds: Some(7), ..advise.input.judging.policy(advise.worth.policy()).effort },
            scheduler: SchedulerPolicy::Tried,
            disruption: DisruptionPolicy {
                price: Price::from_micro_usd(2000),
                saving_min: SavingMin::Percent(7),
                spot_types_min: 3,
            },
        };
        assert_eq!(advise.input.judging.policy(advise.worth.policy()), expected);
        assert_eq!(advise.input.catalog.offers.options(), CatalogOptions::default());
        assert_eq!(advise.output, Format::Table);
    }
}
