//! What a cloud is asked, each thing in its time: one that does not answer holds up nobody.

use std::sync::Arc;
use std::time::Duration;

use berth_api::ClassKind;
use berth_cloud::Cloud;
use berth_cloud::machine::{Notice, NoticeKind};
use berth_cloud::provider::{Listing, Refusal, list_all};
use tokio::time::{sleep, timeout};

use crate::machines::Machines;
use crate::office::Office;
use crate::operator::Lead;
use crate::watched::Watched;

const NOTICES_EVERY: Duration = Duration::from_secs(5);
const MACHINES_EVERY: Duration = Duration::from_mins(1);
const CATALOG_EVERY: Duration = Duration::from_mins(1);
/// A cloud that does not answer is asked again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// A cloud that takes longer is not waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Asks a cloud for as long as this lives.
pub(crate) async fn attend(
    kind: ClassKind,
    cloud: Arc<dyn Cloud>,
    (office, watched): (Office, Watched),
    wanted: Option<Lead>,
) {
    // VPSie takes so many calls a minute from all of its account's programs: who stands by makes none.
    let lead = wanted.filter(|_| kind == ClassKind::Vpsie);
    let asking = Asking { kind, cloud, office, watched, lead };
    futures::join!(asking.catalogs(), asking.notices(), asking.machines());
}

struct Asking {
    kind: ClassKind,
    cloud: Arc<dyn Cloud>,
    office: Office,
    watched: Watched,
    /// Only who leads asks, if there is one.
    lead: Option<Lead>,
}

impl Asking {
    /// Waits until it is this one's turn to ask. What was known before is forgotten by then.
    async fn turn(&self) {
        let Some(mut lead) = self.lead.clone().filter(|lead| lead.borrow().is_none()) else { return };
        self.note(|machines| {
            machines.forget();
            false
        });
        if lead.wait_for(Option::is_some).await.is_err() {
            // Nobody will ever lead.
            std::future::pending::<()>().await;
        }
    }

    /// Takes note of an answer, and wakes the loop if it was news.
    fn note(&self, take: impl FnOnce(&mut Machines) -> bool) {
        let is_news = take(self.office.machines().entry(self.kind).or_default());
        if is_news {
            self.watched.wake();
        }
    }

    fn note_troubles(&self) {
        let troubles = self.cloud.troubles();
        self.note(|machines| machines.troubled(troubles));
    }

    async fn catalogs(&self) {
        let mut wanted = self.office.zones();
        loop {
            self.turn().await;
            let zones = wanted.borrow_and_update().get(&self.kind).cloned().unwrap_or_default();
            self.cloud.serve(&zones);
            match timeout(ANSWER_MAX, self.cloud.catalog()).await {
                Ok(Ok(catalog)) => {
                    self.note(|machines| machines.offered(catalog, zones));
                    self.note_troubles();
                    // Who asks for another zone does not wait for the next time.
                    let _ = timeout(CATALOG_EVERY, wanted.changed()).await;
                }
                // What was offered last still is, as far as anybody knows.
                Ok(Err(refusal)) => self.withheld(refusal.to_string()).await,
                Err(_) => self.withheld(late().to_string()).await,
            }
        }
    }

    async fn withheld(&self, why: String) {
        self.note(|machines| machines.withheld(why));
        self.note_troubles();
        sleep(ASK_AGAIN).await;
    }

    async fn notices(&self) {
        loop {
            self.turn().await;
            if let Ok(Ok(notices)) = timeout(ANSWER_MAX, self.cloud.notices()).await {
                let ends = |notice: &Notice| notice.kind != NoticeKind::Rebalance;
                let ending = notices.into_iter().filter(ends).map(|notice| notice.machine);
                self.note(|machines| machines.noticed(ending));
            }
            sleep(NOTICES_EVERY).await;
        }
    }

    async fn machines(&self) {
        loop {
            self.turn().await;
            let listing = timeout(ANSWER_MAX, list_all(&*self.cloud))
                .await
                .unwrap_or_else(|_| Listing { stopped_by: Some(late()), ..Listing::default() });
            let is_whole = listing.stopped_by.is_none();
            self.note(|machines| machines.listed(listing));
            self.note_troubles();
            sleep(if is_whole { MACHINES_EVERY } else { ASK_AGAIN }).await;
        }
    }
}

fn late() -> Refusal {
    Refusal::Unknown("it did not answer in time".to_owned())
}
