//! The API: a request in, an answer out.

mod access;
mod act;
mod admit;
mod apply;
mod bodies;
mod custom;
mod delete;
mod parts;
mod paths;
mod reach;
mod read;
mod scale;
mod services;
mod watch;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::{Clock, Lots};
use crate::failure::Failure;
use crate::kinds::{Kinds, Resource, Subresource};
use crate::object;
use crate::rbac::{self, User};
use crate::request::{Asked, Place, Query, Target, Verb, without_watch};
use crate::store::{Key, Store};

use access::Access;
use custom::{DEFINITIONS, Definitions};

pub(crate) use access::Peer;
pub(crate) use act::{Act, Propagation};
pub(crate) use watch::Events;

/// The world's API. Clones are the same API.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) kinds: Kinds,
    definitions: Definitions,
    access: Access,
    clock: Clock,
    lots: Lots,
}

/// What the API has been asked, with its body read.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    /// The program that asks.
    pub(crate) agent: String,
    pub(crate) user: User,
    pub(crate) body: Vec<u8>,
    pub(crate) warnings: Warnings,
}

/// What is said to whoever asks beside the answer, whatever that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// In order, each once.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Call {
    fn warn<'a>(&self, texts: impl Iterator<Item = &'a str>) {
        let mut said = self.warnings.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in texts {
            if !said.iter().any(|known| known == text) {
                said.push(text.to_owned());
            }
        }
    }
}

/// What the API says.
#[derive(Debug)]
pub(crate) enum Answer {
    Object(u16, Value),
    /// An object in a form of its own.
    As(&'static str, Value),
    Bytes(&'static str, Vec<u8>),
    Text(&'static str),
    /// There is nothing to say.
    Nothing,
    /// Nothing is served there.
    NoPage,
    Events(Events),
}

impl Api {
    pub(crate) fn new(seed: u64, now: Timestamp) -> Self {
        let mut state = State {
            store: Store::new(),
            kinds: Kinds::built_in(),
            definitions: Definitions::default(),
            access: Access::default(),
            clock: Clock::starting(now),
            lots: Lots::new(seed),
        };
        state.found();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A state that somebody left in a panic is as whole as any: every write is one step.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes in the name of a controller of the world's own.
    pub(crate) async fn act(&self, manager: &str, act: Act) -> Result<Value, Failure> {
        self.state().act(manager, act)
    }

    pub(crate) fn call(&self, call: &Call) -> Result<Answer, Failure> {
        let mut query = Query::parse(&call.query)?;
        let (path, is_watch) = without_watch(&call.path);
        query.watch |= is_watch;
        match Asked::parse(&call.method, &path, query.watch) {
            Some(asked) => self.state().check_access(&asked, call)?,
            None => self.state().check_path(call)?,
        }
        if let Some(kind) = review_of(&path) {
            if call.method != Method::POST {
                return Err(Failure::not_allowed());
            }
            let review = self.state().review(kind, &query, call)?;
            return Ok(review.map_or(Answer::NoPage, |review| Answer::Object(201, review)));
        }
        let target = Target::parse(&path, &self.state().kinds)?;
        let mut place = match target {
            Target::Path(_) => return self.state().path(call),
            Target::Resource(place) => place,
        };
        if let Some(name) = place.name.take_if(|_| is_watch && place.subresource.is_none()) {
            // One object is watched as a list of one.
            query.field_selector = format!("metadata.name={name}");
        }
        let verb = place.verb(&call.method, query.watch)?;
        if verb == Verb::Watch {
            return Events::start(self, &place, &query, call).map(Answer::Events);
        }
        let mut state = self.state();
        let (code, object) = state.perform(verb, &place, &query, call)?;
        if place.resource.qualified() == DEFINITIONS && !matches!(verb, Verb::Get | Verb::List) {
            state.serve_definitions();
        }
        Ok(if code == 204 { Answer::Nothing } else { Answer::Object(code, object) })
    }
}

/// What a question about access asks.
fn review_of(path: &str) -> Option<&str> {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    match words[..] {
        ["apis", "authorization.k8s.io" | "authentication.k8s.io", "v1", kind]
        | ["apis", "authorization.k8s.io", "v1", "namespaces", _, kind] => Some(kind),
        _ => None,
    }
}

impl State {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// What a cluster has from the start.
    fn found(&mut self) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            if let Some(resource) = self.kinds.find("", "v1", "namespaces").cloned() {
                self.insert(&resource, namespace);
            }
        }
        for object in rbac::default_objects() {
            let (api_version, kind) =
                (object::text(&object, &["apiVersion"]), object::text(&object, &["kind"]));
            if let Some(resource) = self.kinds.find_kind(api_version, kind).cloned() {
                self.insert(&resource, object);
            }
        }
    }

    fn perform(
        &mut self,
        verb: Verb,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        let is_view = |part: &Subresource| matches!(part, Subresource::Status | Subresource::Finalize);
        if let Some(part) = place.subresource.filter(|part| !is_view(part)) {
            return self.perform_part(part, verb, place, query, call);
        }
        match verb {
            Verb::Get => self.get(place, query, call).map(|object| (200, object)),
            Verb::List | Verb::Watch => self.list(place, query, call).map(|list| (200, list)),
            Verb::Create => self.create(place, query, call),
            Verb::Update => self.update(place, query, call),
            Verb::Patch => self.patch(place, query, call),
            Verb::Delete => self.delete(place, query, call),
            Verb::DeleteCollection => self.delete_collection(place, query, call),
        }
    }

    fn key(place: &Place, name: &str) -> Key {
        Key::new(&place.resource.qualified(), place.namespace.as_deref().unwrap_or_default(), name)
    }

    /// The object that the place names.
    fn existing(&self, place: &Place) -> Result<(Key, Arc<Value>), Failure> {
        let name = place.name.as_deref().unwrap_or_default();
        let key = Self::key(place, name);
        match self.store.get(&key) {
            Some(object) => Ok((key, object)),
            None => Err(Failure::not_found(&place.resource, name)),
        }
    }
}

/// An object as the version that was asked for shows it.
pub(crate) fn shown(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object
}
