//! The API: a request in, an answer out.

mod accept;
mod access;
mod act;
mod admit;
mod apply;
#[cfg(test)]
pub(crate) mod ask;
mod bodies;
mod custom;
mod delete;
mod meant;
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

use crate::clock::{Clock, Lots};
use crate::events;
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::kinds::{Kinds, Resource, Subresource};
use crate::metrics;
use crate::object;
use crate::rbac::{self, User};
use crate::request::{Asked, Place, Query, Target, Verb, without_watch};
use crate::store::{Key, Store};
use crate::webhook::{Hearing, Services};

use accept::Form;
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
    /// The request that is being performed.
    hearing: Hearing,
    pub(crate) services: Services,
    /// A controller of the world's own has panicked: what is asked from then on would mean nothing.
    pub(crate) is_broken: bool,
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
    Events(Box<Events>),
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
            hearing: Hearing::none(),
            services: Services::new(),
            is_broken: false,
        };
        state.found();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A state that somebody left in a panic is as whole as any: every write is one step.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes in the name of a controller of the world's own.
    pub(crate) async fn act(&self, manager: &str, act: Act) -> Result<Arc<Value>, Failure> {
        let hearing = Hearing::hurried(access::controller(manager));
        {
            let mut state = self.state();
            if state.asks_nobody() {
                return state.perform_once(hearing, |state| state.act(manager, act));
            }
        }
        self.hear(hearing, |state| state.act(manager, act.clone())).await.0
    }

    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Failure> {
        let (verb, place, query, form) = match self.begin(call)? {
            Begun::Answered(answer) => return Ok(answer),
            Begun::Resource(verb, place, query, form) => (verb, place, query, form),
        };
        let perform = |state: &mut State| state.perform(verb, &place, &query, call);
        let (performed, warnings) = self.hear(Hearing::of(call.user.clone()), perform).await;
        call.warn(warnings.iter().map(String::as_str));
        match performed? {
            (204, _) => Ok(Answer::Nothing),
            (code, object) => {
                form.put(&place.resource, verb, object).map(|object| Answer::Object(code, object))
            }
        }
    }

    /// Answers what needs no more than a look.
    fn begin(&self, call: &Call) -> Result<Begun, Failure> {
        if self.state().is_broken {
            return Err(Failure::internal("a controller of this world has panicked"));
        }
        let mut query = Query::parse(&call.query)?;
        let (path, is_watch) = without_watch(&call.path);
        query.watch |= is_watch;
        match Asked::parse(&call.method, &path, &query) {
            Some(asked) => self.state().check_access(&asked, call)?,
            None => self.state().check_path(call)?,
        }
        if let Some(kind) = review_of(&path) {
            if call.method != Method::POST {
                return Err(Failure::not_allowed());
            }
            let review = self.state().review(kind, &query, call)?;
            let answer = review.map_or(Answer::NoPage, |review| Answer::Object(201, review));
            return Ok(Begun::Answered(answer));
        }
        let target = Target::parse(&path, &self.state().kinds)?;
        let mut place = match target {
            Target::Path(_) => return self.state().path(call).map(Begun::Answered),
            Target::Resource(place) => place,
        };
        if let Some(name) = place.name.take_if(|_| is_watch && place.subresource.is_none()) {
            // One object is watched as a list of one.
            query.field_selector = format!("metadata.name={name}");
        }
        let verb = place.verb(&call.method, query.watch)?;
        let is_of_objects = place.subresource.is_none_or(Subresource::has_objects);
        let form = if is_of_objects { Form::of(&call.accept)? } else { Form::Objects };
        if metrics::are(&place.resource) {
            let measured = self.state().measure(verb, &place, &query, call)?;
            return Ok(Begun::Answered(Answer::Object(200, form.put(&place.resource, verb, measured)?)));
        }
        if verb == Verb::Watch {
            let events = Events::start(self, &place, &query, form)?;
            return Ok(Begun::Answered(Answer::Events(Box::new(events))));
        }
        Ok(Begun::Resource(verb, place, Box::new(query), form))
    }
}

/// What a request comes to at first sight.
enum Begun {
    Answered(Answer),
    Resource(Verb, Place, Box<Query>, Form),
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
        self.hearing.at.unwrap_or_else(|| self.clock.now())
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
            // Whoever is told that a cluster is there may make pods in it.
            if let Some(resource) = self.kinds.find("", "v1", "serviceaccounts").cloned() {
                self.insert(&resource, json!({"metadata": {"name": "default", "namespace": name}}));
            }
        }
        // Its identity is drawn apart, so that those of what comes later do not depend on it.
        let lots = self.lots.clone();
        self.lots.part();
        if let Some(resource) = self.kinds.find("", "v1", "services").cloned() {
            self.insert(&resource, own_service());
        }
        self.lots = lots;
        for object in rbac::default_objects().into_iter().chain(system_classes()) {
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
        let performed = match place.subresource {
            None | Some(Subresource::Status) => self.perform_whole(verb, place, query, call),
            Some(part) => self.perform_part(part, verb, place, query, call),
        };
        if performed.is_ok()
            && place.resource.qualified() == DEFINITIONS
            && !matches!(verb, Verb::Get | Verb::List)
        {
            self.serve_definitions();
        }
        performed
    }

    fn perform_whole(
        &mut self,
        verb: Verb,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
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
        Key::new(&place.resource.kept_as(), place.namespace.as_deref().unwrap_or_default(), name)
    }

    /// The object that the place names.
    fn existing(&self, place: &Place) -> Result<(Key, Arc<Value>), Failure> {
        let name = place.name.as_deref().unwrap_or_default();
        let key = Self::key(place, name);
        match self.store.get(&key) {
            Some(object) => Ok((key, self.read(&place.resource, &object))),
            None => Err(Failure::not_found(&place.resource, name)),
        }
    }
}

/// Where programs in a cluster find its API.
fn own_service() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "internalTrafficPolicy": "Cluster",
            "ports": [{ "name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443 }],
        },
    })
}

/// How important the parts of a cluster are.
fn system_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    let in_the_cluster = "Used for system critical pods that must run in the cluster, but can be moved to another \
        node if necessary.";
    let on_the_node = "Used for system critical pods that must not be moved from their current node.";
    [
        class("system-cluster-critical", 2_000_000_000, in_the_cluster),
        class("system-node-critical", 2_000_001_000, on_the_node),
    ]
}

/// An object as the version that was asked for shows it.
pub(crate) fn shown(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    if events::are(resource) {
        events::to_second(&mut object);
    }
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object
}

/// The same without a copy of what is kept in that form.
fn in_form(resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
    if events::are(resource) { Arc::new(shown(resource, object)) } else { object.clone() }
}
