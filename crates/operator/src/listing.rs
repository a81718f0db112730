//! All that Berth reads in a cluster, as manifests: page by page, in the order of the kinds.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use berth_api::{Collection, Measured, Source};
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::cluster::{Choice, Cluster, Refused, Unreachable};
use crate::desk::Desk;
use crate::dialect::Dialect;
use crate::served::Served;
use crate::usage;

/// As many objects as kubectl asks for at once.
const PAGE: u32 = 500;
/// So many pages may wait to be read: the API and the reader work at the same time, and neither runs ahead.
const PAGES_AHEAD: usize = 4;

/// The pages as they come. Whatever is missing is among them, as what could not be read.
#[derive(Debug)]
pub struct Listing {
    pages: Receiver<Page>,
    is_over: bool,
    usage: Usage,
}

/// What nodes use, or why nobody says.
type Usage = Result<Measured, String>;

#[derive(Debug)]
enum Page {
    Is(Source),
    Usage(Usage),
    /// There are no more. Without it the listing broke off.
    Last,
}

impl Listing {
    /// Reaches the cluster, and lists on a thread of its own, which ends when all is listed or nobody takes it. Besides
    /// what is always read, what somebody has a use for now.
    pub fn begin(choice: &Choice, besides: Option<Collection>) -> Result<Self, Unreachable> {
        // A client belongs to the runtime that it was made in.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Unreachable::Runtime)?;
        let cluster = runtime.block_on(Cluster::reach(choice))?.patiently();
        let (sender, pages) = sync_channel(PAGES_AHEAD);
        let list = move || runtime.block_on(Lister { cluster, besides, pages: sender }.list_all());
        thread::Builder::new().name("listing".to_owned()).spawn(list).map_err(Unreachable::Runtime)?;
        Ok(Self { pages, is_over: false, usage: Ok(Measured::Never) })
    }

    /// What nodes use, as the operator would ask: where there are groups that want to know. To be asked once all is listed.
    pub fn usage(self) -> Result<Measured, String> {
        self.usage
    }
}

impl Iterator for Listing {
    type Item = Source;

    fn next(&mut self) -> Option<Source> {
        if self.is_over {
            return None;
        }
        loop {
            match self.pages.recv() {
                Ok(Page::Is(page)) => return Some(page),
                Ok(Page::Usage(usage)) => self.usage = usage,
                Ok(Page::Last) => {
                    self.is_over = true;
                    return None;
                }
                Err(_) => {
                    self.is_over = true;
                    let why = "broke off while it was listed, which is a mistake of Berth's".to_owned();
                    return Some(Source::Unread { name: "cluster".to_owned(), why });
                }
            }
        }
    }
}

/// Whether there is any use in going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

struct Lister {
    cluster: Cluster,
    besides: Option<Collection>,
    pages: SyncSender<Page>,
}

impl Lister {
    async fn list_all(self) {
        let served = match Served::by(&self.cluster).await {
            Ok(served) => served,
            Err(refused) => {
                self.miss("cluster", format!("does not say what it serves: {}", refused.message));
                self.hand_on(Page::Last);
                return;
            }
        };
        let mut has_groups = false;
        for collection in berth_api::collections().chain(self.besides) {
            let versions = served.versions_of(&collection);
            let next = match versions {
                // Nobody installed this kind here, so there is nothing of it.
                Some(versions) if versions.is_empty() => Next::GoOn,
                Some(versions) if !versions.contains(&collection.version) => {
                    let (others, ours) = (versions.join(", "), collection.version);
                    self.miss(&collection.to_string(), format!("is served as {others}; only {ours} is read"))
                }
                _ => {
                    let (next, objects) = self.list(&collection).await;
                    has_groups |= objects > 0 && collection.plural == Dialect::Vpsie.pools_plural();
                    next
                }
            };
            if next == Next::Stop {
                break;
            }
        }
        if has_groups {
            let usage = usage::measured_once(&Desk::new(self.cluster.clone())).await;
            self.hand_on(Page::Usage(usage.map_err(|refused| refused.to_string())));
        }
        self.hand_on(Page::Last);
    }

    /// Whether to go on, and how many objects there are.
    async fn list(&self, collection: &Collection) -> (Next, usize) {
        let name = collection.to_string();
        let (mut next, mut objects) = (None, 0);
        loop {
            let params = ListParams { limit: Some(PAGE), continue_token: next, ..ListParams::default() };
            let text = match self.cluster.ask(Request::new(collection.path()).list(&params)).await {
                Ok(text) => text,
                // Where it is not known what is served.
                Err(Refused { code: Some(404), .. }) => return (Next::GoOn, objects),
                Err(refused) => {
                    let is_heard = refused.code.is_some_and(|code| code != 401);
                    let missed = self.miss(&name, said(refused));
                    return (if is_heard { missed } else { Next::Stop }, objects);
                }
            };
            match serde_json::from_str::<List>(&text) {
                Err(error) => return (self.miss(&name, format!("is no list: {error}")), objects),
                Ok(list) => {
                    next = list.metadata.next.filter(|token| !token.is_empty());
                    objects += list.items.len();
                }
            }
            let page = Page::Is(Source::Listed { name: name.clone(), text });
            if self.hand_on(page) == Next::Stop {
                return (Next::Stop, objects);
            }
            if next.is_none() {
                return (Next::GoOn, objects);
            }
        }
    }

    fn miss(&self, name: &str, why: String) -> Next {
        self.hand_on(Page::Is(Source::Unread { name: name.to_owned(), why }))
    }

    fn hand_on(&self, page: Page) -> Next {
        if self.pages.send(page).is_ok() { Next::GoOn } else { Next::Stop }
    }
}

/// What a page says about itself.
#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

fn said(refused: Refused) -> String {
    let Refused { code, message, .. } = refused;
    match code {
        Some(401) => format!("cannot be listed, nor all after it: credentials are not accepted: {message}"),
        Some(403) => format!("cannot be listed: {message}"),
        Some(410) => "changed faster than it could be listed; try again".to_owned(),
        Some(code) => format!("cannot be listed: {code} {message}"),
        None => format!("cannot be listed, nor all after it: {message}"),
    }
}
