//! The page in a real browser. What it shows is held against what it is told, and what it is told against what is true.

mod devtools;
mod hands;
mod keyboard;
mod live;
mod looks;
mod reader;
mod shown;
mod still;
mod truth;
mod view;

use devtools::{Browser, chromium};
use hands::Helm;
use still::Still;
pub(crate) use truth::Truth;

use super::{Demo, ask};

const NOTHING: [String; 0] = [];

#[test]
fn the_page_is_for_everybody() {
    let Some(program) = chromium() else { return };
    let page = {
        let demo = Demo::start("demo --port 0").expect("it starts");
        ask(&demo.page, "GET", "/", "").expect("the page answers")
    };
    assert_eq!(page.code, 200);
    let everything = view::of_everything();
    let still = Still::new(page, &everything);
    let mut browser = Browser::start(program, "still");
    browser.resize((1440, 1000));
    browser.prefer("light", "reduce");
    for keys in [keyboard::reaches_all, keyboard::is_enough] {
        browser.open(&still.address);
        shown::until_drawn(&mut browser, &everything);
        keys(&mut browser);
    }
    reader::understands(&mut browser);
    looks::fit_everywhere(&mut browser, &still, &everything);
    looks::are_readable(&mut browser, &still);
    assert_eq!(browser.console(), NOTHING);
    live::follows(&mut browser, &still, &everything);
    // That nobody answered, which was so.
    let others = browser.console().into_iter().filter(|said| !said.contains(r#""source":"network""#));
    assert_eq!(others.collect::<Vec<_>>(), NOTHING);
    assert_eq!(still.asked(), ["/", "/api/stream", "/api/view"], "nothing else is asked for");
}

#[test]
fn a_demo_obeys_its_page_and_is_as_the_page_says() {
    let Some(program) = chromium() else { return };
    let demo = Demo::start("demo --port 0 --seed 3").expect("it starts");
    let truth = Truth::of(&demo.kubeconfig);
    let mut browser = Browser::start(program, "demo");
    browser.resize((1440, 1000));
    browser.open(&demo.page);
    let mut helm = Helm { demo: &demo, browser: &mut browser, truth: &truth };
    helm.scales();
    helm.runs_faster();
    helm.changes_the_price();
    helm.reclaims_spot();
    helm.breaks_the_cloud();
    assert_eq!(browser.console(), NOTHING);
}
