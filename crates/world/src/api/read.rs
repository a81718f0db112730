//! Reading: one object, or a list as of one revision, in pages if asked for.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::accept::wants_table;
use super::{Call, State, shown};
use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::life::View;
use crate::metrics;
use crate::names::{forbidden, not_supported, quoted};
use crate::object;
use crate::request::{Place, Query, Verb};
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::Key;
use crate::table::{self, IncludeObject};

/// Which objects of a resource are meant.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(super) fn of(state: &State, place: &Place, query: &Query) -> Result<Self, Failure> {
        let selectable = state.selectable_fields(&place.resource);
        Ok(Self {
            labels: LabelSelector::parse(&query.label_selector)?,
            fields: FieldSelector::parse(&query.field_selector, &place.resource, selectable)?,
        })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(&object["metadata"]["labels"]) && self.fields.matches(object)
    }
}

/// Where a list goes on: at which revision, and from which key on.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Continuation {
    #[serde(rename = "v", default)]
    version: String,
    /// Less than nothing for whatever there is now.
    #[serde(rename = "rv", default)]
    revision: i64,
    /// Below what is listed: a name, after its namespace if all are listed.
    #[serde(default)]
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Continuation {
    fn parse(token: &str) -> Result<Self, Failure> {
        let refused = |why: String| {
            Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| {
            let is_foreign = |letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '-' | '_');
            let at = token.find(is_foreign).unwrap_or(token.len() / 4 * 4);
            refused(format!("illegal base64 data at input byte {at}"))
        })?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
        let Self { version, revision, start } = &token;
        if version != TOKEN_VERSION {
            return Err(refused(format!("server does not recognize this encoded version {version}")));
        }
        if *revision == 0 {
            let why = format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})");
            return Err(refused(why));
        }
        if start.is_empty() {
            return Err(refused(format!("encoded start key empty (version {TOKEN_VERSION})")));
        }
        let below = start.strip_prefix('/').unwrap_or(start).to_owned();
        if below.split('/').any(|word| matches!(word, "" | "." | "..")) {
            return Err(refused(start.clone()));
        }
        Ok(Self { start: below, ..token })
    }

    fn after(last: &str, revision: u64) -> Self {
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        Self { version: TOKEN_VERSION.to_owned(), revision, start: format!("{last}\0") }
    }

    /// The same of what there is now, whatever has changed.
    fn of_now(self) -> Self {
        Self { revision: -1, ..self }
    }

    fn token(&self) -> String {
        serde_json::to_vec(self).map(|bytes| URL_SAFE_NO_PAD.encode(bytes)).unwrap_or_default()
    }
}

const CONTINUE_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
    the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
    were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// What is said to whoever wants to list what is gone, and how it can go on with what is there.
fn expired(went_on: Option<Continuation>) -> Failure {
    let Some(continuation) = went_on else {
        return Failure::new(Reason::Expired, "The resourceVersion for the provided list is too old.");
    };
    let mut failure = Failure::new(Reason::Expired, CONTINUE_TOO_OLD);
    failure.details.continue_token = continuation.of_now().token();
    failure
}

/// A resourceVersion as a number; nothing for none.
pub(super) fn revision(text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        Failure::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
             invalid syntax"
        ))
    })
}

/// Whoever reads one object, or watches, is told less well that there is no such revision.
pub(super) fn in_other_words(refused: &Failure) -> Failure {
    Failure::new(Reason::Unknown, refused.message.trim_start_matches("invalid resource version: "))
}

/// What is wrong with how a list or a watch says from when it wants to know.
pub(super) fn check_versions(query: &Query, is_watch: bool) -> Result<(), Failure> {
    let mut causes = Vec::new();
    let (field, wanted) = ("resourceVersionMatch", &*query.resource_version_match);
    match query.initial_events {
        Some(_) if is_watch => {
            if wanted != "NotOlderThan" {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                causes.push(forbidden(field, why));
            }
            if !matches!(wanted, "" | "NotOlderThan") {
                causes.push(not_supported(field, &quoted(wanted), &["NotOlderThan"]));
            }
        }
        Some(_) => {
            causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        None if wanted.is_empty() => {}
        None if is_watch => {
            causes.push(forbidden(
                field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        None => {
            if query.resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(forbidden(field, why));
            }
            if !query.continue_token.is_empty() {
                causes.push(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(wanted, "Exact" | "NotOlderThan") {
                causes.push(not_supported(field, &quoted(wanted), &["Exact", "NotOlderThan", ""]));
            }
            if wanted == "Exact" && query.resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                causes.push(forbidden(field, why));
            }
        }
    }
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_options("ListOptions", causes)) }
}

/// What a list or a watch is told that asks for what has not happened yet.
pub(super) fn check_not_ahead(asked: u64, current: u64) -> Result<(), Failure> {
    if asked <= current {
        return Ok(());
    }
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut failure = Failure::new(Reason::Timeout, message);
    failure.details.retry_after_secs = Some(1);
    failure.details.causes.push(Cause {
        reason: CauseReason::ResourceVersionTooLarge,
        field: String::new(),
        message: "Too large resource version".to_owned(),
    });
    Err(failure)
}

impl State {
    pub(super) fn get(&self, place: &Place, query: &Query, call: &Call) -> Result<Value, Failure> {
        let asked = revision(&query.resource_version).map_err(|refused| in_other_words(&refused))?;
        check_not_ahead(asked.unwrap_or(0), self.store.revision())?;
        let (_, object) = self.existing(place)?;
        if wants_table(&call.accept) {
            let metadata = json!({ "resourceVersion": object::revision(&object) });
            return self.table(place, query, &[&object], &metadata);
        }
        Ok(shown(&place.resource, &object))
    }

    fn table(
        &self,
        place: &Place,
        query: &Query,
        objects: &[&Arc<Value>],
        metadata: &Value,
    ) -> Result<Value, Failure> {
        let include = IncludeObject::parse(&query.include_object)?;
        let objects = objects.iter().map(|object| &***object);
        let columns = self.columns(&place.resource);
        Ok(table::table(&place.resource, objects, columns, metadata, self.now(), include))
    }

    pub(super) fn list(&self, place: &Place, query: &Query, call: &Call) -> Result<Value, Failure> {
        check_versions(query, false)?;
        let selection = Selection::of(self, place, query)?;
        let (at, went_on) = self.start_of_list(query)?;
        let listed = self
            .store
            .list_at(at, &place.resource.kept_as(), place.namespace.as_deref())
            .map_err(|_| expired(went_on.clone()))?;
        let is_left = |key: &Key| went_on.as_ref().is_none_or(|from| below(place, key) >= &*from.start);
        let read = listed.iter().map(|(key, object)| (key, self.read(&place.resource, object)));
        let mut rest = read.filter(|(key, object)| is_left(key) && selection.matches(object));
        let most = if query.limit == 0 { usize::MAX } else { query.limit };
        let page: Vec<(&Key, Arc<Value>)> = rest.by_ref().take(most).collect();
        let remaining = rest.count();
        let mut metadata = json!({ "resourceVersion": at.to_string() });
        if place.resource.is_custom && !wants_table(&call.accept) {
            metadata["continue"] = json!("");
        }
        if let Some((last, _)) = page.last().filter(|_| remaining > 0) {
            metadata["continue"] = json!(Continuation::after(below(place, last), at).token());
            // With a selector the server does not know how many would match.
            if query.label_selector.is_empty() && query.field_selector.is_empty() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        if wants_table(&call.accept) {
            let objects: Vec<&Arc<Value>> = page.iter().map(|(_, object)| object).collect();
            return self.table(place, query, &objects, &metadata);
        }
        let mut list = json!({
            "kind": format!("{}List", place.resource.kind),
            "apiVersion": place.resource.api_version(),
            "metadata": metadata,
        });
        list["items"] = page.iter().map(|(_, object)| item(&place.resource, object)).collect();
        Ok(list)
    }

    /// The revision to list at, and where to go on.
    fn start_of_list(&self, query: &Query) -> Result<(u64, Option<Continuation>), Failure> {
        let current = self.store.revision();
        let asked = revision(&query.resource_version)?;
        if !query.continue_token.is_empty() {
            let went_on = Continuation::parse(&query.continue_token)?;
            if asked.is_some_and(|asked| asked > 0) {
                return Err(Failure::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let at = u64::try_from(went_on.revision).unwrap_or(current);
            check_not_ahead(at, current)?;
            return Ok((at, Some(went_on)));
        }
        check_not_ahead(asked.unwrap_or(0), current)?;
        match (&*query.resource_version_match, asked) {
            ("Exact", Some(asked)) if asked > 0 => Ok((asked, None)),
            // A page of a version has always been of that version.
            ("", Some(asked)) if asked > 0 && query.limit > 0 => Ok((asked, None)),
            _ => Ok((current, None)),
        }
    }
}

/// Lists of built-in kinds do not repeat what kind their items are.
fn item(resource: &Resource, object: &Value) -> Value {
    let mut object = shown(resource, object);
    if resource.is_custom {
        return object;
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    object
}

/// A key as it is below what is listed: a name, after its namespace if all are listed.
fn below<'a>(place: &Place, key: &'a Key) -> &'a str {
    if place.resource.is_namespaced() && place.namespace.is_none() { key.path() } else { key.name() }
}

/// The metrics of pods and nodes: objects that nobody keeps.
impl State {
    pub(super) fn measure(
        &self,
        verb: Verb,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<Value, Failure> {
        let (plural, view) = (&*place.resource.plural, View::of(self));
        let namespace = place.namespace.as_deref().unwrap_or_default();
        let objects: Vec<Arc<Value>> = match (verb, &place.name) {
            (Verb::Get, Some(name)) => {
                let found = metrics::of(&Key::new(plural, namespace, name), view).ok_or_else(|| {
                    let asked =
                        if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
                    Failure::not_found(&place.resource, &asked)
                })?;
                vec![Arc::new(found)]
            }
            (Verb::List, _) => {
                // They are selected by what is measured.
                let measured = self.kinds.find("", "v1", plural).unwrap_or(&place.resource);
                let selection = Selection {
                    labels: LabelSelector::parse(&query.label_selector)?,
                    fields: FieldSelector::parse(&query.field_selector, measured, &[])?,
                };
                let selected = view.keys(plural, place.namespace.as_deref()).filter(|key| {
                    let object = view.get(key);
                    object.is_some_and(|object| selection.matches(&object))
                });
                selected.filter_map(|key| metrics::of(key, view)).map(Arc::new).collect()
            }
            _ => {
                return Err(Failure::new(
                    Reason::MethodNotAllowed,
                    "the server does not allow this method on the requested resource",
                ));
            }
        };
        if wants_table(&call.accept) {
            return self.table(place, query, &objects.iter().collect::<Vec<_>>(), &json!({}));
        }
        match (&place.name, objects.first()) {
            (Some(_), Some(object)) => Ok((**object).clone()),
            _ => Ok(json!({
                "kind": format!("{}List", place.resource.kind), "apiVersion": place.resource.api_version(),
                "metadata": {}, "items": objects.iter().map(|object| item(&place.resource, object)).collect::<Vec<_>>(),
            })),
        }
    }
}
