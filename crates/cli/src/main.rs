//! The `berth` command: reads, asks the engines, prints. It decides nothing itself.

mod args;
mod commands;
mod out;
mod progress;
mod render;

use std::io;
use std::process::ExitCode;

use args::{CatalogCommand, Command, Explain, Unusable};
use commands::{Answer, Failure};

fn main() -> ExitCode {
    let line = match args::parse(std::env::args_os()) {
        Ok(line) => line,
        Err(Unusable::Line(error)) => error.exit(),
        Err(problem) => {
            out::problem(&format_args!("berth: {problem}"));
            return Answer::BadInput.into();
        }
    };
    let answer = match line.command {
        Command::Advise(advise) => commands::advise::run(&advise),
        Command::Explain(Explain::Pod(pod)) => commands::explain::pod(&pod),
        Command::Explain(Explain::Node(node)) => commands::explain::node(&node),
        Command::Catalog(CatalogCommand::List(list)) => commands::catalog::list(&list),
        Command::Catalog(CatalogCommand::Import(import)) => commands::catalog::import(&import),
        Command::Run(run) => commands::run::run(&run),
        Command::Demo(demo) => commands::demo::run(&demo),
        Command::World(world) => commands::world::run(&world),
        Command::Crds => commands::crds::run(),
        Command::Completions { shell } => commands::completions::run(shell),
    };
    match answer {
        Ok(answer) => answer.into(),
        // Whoever closed the pipe has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Answer::Done.into(),
        Err(failure) => {
            out::problem(&format_args!("berth: {failure}"));
            Answer::BadInput.into()
        }
    }
}
