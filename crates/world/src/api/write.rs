//! Writing: create, update and patch, with all that the server itself adds to an object.

use std::sync::Arc;

use jiff::Timestamp;

use super::admit::matter;
use super::bodies::patch_of;
use super::custom::DEFINITIONS;
use super::meant::{check_revision, check_uid, expect_name, expect_namespace, expect_no_uid};
use super::{Call, State, in_form, shown};
use crate::admission::Operation;
use crate::crd;
use crate::defaults;
use crate::events;
use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::names;
use crate::object;
use crate::options::Options;
use crate::patch::{self, Shape};
use crate::proto::put_in_form;
use crate::request::{Place, Query};
use crate::store::{Key, is_too_large};
use crate::strategy;
use crate::validate;

/// The merge keys of custom resources are nowhere to be found.
const STRATEGIC_FOR_BUILT_IN: &str = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
     application/merge-patch+json, application/apply-patch+yaml";

/// How a patch is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(super) fn parse(content_type: &str) -> Result<Self, Failure> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Failure::unhandled(Reason::UnsupportedMediaType, "415: Unsupported Media Type")),
        }
    }
}

/// Who writes: whoever applies, or scales, is on record already.
#[derive(Clone, Copy, Debug)]
pub(super) enum Writer<'a> {
    Update(&'a str),
    OnRecord,
}

/// The status of the answer, and the object as it is now.
pub(super) type Written = (u16, Arc<Value>);

fn answered((status, object): Written) -> (u16, Value) {
    (status, Arc::unwrap_or_clone(object))
}

impl State {
    pub(super) fn create(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        Options::Create.check(query)?;
        let object = self.object_of(&place.resource, query, call)?;
        self.create_object(place, query, manager(query, call), object).map(answered)
    }

    pub(super) fn create_object(
        &mut self,
        place: &Place,
        query: &Query,
        manager: &str,
        mut object: Value,
    ) -> Result<Written, Failure> {
        self.expect_kind(&place.resource, &object)?;
        expect_namespace(place, &mut object)?;
        if !object::revision(&object).is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(Reason::Unknown, message));
        }
        self.check_namespace(place, &object)?;
        if !is_of_kind(&place.resource, &object) {
            self.name(&mut object);
            return Err(self.not_of_kind(&place.resource, &object, None));
        }
        self.complete_new(&place.resource, &mut object);
        // What admission adds is nobody's.
        let mut sent = object.clone();
        self.prepare_new(&place.resource, &mut sent);
        let shape = self.shape(&place.resource);
        patch::record_update(None, &mut sent, manager, self.now(), None, &shape);
        object::set(&mut object, "managedFields", sent["metadata"]["managedFields"].take());
        let key = self.admit_new(place, query, &mut object)?;
        if let Some(there) = self.store.get(&key) {
            let mut failure = Failure::already_exists(&place.resource, key.name());
            if object::is_terminating(&there) {
                failure.message = format!("object is being deleted: {}", failure.message);
            }
            return Err(failure);
        }
        Ok((201, self.store(&place.resource, query, key, object)?))
    }

    /// Has everybody look at a new object who may have something to add or something against it.
    fn admit_new(&mut self, place: &Place, query: &Query, object: &mut Value) -> Result<Key, Failure> {
        let matter = matter(place, query, Operation::Create);
        self.admit(&matter, None, object)?;
        self.check_grants(place, object, None)?;
        self.name(object);
        self.prepare_new(&place.resource, object);
        self.check_ports(&place.resource, object, None)?;
        self.identify(&place.resource, object);
        self.check_new(&place.resource, object)?;
        self.warn(place, object, None);
        self.check_admission(&matter, None, Some(object))?;
        Ok(Self::key(place, object::name(object)))
    }

    /// What is wrong with a new object, and the last that the server adds to it.
    fn check_new(&self, resource: &Resource, object: &mut Value) -> Result<(), Failure> {
        self.define(resource, object, None)?;
        let of_metadata = names::validate_create(resource, object);
        let (mut causes, last) = if strategy::checks_metadata(resource) {
            (of_metadata, Vec::new())
        } else {
            (Vec::new(), of_metadata)
        };
        causes.extend(validate::on_create(resource, object));
        causes.extend(self.judge(resource, None, object, None, &causes));
        if causes.is_empty() {
            causes = last;
        }
        if causes.is_empty() {
            return Ok(());
        }
        Err(invalid(resource, object::name(object), causes))
    }

    /// Puts an object of the world's own into it.
    pub(super) fn insert(&mut self, resource: &Resource, mut object: Value) -> Arc<Value> {
        self.complete_new(resource, &mut object);
        self.prepare_new(resource, &mut object);
        self.identify(resource, &mut object);
        let key = Key::new(&resource.kept_as(), object::namespace(&object), object::name(&object));
        self.store.put(key, object)
    }

    pub(super) fn update(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        Options::Update.check(query)?;
        let object = self.object_of(&place.resource, query, call)?;
        self.update_object(place, query, manager(query, call), object).map(answered)
    }

    pub(super) fn update_object(
        &mut self,
        place: &Place,
        query: &Query,
        manager: &str,
        mut object: Value,
    ) -> Result<Written, Failure> {
        self.expect_kind(&place.resource, &object)?;
        expect_namespace(place, &mut object)?;
        expect_name(place, &object)?;
        let (key, old) = match self.existing(place) {
            Err(_) if strategy::is_made_by_update(&place.resource) => {
                object::set(&mut object, "resourceVersion", Value::Null);
                let all = Place { name: None, ..place.clone() };
                return self.create_object(&all, query, manager, object);
            }
            Err(missing) => return Err(missing),
            Ok(existing) => existing,
        };
        check_uid(&place.resource, query, &key, &object, &old)?;
        check_revision(&object)?;
        self.replace(place, query, Writer::Update(manager), &key, &old, object)
    }

    pub(super) fn patch(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        let kind = PatchKind::parse(&call.content_type)?;
        if kind == PatchKind::Apply { Options::Apply } else { Options::Patch }.check(query)?;
        if kind == PatchKind::Strategic && place.resource.is_custom {
            return Err(Failure::new(Reason::UnsupportedMediaType, STRATEGIC_FOR_BUILT_IN));
        }
        let given = patch_of(query, call)?;
        if given.kind == PatchKind::Apply {
            given.check_applied(call)?;
            return self.apply(place, query, &given.body).map(answered);
        }
        let body = &given.body;
        let (key, old) = self.existing(place)?;
        let shown_old = shown(&place.resource, &old);
        let new = match given.kind {
            PatchKind::Json => patch::json_patch(&shown_old, body)?,
            PatchKind::Strategic if place.resource.is_custom => {
                return Err(Failure::new(Reason::UnsupportedMediaType, STRATEGIC_FOR_BUILT_IN));
            }
            PatchKind::Strategic => {
                patch::strategic_merge_patch(&shown_old, body, &Shape::built_in(&place.resource))?
            }
            PatchKind::Merge | PatchKind::Apply => patch::merge_patch(&shown_old, body)?,
        };
        let new = self.patched(&place.resource, given, new, call)?;
        self.replace(place, query, Writer::Update(manager(query, call)), &key, &old, new).map(answered)
    }

    /// Server-side apply, which makes what is not there.
    fn apply(&mut self, place: &Place, query: &Query, body: &Value) -> Result<Written, Failure> {
        self.check_declared(&place.resource, body)?;
        let shape = self.shape(&place.resource);
        let part = place.subresource.map(Subresource::name);
        let (now, manager) = (self.now(), &query.field_manager);
        match self.existing(place) {
            Ok((key, old)) => {
                let live = shown(&place.resource, &old);
                let new =
                    patch::apply(Some(&live), body, manager, query.force == Some(true), part, now, &shape)?;
                let new = self.settled(&place.resource, new);
                self.replace(place, query, Writer::OnRecord, &key, &old, new)
            }
            Err(missing) if place.subresource.is_some() => Err(missing),
            Err(_) => {
                let object = patch::apply(None, body, manager, query.force == Some(true), part, now, &shape)?;
                let mut object = self.settled(&place.resource, object);
                expect_no_uid(place, &object)?;
                expect_namespace(place, &mut object)?;
                expect_name(place, &object)?;
                check_revision(&object)?;
                self.check_namespace(place, &object)?;
                self.complete_new(&place.resource, &mut object);
                let key = self.admit_new(place, query, &mut object)?;
                Ok((201, self.store(&place.resource, query, key, object)?))
            }
        }
    }

    /// Writes what an object has become, if that is allowed and anything changed.
    pub(super) fn replace(
        &mut self,
        place: &Place,
        query: &Query,
        writer: Writer<'_>,
        key: &Key,
        old: &Arc<Value>,
        mut new: Value,
    ) -> Result<Written, Failure> {
        let resource = &place.resource;
        let old = &in_form(resource, old);
        expect_name(place, &new)?;
        let given = object::revision(&new);
        check_revision(&new)?;
        if given.is_empty() && !strategy::allows_unconditional_update(resource) {
            let cause = Cause {
                reason: CauseReason::FieldValueInvalid,
                field: "metadata.resourceVersion".to_owned(),
                message: "Invalid value: 0: must be specified for an update".to_owned(),
            };
            // The store, which finds this out, knows no kinds.
            let by_plural = Resource { kind: resource.plural.clone(), ..(**resource).clone() };
            return Err(Failure::invalid(&by_plural, key.name(), vec![cause]));
        }
        if !given.is_empty() && given != object::revision(old) {
            return Err(Failure::modified(resource, key.name()));
        }
        if !is_of_kind(resource, &new) {
            return Err(self.not_of_kind(resource, &new, Some(old)));
        }
        // This is how all managers are forgotten.
        let forgets = new["metadata"]["managedFields"] == json!([{}]);
        if forgets {
            object::set(&mut new, "managedFields", Value::Null);
        }
        // What is the server's is put in once nobody changes the object any more. What admission adds is nobody's.
        let mut sent = new.clone();
        self.finish_changed(place, old, &mut sent)?;
        if let Writer::Update(manager) = writer
            && !forgets
        {
            let (shape, part) = (self.shape(resource), place.subresource.map(Subresource::name));
            patch::record_update(Some(old), &mut sent, manager, self.now(), part, &shape);
        }
        let matter = matter(place, query, Operation::Update);
        self.read_changed(resource, &mut new);
        object::set(&mut new, "managedFields", sent["metadata"]["managedFields"].clone());
        if self.admit(&matter, Some(old), &mut new)? {
            self.finish_changed(place, old, &mut new)?;
        } else {
            new = sent;
        }
        self.check_grants(place, &new, Some(old))?;
        let mut causes = validate::on_update(resource, place.subresource, &new, old);
        causes.extend(self.judge(resource, place.subresource, &new, Some(old), &causes));
        if !causes.is_empty() {
            return Err(invalid(resource, key.name(), causes));
        }
        self.warn(place, &new, Some(old));
        self.check_admission(&matter, Some(old), Some(&new))?;
        if new == **old && self.is_kept_so(resource, key, old) {
            return Ok((200, old.clone()));
        }
        if strategy::is_over(&new) && !query.is_dry_run() {
            let last = self.remove(key).unwrap_or_else(|| old.clone());
            let revision = object::revision(&last).to_owned();
            object::set(&mut new, "resourceVersion", json!(revision));
            return Ok((200, Arc::new(new)));
        }
        Ok((200, self.store(resource, query, key.clone(), new)?))
    }

    /// Whether an object is stored as it is read. One that is not is written anew, even if nothing else changes.
    fn is_kept_so(&self, resource: &Resource, key: &Key, read: &Value) -> bool {
        !resource.is_custom || self.store.get(key).is_some_and(|kept| *kept == *read)
    }

    /// What is read into every changed object, as it comes in.
    fn read_changed(&self, resource: &Resource, new: &mut Value) {
        say_kind(resource, new);
        defaults::complete(resource, new);
        self.fill_in(resource, new);
    }

    /// What the server makes of a changed object.
    fn finish_changed(&self, place: &Place, old: &Value, new: &mut Value) -> Result<(), Failure> {
        let resource = &place.resource;
        strategy::prepare_for_update(resource, place.subresource, old, new);
        defaults::complete(resource, new);
        self.fill_in(resource, new);
        self.check_ports(resource, new, Some(old))?;
        self.allocate(resource, new, Some(old));
        self.define(resource, new, Some(old))?;
        keep_what_is_the_servers(old, new);
        // Only what differs in the same form has changed.
        put_in_form(&resource.api_version(), &resource.kind, new, Some(old));
        if strategy::has_generation(resource) {
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
            // A new status is no new wish.
            let is_wish = place.subresource != Some(Subresource::Status);
            let changed = i64::from(is_wish && strategy::changes_generation(resource, old, new));
            object::set(new, "generation", json!(generation + changed));
        }
        object::set(new, "resourceVersion", json!(object::revision(old)));
        say_kind(resource, new);
        new.reuse(old);
        Ok(())
    }

    /// Keeps an object; what it is then, in the form that it came in.
    fn store(
        &mut self,
        resource: &Resource,
        query: &Query,
        key: Key,
        mut object: Value,
    ) -> Result<Arc<Value>, Failure> {
        if query.is_dry_run() {
            return Ok(Arc::new(object));
        }
        if is_too_large(&object) {
            return Err(Failure::new(Reason::Unknown, "etcdserver: request is too large"));
        }
        if events::are(resource) {
            events::to_first(&mut object);
            object["apiVersion"] = json!("v1");
        }
        Ok(in_form(resource, &self.store.put(key, object)))
    }

    /// Gives the object a name if it wants one made.
    fn name(&mut self, object: &mut Value) {
        let base = object::text(object, &["metadata", "generateName"]).to_owned();
        if object::name(object).is_empty() && !base.is_empty() {
            let name = names::generate_name(&base, &self.lots.suffix());
            object::set(object, "name", json!(name));
        }
    }

    /// An object that says what it is must be what is asked for.
    pub(super) fn expect_kind(&self, resource: &Resource, object: &Value) -> Result<(), Failure> {
        if resource.is_custom {
            // Those are told later, with all else that is wrong.
            return Ok(());
        }
        let expected = resource.api_version();
        let said = |field| Some(object::text(object, &[field])).filter(|text| !text.is_empty());
        let (api_version, kind) =
            (said("apiVersion").unwrap_or(&expected), said("kind").unwrap_or(&resource.kind));
        if api_version == expected && kind == resource.kind {
            return Ok(());
        }
        let mismatch = |given: &str| {
            Failure::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({expected})"
            ))
        };
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let refused = |why: String| {
            let wanted = &resource.kind;
            Err(Failure::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {wanted}: {why}"
            )))
        };
        if strategy::was_served(api_version) && kind == resource.kind {
            return Err(mismatch(api_version));
        }
        if self.kinds.find_kind(api_version, kind).is_none() {
            return refused(not_registered(api_version, kind));
        }
        if kind != resource.kind {
            let internal = match resource.group.split('.').next().unwrap_or_default() {
                "" => "core",
                group => group,
            };
            return refused(format!(
                "converting ({version}.{kind}) to ({internal}.{}): unknown conversion",
                resource.kind
            ));
        }
        Err(mismatch(api_version))
    }

    /// Says what is allowed and yet not wise.
    fn warn(&mut self, place: &Place, new: &Value, old: Option<&Value>) {
        if place.resource.is_custom && place.subresource != Some(Subresource::Status) {
            self.hearing.warnings.extend(names::finalizer_warnings(new, old));
        }
        if old.is_none() && place.resource.qualified() == "ingresses.networking.k8s.io" {
            self.hearing.warnings.extend(validate::ingress_warning(new));
        }
        if place.resource.qualified() == DEFINITIONS {
            let warnings = self.definition_warnings(new);
            self.hearing.warnings.extend(warnings);
        }
    }

    fn not_of_kind(&self, resource: &Resource, object: &Value, old: Option<&Value>) -> Failure {
        let kind = object::text(object, &["kind"]);
        let cause = Cause {
            reason: CauseReason::FieldValueInvalid,
            field: "kind".to_owned(),
            message: format!("Invalid value: {kind:?}: must be {}", resource.kind),
        };
        let causes = self.judge_stranger(resource, object, old, cause);
        let said = Resource { kind: kind.to_owned(), ..resource.clone() };
        Failure::invalid(&said, object::name(object), causes)
    }

    /// Objects are made only in namespaces that are there to stay.
    fn check_namespace(&self, place: &Place, object: &Value) -> Result<(), Failure> {
        let Some(name) = &place.namespace else { return Ok(()) };
        let Some(resource) = self.kinds.find("", "v1", "namespaces") else { return Ok(()) };
        match self.store.get(&Key::new("namespaces", "", name)) {
            None => Err(Failure::not_found(resource, name)),
            Some(namespace) if object::is_terminating(&namespace) => {
                let why = format!(
                    "unable to create new content in namespace {name} because it is being terminated"
                );
                let mut failure = matter(place, &Query::default(), Operation::Create).refuse(object, &why);
                failure.details.causes.push(Cause {
                    reason: CauseReason::NamespaceTerminating,
                    field: "metadata.namespace".to_owned(),
                    message: format!("namespace {name} is being terminated"),
                });
                Err(failure)
            }
            Some(_) => Ok(()),
        }
    }

    /// What is read into every new object, as it comes in.
    fn complete_new(&self, resource: &Resource, object: &mut Value) {
        say_kind(resource, object);
        defaults::complete(resource, object);
        if resource.qualified() == DEFINITIONS {
            crd::default(object);
        }
        self.fill_in(resource, object);
        object::tidy_metadata(object);
        for field in
            ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid"]
        {
            object::set(object, field, Value::Null);
        }
    }

    /// What the server makes of a new object.
    fn prepare_new(&self, resource: &Resource, object: &mut Value) {
        strategy::prepare_for_create(resource, object);
        note_gates(resource, object, self.now());
        self.fill_in(resource, object);
        if strategy::has_generation(resource) {
            object::set(object, "generation", json!(1));
        }
        put_in_form(&resource.api_version(), &resource.kind, object, None);
    }

    /// From here on it is that object and no other.
    fn identify(&mut self, resource: &Resource, object: &mut Value) {
        say_kind(resource, object);
        self.allocate(resource, object, None);
        let (uid, now) = (self.lots.uid(), self.now());
        object::set(object, "uid", json!(uid));
        object::set(object, "creationTimestamp", object::time(now));
        strategy::finish_new(resource, object);
    }
}

/// A pod that waits for its gates says so.
fn note_gates(resource: &Resource, pod: &mut Value, now: Timestamp) {
    let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if resource.qualified() == "pods" && is_gated {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": object::time(now),
        }]);
    }
}

/// Events of both groups are the same to the server, which speaks of them under their first name.
fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Failure {
    if resource.group == "events.k8s.io" {
        let old = Resource { group: String::new(), ..resource.clone() };
        return Failure::invalid(&old, name, causes);
    }
    Failure::invalid(resource, name, causes)
}

/// What is said of a kind that nobody knows.
fn not_registered(api_version: &str, kind: &str) -> String {
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    format!("no kind {kind:?} is registered for version {api_version:?} {scheme}")
}

/// Who is said to have written: by name, or else the program that did.
pub(super) fn manager<'a>(query: &'a Query, call: &'a Call) -> &'a str {
    let program = call.agent.split('/').next().unwrap_or_default();
    match (&*query.field_manager, program) {
        ("", "") => "unknown",
        ("", program) => program,
        (named, _) => named,
    }
}

/// Fields of the metadata that no client changes.
fn keep_what_is_the_servers(old: &Value, new: &mut Value) {
    let of = |object: &Value, field: &str| object["metadata"][field].clone();
    for field in ["creationTimestamp", "generation"] {
        object::set(new, field, of(old, field));
    }
    for field in ["namespace", "uid", "deletionGracePeriodSeconds"] {
        if of(new, field).is_null() || of(new, field) == "" {
            object::set(new, field, of(old, field));
        }
    }
    if object::is_terminating(old) {
        object::set(new, "deletionTimestamp", of(old, "deletionTimestamp"));
    }
    object::tidy_metadata(new);
}

/// An object is kept with what it is, whether or not its author said so.
fn say_kind(resource: &Resource, object: &mut Value) {
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
}

/// Custom resources are not converted: they must be what they are said to be.
fn is_of_kind(resource: &Resource, object: &Value) -> bool {
    !resource.is_custom || object::text(object, &["kind"]) == resource.kind
}
