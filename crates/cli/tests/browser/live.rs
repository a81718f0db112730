//! The page while things happen: views that follow each other, lines that break, and who does not want to see things move.

use serde_json::{Value, json};

use super::devtools::Browser;
use super::still::{Door, Still};
use super::{shown, view};

/// How many elements would move, or change slowly.
const MOVING: &str = "[...document.querySelectorAll('*')]
    .flatMap((element) => [null, '::before', '::after'].map((part) => getComputedStyle(element, part)))
    .filter((style) => style.transitionDuration.split(', ').some((long) => long !== '0s') || style.animationName !== 'none')
    .length";

const FOCUSED: &str = "document.activeElement.getAttribute('aria-label')?.split(',')[0]";

fn node(name: &str) -> String {
    format!("document.querySelector('.berth:not(.leaving) > .node[aria-label^=\"{name},\"]')")
}

/// It shows the view of everything.
pub(super) fn follows(browser: &mut Browser, still: &Still, everything: &Value) {
    browser.prefer("light", "reduce");
    assert_eq!(browser.eval(MOVING), json!(0));
    browser.prefer("light", "no-preference");
    assert_ne!(browser.eval(MOVING), json!(0));

    // Another document would know nothing of it.
    browser.eval("window.isSame = true");
    browser.eval(&format!("{}.focus()", node("general-2")));
    let mut now = view::after(everything);
    still.show(&now);
    shown::until_drawn(browser, &now);
    browser.until("!document.querySelector('.leaving')");
    shown::is_shown(&shown::document(browser), &now);
    assert_eq!(browser.eval(FOCUSED), json!("general-2"), "nobody is sent away by what is new");

    // Whoever is at a node that goes stays among the nodes: at it, in what is shown of it, and where its whole pool goes.
    let mut without = |browser: &mut Browser, gone: &dyn Fn(&Value) -> bool, at: &str| {
        now["nodes"] = view::without(&now, gone);
        now["at"] = json!(at);
        still.show(&now);
        shown::until_drawn(browser, &now);
    };
    without(browser, &|node| node["name"] == "general-2", "2026-03-01T09:10:06.000Z");
    assert_eq!(browser.eval(FOCUSED), json!("general-3"));
    browser.eval(&format!("{}.focus()", node("general-3")));
    browser.press("Enter");
    without(browser, &|node| node["name"] == "general-3", "2026-03-01T09:10:07.000Z");
    browser.until("document.getElementById('detail').innerText.includes('This node is gone.')");
    browser.press("Escape");
    browser.until(&format!("{FOCUSED} && document.activeElement.matches('.node')"));
    browser.eval(&format!("{}.focus()", node("other-7")));
    without(browser, &|node| node["pool"].is_null(), "2026-03-01T09:10:08.000Z");
    browser.until(&format!("{FOCUSED} && document.activeElement.matches('.node')"));

    for (door, seconds) in [(Door::Broken, 10), (Door::Closed, 20)] {
        still.set(door);
        browser.until("!document.getElementById('lost').hidden");
        let said = browser.eval("document.getElementById('lost').innerText");
        let said = said.as_str().unwrap_or_default();
        assert!(said.starts_with("Connection lost. What you see is "), "{said}");
        assert_eq!(browser.eval("document.getElementById('live').textContent"), json!("not connected"));
        assert_eq!(
            browser.eval("document.getElementById('lost-words').getAttribute('role')"),
            json!("alert")
        );
        now["at"] = json!(format!("2026-03-01T09:10:{seconds}.000Z"));
        still.show(&now);
        still.set(Door::Open);
        shown::until_drawn(browser, &now);
        assert_eq!(browser.eval("document.getElementById('lost').hidden"), json!(true));
        browser.until("!document.querySelector('.leaving')");
        shown::is_shown(&shown::document(browser), &now);
    }

    browser.until(
        "document.getElementById('announce').textContent.startsWith('1 new decision. Launch, Provisioned: ')",
    );
    assert_eq!(browser.eval("window.isSame"), json!(true), "nothing was loaded again");
}
