//! A watch as a client with faults hears it.

use std::future::pending;

use tokio::time::{sleep, sleep_until};

use super::{Deed, Faults, Harm, Lost, Side};
use crate::api::{Api, Events};
use crate::json::{Value, json};

/// The events that reach a client.
#[derive(Debug)]
pub(crate) struct HarmedEvents {
    api: Api,
    faults: Faults,
    client: String,
    events: Events,
    deed: Deed,
    again: Option<Value>,
    is_over: bool,
}

impl HarmedEvents {
    pub(crate) fn new(api: &Api, faults: &Faults, client: &str, events: Events) -> Self {
        let deed = Deed::event(events.place());
        let (api, faults, client) = (api.clone(), faults.clone(), client.to_owned());
        Self { api, faults, client, events, deed, again: None, is_over: false }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Value, Lost>> {
        loop {
            if let Some(event) = self.again.take() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            let event = self.events.next().await?;
            self.thaw().await;
            if event["type"] == "BOOKMARK" || event["type"] == "ERROR" {
                return Some(Ok(event));
            }
            if let Some(heard) = self.harm(event).await {
                return Some(heard);
            }
        }
    }

    /// Waits until the client sees what happens.
    async fn thaw(&self) {
        loop {
            let (now, clock) = {
                let state = self.api.state();
                (state.now(), state.clock())
            };
            let Some(frozen) = self.faults.frozen(&self.client, now) else { return };
            sleep_until(clock.instant(frozen.until)).await;
        }
    }

    /// What becomes of an event; nothing if it is left out.
    async fn harm(&mut self, event: Value) -> Option<Result<Value, Lost>> {
        let mut heard = Some(Ok(event.clone()));
        for harm in self.faults.strike(&self.client, Side::Before, &self.deed) {
            match harm {
                Harm::Crash => {
                    self.faults.crash(&self.client);
                    pending::<()>().await;
                }
                Harm::Silence => pending::<()>().await,
                Harm::Drop => heard = None,
                Harm::Repeat => self.again = Some(event.clone()),
                Harm::Lost => {
                    self.is_over = true;
                    heard = Some(Err(Lost));
                }
                Harm::Status { code, retry_after_secs } => {
                    self.is_over = true;
                    let status = super::seat::failure(code, retry_after_secs).to_status();
                    heard = Some(Ok(json!({ "type": "ERROR", "object": status })));
                }
                Harm::Delay(wait) => sleep(wait).await,
                Harm::Freeze(length) => {
                    let (revision, now) = {
                        let state = self.api.state();
                        (state.store.revision(), state.now())
                    };
                    self.faults.freeze(&self.client, revision, now, length);
                    self.thaw().await;
                }
                Harm::Clock(by) => self.faults.set_clock(&self.client, by),
                Harm::Partial(_) => {}
            }
        }
        heard
    }
}
