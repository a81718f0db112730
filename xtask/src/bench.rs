//! `cargo xtask bench`: how long plans take, how much memory, how good they are, and whether that is enough.

mod answer;
mod bar;
mod chart;
mod consolidate;
mod demo;
mod e2e;
mod form;
mod growth;
mod labels;
mod likeness;
mod machine;
mod peers;
mod planner;
mod program;
mod provision;
mod reading;
mod real;
mod report;
mod table;
mod vpsie;
mod world;

use clap::{Args, Subcommand};

use crate::step::{StepError, check};

const COMMAND: &str = "cargo xtask bench";

const HELP: &str = "\
Without a question and without --peer, all of them are measured, one after the other; Karpenter only where Go is \
installed. Each ends with its bars, promises with numbers, and fails if one is missed. They are for a machine \
that does nothing else.

Examples:
  cargo xtask bench --quick                     shows that everything works, and judges nothing
  cargo xtask bench provision                   plans for pods without a place
  cargo xtask bench consolidate                 clusters that have more nodes than they need
  cargo xtask bench world                       lives of clusters in the in-process world, and how like they are
  cargo xtask bench demo                        from the command to the picture
  cargo xtask bench e2e                         berth run on a real control plane, and on a large cluster
  cargo xtask bench vpsie                       berth run on a real control plane, with VPSie
  cargo xtask bench --peer karpenter            Karpenter beside Berth on the same files
  cargo xtask bench --peer karpenter --peer-version v1.14.1
                                                the same with one version
  cargo xtask bench --write                     also into docs/benchmarks.md and docs/charts";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = HELP)]
pub(crate) struct Bench {
    #[command(subcommand)]
    question: Option<Question>,
    #[command(flatten)]
    peers: peers::Options,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Plans for pods without a place: time, memory, nodes, cost, and how these grow
    Provision(provision::Options),
    /// Plans for clusters with too many nodes: time, memory, what is saved, what moves, and how these grow
    Consolidate(form::Form),
    /// Lives of whole clusters in the in-process world: time, memory, and how like each other and Kubernetes they are
    World(form::Form),
    /// berth demo: how long until there is something to look at
    Demo(form::Form),
    /// berth run on a real control plane and on a large cluster: time, nodes, cost, memory and processor time
    E2e(form::Form),
    /// berth run with VPSie over TLS: how soon machines are asked for, and how many
    Vpsie(form::Form),
}

pub(crate) fn run(bench: &Bench) -> Result<(), StepError> {
    match &bench.question {
        Some(Question::Provision(options)) => provision::run(options),
        Some(Question::Consolidate(form)) => consolidate::run(*form),
        Some(Question::World(form)) => world::run(*form),
        Some(Question::Demo(form)) => demo::run(*form),
        Some(Question::E2e(form)) => e2e::run(*form),
        Some(Question::Vpsie(form)) => vpsie::run(*form),
        None if bench.peers.names_a_peer() => peers::run(&bench.peers),
        None => all(&bench.peers),
    }
}

/// Every question is asked, even after one whose bars are missed.
fn all(options: &peers::Options) -> Result<(), StepError> {
    let provision = provision::Options { real_pods: options.real_pods.clone(), form: options.form };
    let asked = [
        provision::run(&provision),
        consolidate::run(options.form),
        world::run(options.form),
        demo::run(options.form),
        e2e::run(options.form),
        vpsie::run(options.form),
        peers::run(options),
    ];
    check("all benchmarks", COMMAND, || {
        Ok(asked.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect())
    })
}
