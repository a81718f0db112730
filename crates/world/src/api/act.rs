//! What the world's own controllers write. It goes the way of every write, without a body to read.

use std::sync::Arc;

use super::State;
use super::delete::{Options, Preconditions};
use super::write::Written;
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Subresource;
use crate::object;
use crate::request::{Place, Query};

/// One write. Resources are named as `pods` or `deployments.apps`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Create(&'static str, Value),
    /// Of the object as it was read: if somebody was faster, it fails.
    Update(&'static str, Value),
    UpdateStatus(&'static str, Value),
    /// The same as an update, of whatever kind there is.
    UpdateAny(Arc<str>, Value),
    /// Of a namespace: what still keeps it.
    Finalize(Value),
    Delete {
        resource: Arc<str>,
        object: Arc<Value>,
        /// `None` for as long as the object itself asks for.
        grace_secs: Option<i64>,
        propagation: Propagation,
    },
    Bind {
        pod: Arc<Value>,
        node: String,
    },
}

/// What becomes of what an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Act {
    /// Deletes an object as whoever read it meant it: not one that has its name by now.
    pub(crate) fn delete(resource: &str, object: &Arc<Value>) -> Self {
        Self::Delete {
            resource: resource.into(),
            object: object.clone(),
            grace_secs: None,
            propagation: Propagation::Background,
        }
    }
}

fn shared((status, answer): (u16, Value)) -> Written {
    (status, Arc::new(answer))
}

impl State {
    /// Performs a write in the name of a controller; what came of it.
    pub(crate) fn act(&mut self, manager: &str, act: Act) -> Result<Arc<Value>, Failure> {
        let query = Query::default();
        let (_, answer) = match act {
            Act::Create(resource, object) => {
                let place = Place { name: None, ..self.place_of(resource, &object, None)? };
                self.create_object(&place, &query, manager, object)
            }
            Act::Update(resource, object) => {
                let place = self.place_of(resource, &object, None)?;
                self.update_object(&place, &query, manager, object)
            }
            Act::UpdateAny(resource, object) => {
                let place = self.place_of(&resource, &object, None)?;
                self.update_object(&place, &query, manager, object)
            }
            Act::UpdateStatus(resource, object) => {
                let place = self.place_of(resource, &object, Some(Subresource::Status))?;
                self.update_object(&place, &query, manager, object)
            }
            Act::Finalize(object) => {
                let place = self.place_of("namespaces", &object, Some(Subresource::Finalize))?;
                self.update_object(&place, &query, manager, object)
            }
            Act::Delete { resource, object, grace_secs, propagation } => {
                let place = self.place_of(&resource, &object, None)?;
                self.delete_object(
                    &place,
                    &Options {
                        grace_period_seconds: grace_secs,
                        propagation_policy: Some(format!("{propagation:?}")),
                        preconditions: Preconditions {
                            uid: Some(object::uid(&object).to_owned()),
                            ..Preconditions::default()
                        },
                        ..Options::default()
                    },
                )
                .map(shared)
            }
            Act::Bind { pod, node } => {
                let place = self.place_of("pods", &pod, Some(Subresource::Binding))?;
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": { "name": object::name(&pod), "namespace": object::namespace(&pod) },
                    "target": { "kind": "Node", "name": node },
                });
                self.bind_to(&place, &query, binding).map(shared)
            }
        }?;
        Ok(answer)
    }

    fn place_of(
        &self,
        resource: &str,
        object: &Value,
        subresource: Option<Subresource>,
    ) -> Result<Place, Failure> {
        let resource = self.kinds.find_qualified(resource).ok_or_else(|| {
            Failure::new(Reason::NotFound, "the server could not find the requested resource")
        })?;
        let namespace = resource.is_namespaced().then(|| object::namespace(object).to_owned());
        Ok(Place {
            resource: resource.clone(),
            namespace,
            name: Some(object::name(object).to_owned()),
            subresource,
        })
    }
}
