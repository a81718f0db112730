//! `berth advise`

use berth_core::plan::{Plan, Skipped};
use berth_core::snapshot::Snapshot;

use super::{Answer, Failure, write_file};
use crate::args::{Advise, Format};
use crate::out;
use crate::render::{html, style::Style, table, tiles, view::View};

pub(crate) fn run(advise: &Advise) -> Result<Answer, Failure> {
    let (snapshot, plan, skipped) = (Snapshot::default(), Plan::default(), vec![]);
    show(advise, &snapshot, &plan, &skipped)?;
    Ok(if advise.strict && !plan.unplaced.is_empty() { Answer::No } else { Answer::Done })
}

fn show(advise: &Advise, snapshot: &Snapshot, plan: &Plan, skipped: &[Skipped]) -> Result<(), Failure> {
    if let Some(path) = &advise.html {
        let view = View::of(plan, snapshot, skipped);
        write_file(path, &html::page(&view, &tiles::picture(plan, snapshot))?)?;
    }
    match advise.output {
        Format::Table => out::text(&table::plan_text(&View::of(plan, snapshot, skipped), Style::of_stdout())),
        Format::Json => out::json(&plan.document(snapshot, skipped)),
        Format::Yaml => out::yaml(&plan.document(snapshot, skipped)),
    }
}
