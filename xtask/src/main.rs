//! Berth's chores. `cargo xtask test` is what a change has to pass.

mod bench;
mod control_plane;
mod fuzz;
mod generate;
mod helm;
mod licence;
mod messages;
mod metadata;
mod oracle;
mod peer;
mod policy;
mod step;
mod suite;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Berth's chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Everything a change has to pass: format, lints, tests, generated files, layers, licences
    Test,
    /// Rewrites the files that are generated: custom resources, the tables of the docs
    Generate,
    /// Runs the fuzz targets for a short while each
    Fuzz(fuzz::Options),
    /// Compares Berth's rules with kube-scheduler's own filters on random clusters
    Oracle(oracle::Options),
    /// A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler, KWOK
    ControlPlane(control_plane::Options),
    /// Measures, and says whether it is good enough
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Test => suite::run(),
        Chore::Generate => generate::write_all(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Oracle(options) => oracle::run(&options),
        Chore::ControlPlane(options) => control_plane::run(&options),
        Chore::Bench(bench) => bench::run(&bench),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{error}");
            ExitCode::FAILURE
        }
    }
}
