//! Admission at the point where it belongs: plugins and webhooks, before a write is checked and before it is done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::bodies::resource_of;
use super::{Api, State};
use crate::admission::{self, Matter, Operation};
use crate::defaults;
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::patch;
use crate::request::{Place, Query};
use crate::webhook::{self, Hearing, Hook, Inquiry, Phase, Question, Response, Review, Target};

/// What came of a request, and what people should know.
type Told<T> = (Result<T, Failure>, Vec<String>);

/// How long a request waits for an account before it looks again.
const ACCOUNT_AGAIN: Duration = Duration::from_millis(150);

impl Api {
    /// Performs something under the lock, and asks webhooks without it, for as long as there is something to ask.
    pub(super) async fn hear<T>(
        &self,
        mut hearing: Hearing,
        mut perform: impl FnMut(&mut State) -> Result<T, Failure>,
    ) -> Told<T> {
        loop {
            let (result, question);
            (result, question, hearing) = self.state().under(hearing, &mut perform);
            match question {
                None => return (result, hearing.warnings),
                Some(Question::Account) => sleep(ACCOUNT_AGAIN).await,
                Some(Question::Webhook(inquiry)) => {
                    let said = webhook::ask(&inquiry).await;
                    hearing.hear(inquiry, said);
                }
            }
        }
    }
}

impl State {
    /// Whether whatever is done is done at the first try.
    pub(super) fn asks_nobody(&self) -> bool {
        [Phase::Mutating, Phase::Validating]
            .iter()
            .all(|phase| self.store.keys(phase.configurations(), None).next().is_none())
    }

    /// Performs what cannot be tried again.
    pub(super) fn perform_once<T>(
        &mut self,
        hearing: Hearing,
        perform: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut perform = Some(perform);
        let mut once =
            |state: &mut Self| perform.take().map_or_else(|| Err(waiting()), |perform| perform(state));
        self.under(hearing, &mut once).0
    }

    fn under<T>(
        &mut self,
        mut hearing: Hearing,
        perform: &mut impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> (Result<T, Failure>, Option<Question>, Hearing) {
        hearing.restart();
        hearing.at.get_or_insert_with(|| self.clock.now());
        let before = self.lots.clone();
        if let Some(own) = &hearing.lots {
            self.lots = own.clone();
        }
        let had_to_wait = hearing.lots.is_some();
        self.hearing = hearing;
        let result = perform(self);
        let mut hearing = std::mem::replace(&mut self.hearing, Hearing::none());
        let question = hearing.take_question();
        match (&question, had_to_wait) {
            (None, false) => {}
            // Its lots are its own from here on, and nobody else draws the same.
            (Some(_), false) => {
                self.lots = before.clone();
                self.lots.part();
                hearing.lots = Some(before);
            }
            (_, true) => self.lots = before,
        }
        (result, question, hearing)
    }

    /// Lets plugins and webhooks change what is to be written. Whether it has changed.
    pub(super) fn admit(
        &mut self,
        matter: &Matter<'_>,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<bool, Failure> {
        if self.hearing.is_settled {
            return Ok(false);
        }
        if admission::lacks_account(&self.store, matter, object) && self.hearing.waits() {
            return Err(waiting());
        }
        let is_changed = admission::admit(&self.store, &mut self.lots, matter, old, object)?;
        Ok(self.consult_mutating(matter, old, object)? || is_changed)
    }

    /// Webhooks that have been asked are asked again if somebody after them, or a plugin, changes the object, and
    /// they want that; once. Whether anything has changed.
    fn consult_mutating(
        &mut self,
        matter: &Matter<'_>,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<bool, Failure> {
        let hooks = self.hooks(matter, Phase::Mutating);
        let (mut asked, mut again, mut changed_any) = (BTreeSet::new(), BTreeSet::new(), false);
        for (index, hook) in hooks.iter().enumerate() {
            let Some(changed) = self.mutate(hook, matter, old, object)? else { continue };
            if changed {
                again.append(&mut asked);
                changed_any = true;
            }
            if hook.is_asked_again() {
                asked.insert(index);
            }
        }
        if !changed_any {
            return Ok(false);
        }
        if admission::admit(&self.store, &mut self.lots, matter, old, object)? {
            again.append(&mut asked);
        }
        for (index, hook) in hooks.iter().enumerate() {
            if again.contains(&index) && self.mutate(hook, matter, old, object)? == Some(true) {
                again.append(&mut asked);
            }
        }
        Ok(true)
    }

    /// `None` if the webhook is not asked about this, or cannot be and that does not matter.
    fn mutate(
        &mut self,
        hook: &Hook,
        matter: &Matter<'_>,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<Option<bool>, Failure> {
        let Some((resource, response)) = self.consult(hook, Phase::Mutating, matter, old, Some(object))?
        else {
            return Ok(None);
        };
        self.hearing.warnings.extend(response.warnings);
        let Some(patch) = response.decision? else { return Ok(Some(false)) };
        let seen =
            if matter.kind.is_some() { object.clone() } else { webhook::in_version(&resource, object) };
        let patched = patch::json_patch_of_webhook(&seen, &patch).map_err(|why| Failure::internal(&why))?;
        let part = matter.kind.map(|[group, version, kind]| match group {
            "" => resource_of(version, kind),
            group => resource_of(&format!("{group}/{version}"), kind),
        });
        let read = self.retyped(part.as_ref().unwrap_or(&resource), patched);
        let before = std::mem::replace(object, read.map_err(|why| Failure::internal(&why))?.value);
        if matter.kind.is_none() {
            let own = &matter.place.resource;
            *object = webhook::in_version(own, object);
            if matter.place.subresource.is_none() {
                defaults::complete(own, object);
                self.fill_in(own, object);
            }
        }
        Ok(Some(before != *object))
    }

    /// Lets plugins and webhooks refuse what is to be written, or deleted.
    pub(super) fn check_admission(
        &mut self,
        matter: &Matter<'_>,
        old: Option<&Value>,
        object: Option<&Value>,
    ) -> Result<(), Failure> {
        if self.hearing.is_settled {
            return Ok(());
        }
        if let Some(object) = object {
            admission::check(&self.store, matter, old, object)?;
        }
        let mut refused = None;
        for hook in self.hooks(matter, Phase::Validating) {
            if let Some((_, response)) = self.consult(&hook, Phase::Validating, matter, old, object)? {
                self.hearing.warnings.extend(response.warnings);
                // All are asked, whatever one of them says.
                refused = refused.or(response.decision.err());
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Both at once, for what is no object of the store's: after it nothing more is asked about the request.
    pub(super) fn admit_part(&mut self, matter: &Matter<'_>, part: &mut Value) -> Result<(), Failure> {
        self.admit(matter, None, part)?;
        self.check_admission(matter, None, Some(part))?;
        self.hearing.is_settled = true;
        Ok(())
    }

    /// Asks about a deletion.
    pub(super) fn admit_deletion(&mut self, matter: &Matter<'_>, object: &Value) -> Result<(), Failure> {
        if self.hearing.is_settled {
            return Ok(());
        }
        admission::check_deletion(matter, object)?;
        for hook in self.hooks(matter, Phase::Mutating) {
            if let Some((_, response)) = self.consult(&hook, Phase::Mutating, matter, Some(object), None)? {
                self.hearing.warnings.extend(response.warnings);
                response.decision?;
            }
        }
        self.check_admission(matter, Some(object), None)
    }

    fn hooks(&self, matter: &Matter<'_>, phase: Phase) -> Vec<Hook> {
        if webhook::is_exempt(&matter.place.resource) {
            return Vec::new();
        }
        webhook::hooks(&self.store, phase)
    }

    /// What a webhook has said, as which resource it was asked. Where it has not been asked yet, the request ends
    /// here with the question.
    fn consult(
        &mut self,
        hook: &Hook,
        phase: Phase,
        matter: &Matter<'_>,
        old: Option<&Value>,
        object: Option<&Value>,
    ) -> Result<Option<(Arc<Resource>, Response)>, Failure> {
        let Some(resource) = hook.concern(&self.store, &self.kinds, matter, old, object)? else {
            return Ok(None);
        };
        let uid = self.lots.uid();
        let review = Review::of(matter, &resource, &self.hearing.user, &uid, old, object);
        if !hook.meets_conditions(matter, &review)? {
            return Ok(None);
        }
        hook.check_dry_run(matter)?;
        if !hook.speaks_v1() {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1)";
            return fallen_through(hook, why);
        }
        let Some(said) = self.hearing.said(&hook.id(), &review) else {
            let target = Target::resolve(&self.store, &self.services, hook);
            let timeout_secs = hook.timeout_seconds;
            self.hearing.ask(Question::Webhook(Inquiry { hook: hook.id(), review, target, timeout_secs }));
            return Err(waiting());
        };
        let judged = match said {
            Ok(said) => webhook::judge(phase, &hook.name, &review, said),
            Err(why) => Err(why.clone()),
        };
        match judged {
            Ok(response) => Ok(Some((resource, response))),
            Err(why) => fallen_through(hook, &why),
        }
    }
}

/// Ends a try. Nobody gets to see it: whoever performs the request finds the question and tries again.
fn waiting() -> Failure {
    Failure::new(Reason::InternalError, "the request is waiting")
}

/// A webhook that cannot be asked, or makes no sense, refuses; or does not count.
fn fallen_through<T>(hook: &Hook, why: &str) -> Result<Option<T>, Failure> {
    if hook.ignores_failures() {
        return Ok(None);
    }
    Err(Failure::internal(&format!("failed calling webhook {:?}: {why}", hook.name)))
}

/// A write of an object as admission sees it.
pub(super) fn matter<'a>(place: &'a Place, query: &Query, operation: Operation) -> Matter<'a> {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    if query.is_dry_run() {
        options["dryRun"] = json!(query.dry_run);
    }
    for (field, text) in
        [("fieldManager", &query.field_manager), ("fieldValidation", &query.field_validation)]
    {
        if !text.is_empty() {
            options[field] = json!(text);
        }
    }
    Matter { place, operation, kind: None, options, dry_run: query.is_dry_run() }
}
