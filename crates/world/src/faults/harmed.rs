//! A watch as a client with faults hears it.

use std::collections::VecDeque;
use std::future::pending;

use tokio::time::{sleep, sleep_until};

use super::client::Session;
use super::seat::failure;
use super::{Deed, Harm, Lost, Served, Side};
use crate::api::Events;
use crate::json::{Value, json};
use crate::object;

/// The events that reach a client.
#[derive(Debug)]
pub(crate) struct HarmedEvents {
    served: Served,
    session: Session,
    client: String,
    events: Events,
    deed: Deed,
    /// What there was for this client when it began, frozen or not.
    beginning: VecDeque<Value>,
    /// What is heard next.
    ready: VecDeque<Result<Value, Lost>>,
    /// What waits until something is heard of another object.
    held: Vec<Value>,
    is_over: bool,
}

impl HarmedEvents {
    /// Of what is there at the beginning, at most so many objects are heard.
    pub(super) fn new(
        served: &Served,
        session: Session,
        client: &str,
        mut events: Events,
        most: usize,
    ) -> Self {
        let deed = Deed::event(events.place());
        let now = served.api.state().now();
        let shown = served.faults.frozen(client, &deed.resource, now).map(|frozen| frozen.revision);
        let beginning = events.begin(shown, most).into();
        let (served, client) = (served.clone(), client.to_owned());
        let (ready, held) = (VecDeque::new(), Vec::new());
        Self { served, session, client, events, deed, beginning, ready, held, is_over: false }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Value, Lost>> {
        let session = self.session.clone();
        tokio::select! {
            biased;
            () = session.broken(), if !self.is_over || session.has_crashed() => {
                if session.has_crashed() {
                    pending::<()>().await;
                }
                self.end(Some(Err(Lost)));
                self.ready.pop_front()
            }
            heard = self.hear() => heard,
        }
    }

    async fn hear(&mut self) -> Option<Result<Value, Lost>> {
        loop {
            if let Some(heard) = self.ready.pop_front() {
                return Some(heard);
            }
            if self.is_over {
                return None;
            }
            let event = if let Some(event) = self.beginning.pop_front() {
                event
            } else {
                let Some(event) = self.events.next().await else {
                    self.is_over = true;
                    self.release();
                    continue;
                };
                self.thaw().await;
                event
            };
            if event["type"] == "BOOKMARK" || event["type"] == "ERROR" {
                // What is said of all objects is true once all before it has been heard.
                self.release();
                self.ready.push_back(Ok(event));
            } else {
                self.harm(event).await;
            }
        }
    }

    /// Waits until the client sees what happens.
    async fn thaw(&self) {
        loop {
            let (now, clock) = {
                let state = self.served.api.state();
                (state.now(), state.clock())
            };
            let resource = &self.deed.resource;
            let Some(frozen) = self.served.faults.frozen(&self.client, resource, now) else { return };
            sleep_until(clock.instant(frozen.until)).await;
        }
    }

    /// What becomes of an event.
    async fn harm(&mut self, event: Value) {
        let (mut copies, mut is_held) = (1, false);
        for harm in self.served.faults.strike(&self.client, Side::Before, &self.deed) {
            match harm {
                Harm::Silence => pending::<()>().await,
                Harm::Drop => copies = 0,
                Harm::Repeat => copies *= 2,
                Harm::Swap => is_held = true,
                Harm::End => return self.end(None),
                Harm::Lost => return self.end(Some(Err(Lost))),
                Harm::Status { code, retry_after_secs } => {
                    let status = failure(code, retry_after_secs).to_status();
                    return self.end(Some(Ok(json!({ "type": "ERROR", "object": status }))));
                }
                Harm::Delay(wait) => sleep(wait).await,
                Harm::Partial(_) | Harm::Slow(_) => {}
                harm => {
                    self.served.befall(&self.client, harm);
                    if self.session.is_broken() {
                        // Whoever waits for this hears of it.
                        pending::<()>().await;
                    }
                    self.thaw().await;
                }
            }
        }
        for event in std::iter::repeat_n(event, copies) {
            if is_held || self.held.iter().any(|held| about(held) == about(&event)) {
                self.held.push(event);
            } else {
                self.ready.push_back(Ok(event));
                self.release();
            }
        }
    }

    fn release(&mut self) {
        self.ready.extend(self.held.drain(..).map(Ok));
    }

    /// The last that is heard, if anything is; what was still to come is not.
    fn end(&mut self, last: Option<Result<Value, Lost>>) {
        self.is_over = true;
        self.held.clear();
        self.ready.clear();
        self.ready.extend(last);
    }
}

/// The object that an event tells of, which is in a table if the client wants tables.
fn about(event: &Value) -> (&str, &str) {
    let object = match &event["object"]["rows"][0]["object"] {
        Value::Null => &event["object"],
        in_table => in_table,
    };
    (object::namespace(object), object::name(object))
}
