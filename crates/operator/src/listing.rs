//! All that Berth reads in a cluster, as manifests: page by page, in the order of the kinds.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use berth_api::{Collection, Source};
use serde::Deserialize;

use crate::cluster::{Choice, Cluster, Refused, Unreachable};

/// As many objects as kubectl asks for at once.
const PAGE: usize = 500;
/// So many pages may wait to be read: the API and the reader work at the same time, and neither runs ahead.
const PAGES_AHEAD: usize = 4;

/// The pages as they come.
#[derive(Debug)]
pub struct Listing {
    pages: Receiver<Source>,
}

impl Listing {
    /// Reaches the cluster, and lists on a thread of its own, which ends when all is listed or nobody takes it.
    pub fn begin(choice: &Choice) -> Result<Self, Unreachable> {
        // A client belongs to the runtime that it was made in.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Unreachable::Runtime)?;
        let cluster = runtime.block_on(Cluster::reach(choice))?;
        let (sender, pages) = sync_channel(PAGES_AHEAD);
        let list = move || {
            let mut collections = berth_api::collections();
            while collections.next().is_some_and(|of| runtime.block_on(list(&cluster, of, &sender))) {}
        };
        thread::Builder::new().name("listing".to_owned()).spawn(list).map_err(Unreachable::Runtime)?;
        Ok(Self { pages })
    }
}

impl Iterator for Listing {
    type Item = Source;

    fn next(&mut self) -> Option<Source> {
        self.pages.recv().ok()
    }
}

/// What a page says about itself.
#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Hands on all pages of a collection. Whether to go on with the next one.
async fn list(cluster: &Cluster, collection: Collection, pages: &SyncSender<Source>) -> bool {
    let name = collection.to_string();
    let mut next = String::new();
    loop {
        let path = format!("{}?limit={PAGE}&continue={next}", collection.path());
        let unread = |why: String| Source::Unread { name: name.clone(), why };
        let text = match cluster.get(&path).await {
            Ok(text) => text,
            // Nobody installed this kind here, so there is nothing of it.
            Err(Refused { code: Some(404), .. }) if collection.is_custom => return true,
            Err(refused) => {
                let is_reached = refused.code.is_some_and(|code| code != 401);
                return pages.send(unread(said(refused))).is_ok() && is_reached;
            }
        };
        match serde_json::from_str::<Page>(&text) {
            Err(error) => return pages.send(unread(format!("is no list: {error}"))).is_ok(),
            Ok(page) => next = page.metadata.next,
        }
        if pages.send(Source::Text { name: name.clone(), text }).is_err() {
            return false;
        }
        if next.is_empty() {
            return true;
        }
    }
}

fn said(refused: Refused) -> String {
    let Refused { code, message } = refused;
    match code {
        Some(401) => format!("cannot be listed, nor all after it: credentials are not accepted: {message}"),
        Some(403) => format!("cannot be listed: {message}"),
        Some(410) => "changed faster than it could be listed; try again".to_owned(),
        Some(code) => format!("cannot be listed: {code} {message}"),
        None => format!("cannot be listed, nor all after it: {message}"),
    }
}
