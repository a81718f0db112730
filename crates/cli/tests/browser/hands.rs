//! A demo that is controlled from its page.

use std::collections::BTreeSet;

use berth_api::Timestamp;
use berth_cloud::CatalogOptions;
use serde_json::{Value, json};

use super::devtools::Browser;
use super::truth::{Truth, told_by};
use super::{shown, view};
use crate::{Demo, all, micro_usd, running};

/// A demo, the page that is open on it, and what is true of it.
pub(super) struct Helm<'a> {
    pub(super) demo: &'a Demo,
    pub(super) browser: &'a mut Browser,
    pub(super) truth: &'a Truth,
}

/// The longest that anything may take. It decides no test.
const SECS_MAX: u64 = 180;

fn button(words: &str) -> String {
    format!("[...document.querySelectorAll('#controls button')].find((at) => at.textContent === '{words}')")
}

fn replicas(workload: &str) -> String {
    format!("document.querySelector('[aria-label=\"Replicas of shop/{workload}\"]')")
}

impl Helm<'_> {
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.demo.until(SECS_MAX, what, holds)
    }

    /// Clicks on one of several choices, which is then the one that is chosen.
    fn choose(&mut self, words: &str) {
        self.browser.click(&button(words));
        self.browser.until(&format!("{}.getAttribute('aria-pressed') === 'true'", button(words)));
    }

    /// Waits until what the page is told is what the API says, and this holds too.
    fn until_true(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.until(what, |view| holds(view) && told_by(view) == self.truth.told())
    }

    /// Waits until the page shows a view that holds still while it is looked at.
    fn until_shown(&mut self) {
        let lasting = |view: &Value| json!([told_by(view), view["decisions"], view["cost"], view["missing"]]);
        for _ in 0..SECS_MAX {
            let before = self.until("it is seen", |_| true);
            self.browser.until(&format!("view.at >= {}", before["at"]));
            self.browser.settle();
            let document = shown::document(self.browser);
            if self.demo.view().as_ref().map(lasting) == Some(lasting(&before)) {
                return shown::is_shown(&document, &before);
            }
        }
        panic!("it does not hold still");
    }

    pub(super) fn scales(&mut self) {
        self.browser.until("document.querySelectorAll('#workloads input').length === 3");
        for (workload, wanted) in [("web", Some(9)), ("worker", Some(12)), ("api", None)] {
            match wanted {
                Some(wanted) => self.browser.write(&replicas(workload), &wanted.to_string()),
                None => self
                    .browser
                    .click(&format!("document.querySelector('[aria-label=\"One {workload} more\"]')")),
            }
            let shown = self.browser.eval(&format!("Number({}.value)", replicas(workload)));
            assert!(wanted.is_none_or(|wanted| shown == wanted), "{workload}: {shown}");
            self.until(workload, |_| self.truth.replicas(workload) == shown);
        }
    }

    pub(super) fn runs_faster(&mut self) {
        self.choose("× 20");
        // At its own speed it is never ahead.
        self.until("time runs ahead", |view| {
            let ahead = |at: Timestamp| at.duration_since(Timestamp::now()).as_secs() > 20;
            let at = view["at"].as_str().and_then(|at| at.parse().ok());
            view["controls"]["speed"] == 20 && at.is_some_and(ahead)
        });
        self.browser.click("document.querySelector('[aria-label=\"One api more\"]')");
        self.until("a pod was made in the future", |_| self.truth.newest() > Timestamp::now());
        let at_rest = self.until_true("it is at rest", |view| {
            all(view, "nodes").iter().all(|node| node["phase"] == "Ready")
                && all(view, "pending").is_empty()
                && running(view, "web-") == 9
                && running(view, "worker-") == 12
        });
        let prices = all(&at_rest, "nodes").iter().map(|node| micro_usd(&node["pricePerHour"]));
        assert_eq!(
            prices.sum::<i64>(),
            micro_usd(&at_rest["cost"]["perHour"]),
            "the cost is that of its nodes"
        );
    }

    /// Nodes come and go meanwhile; what each of them costs is known from the catalog.
    pub(super) fn changes_the_price(&mut self) {
        let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("a catalog");
        let halved = |node: &Value| {
            let instance = catalog.types.iter().find(|known| node["instanceType"] == *known.name);
            let offering = instance.into_iter().flat_map(|known| &known.offerings).find(|offering| {
                node["zone"] == *offering.zone && node["capacityType"] == offering.capacity_type.name()
            });
            offering.is_some_and(|offering| node["pricePerHour"] == offering.price.scaled(1, 2).to_string())
        };
        self.choose("50 %");
        let view = self.until("spot costs half as much", |view| {
            let mut of_spot =
                all(view, "nodes").iter().filter(|node| node["capacityType"] == "spot").peekable();
            of_spot.peek().is_some() && of_spot.all(halved)
        });
        assert_eq!(view["controls"]["pricePercent"], 50);
    }

    /// Which of them it is nobody knows before; it may still be on its way.
    pub(super) fn reclaims_spot(&mut self) {
        self.browser.click(&button("Reclaim 30 % of spot"));
        let view = self.until("it was noted", |view| all(view, "decisions").iter().any(is_interruption));
        let noted = all(&view, "decisions").iter().find(|decision| is_interruption(decision));
        let (message, nodes) =
            noted.map(|at| (at["message"].clone(), at["objects"].clone())).unwrap_or_default();
        assert!(nodes.as_array().is_some_and(|nodes| !nodes.is_empty()), "{message}");
        self.until("a node of spot is gone", |_| {
            let now = self.truth.spot_nodes();
            nodes.as_array().into_iter().flatten().filter_map(Value::as_str).all(|name| !now.contains(name))
        });
        self.browser.until(&format!("document.getElementById('log').innerText.includes({message})"));
        assert_eq!(
            self.browser.eval("document.querySelector('#controls [role=alert]:not(:empty)')"),
            Value::Null
        );
    }

    /// While the cloud is broken, more is asked for than could ever be bought.
    pub(super) fn breaks_the_cloud(&mut self) {
        self.browser.click(&button("Break the cloud"));
        self.browser.until(&button("Mend the cloud"));
        self.browser.write(&replicas("web"), "250");
        // What is bought waits for its machine, or was given up after a while.
        let view = self.until_true("pods wait", |view| {
            all(view, "pending").iter().any(|pod| !all(pod, "reasons").is_empty())
                && all(view, "claims").iter().any(|claim| claim["node"].is_null())
        });
        assert_eq!(view["controls"]["cloudBroken"], true);
        self.browser.until("document.getElementById('waiting').innerText.includes('shop/web × ')");
        let (seen, known) = (view::shape(&view), view::shape(&view::of_everything()));
        assert_eq!(
            seen.symmetric_difference(&known).collect::<BTreeSet<_>>(),
            BTreeSet::new(),
            "views have this form"
        );

        self.browser.write(&replicas("web"), "9");
        self.browser.click(&button("Mend the cloud"));
        self.browser.until(&button("Break the cloud"));
        self.until_true("it is at rest again", |view| {
            all(view, "nodes").iter().all(|node| node["phase"] == "Ready")
                && all(view, "claims").len() == all(view, "nodes").len()
                && all(view, "pending").is_empty()
                && running(view, "web-") == 9
        });
        self.choose("× 1");
        self.until_shown();
    }
}

fn is_interruption(decision: &Value) -> bool {
    decision["kind"] == "Interruption"
}
