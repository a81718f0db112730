//! `berth advise`

use berth_core::plan::Plan;
use berth_core::{check, disrupt, provision};

use super::input::{self, Judged};
use super::{Answer, Failure, write_file};
use crate::args::{Advise, Format};
use crate::render::{html, style::Style, table, tiles, view::View};
use crate::{out, progress};

pub(crate) fn run(advise: &Advise) -> Result<Answer, Failure> {
    let Some(judged) = input::read(&advise.input, advise.worth.policy())? else {
        return Ok(Answer::BadInput);
    };
    let removing = advise.consolidate && judged.may_remove();
    let (plan, violations) = progress::during("Planning", |_| {
        let plan = if removing { disrupt::plan } else { provision::plan }(&judged.snapshot, &judged.policy);
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
    show(advise, &judged, &plan, removing)?;
    Ok(if judged.incomplete {
        Answer::BadInput
    } else if advise.strict && !plan.unplaced.is_empty() {
        Answer::No
    } else {
        Answer::Done
    })
}

fn show(advise: &Advise, judged: &Judged, plan: &Plan, removing: bool) -> Result<(), Failure> {
    let Judged { snapshot, policy, skipped, .. } = judged;
    let view = || View::of(plan, snapshot, skipped, removing.then_some(&policy.disruption));
    if let Some(path) = &advise.html {
        write_file(path, &html::page(&view(), &tiles::picture(plan, snapshot))?)?;
    }
    match advise.output {
        Format::Table => out::text(&table::plan_text(&view(), Style::of_stdout())),
        Format::Json => out::json(&plan.document(snapshot, skipped)),
        Format::Yaml => out::yaml(&plan.document(snapshot, skipped)),
    }
}
