//! `berth advise`

use berth_core::plan::Plan;
use berth_core::{check, provision};

use super::input::{self, Judged};
use super::{Answer, Failure, write_file};
use crate::args::{Advise, Format};
use crate::render::{html, style::Style, table, tiles, view::View};
use crate::{out, progress};

pub(crate) fn run(advise: &Advise) -> Result<Answer, Failure> {
    let Some(judged) = input::read(&advise.input)? else { return Ok(Answer::BadInput) };
    let (plan, violations) = progress::during("Planning", |_| {
        let plan = provision::plan(&judged.snapshot, &judged.policy);
        let violations = check::check(&judged.snapshot, &judged.policy, &plan);
        (plan, violations)
    });
    if !violations.is_empty() {
        for violation in &violations {
            out::problem(violation);
        }
        out::problem(&"berth: the plan breaks these rules, which is a mistake of Berth's; it is not shown");
        return Ok(Answer::No);
    }
    show(advise, &judged, &plan)?;
    Ok(if judged.incomplete {
        Answer::BadInput
    } else if advise.strict && !plan.unplaced.is_empty() {
        Answer::No
    } else {
        Answer::Done
    })
}

fn show(advise: &Advise, judged: &Judged, plan: &Plan) -> Result<(), Failure> {
    let Judged { snapshot, skipped, .. } = judged;
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
