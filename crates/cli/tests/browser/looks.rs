//! The page in light and dark, and on small screens.

use serde_json::{Value, json};

use super::devtools::Browser;
use super::still::Still;
use super::{shown, view};

const CONTRAST: &str = include_str!("contrast.js");
const SIZES: &str = include_str!("sizes.js");

fn is_readable(browser: &mut Browser, what: &str) {
    let judged = browser.eval(CONTRAST);
    assert!(judged["count"].as_u64().is_some_and(|count| count > 50), "{what}: {judged}");
    assert_eq!(judged["weak"], json!([]), "{what}");
}

/// All that has a colour is seen once in each scheme.
pub(super) fn are_readable(browser: &mut Browser, still: &Still) {
    for scheme in ["light", "dark"] {
        browser.prefer(scheme, "reduce");
        for (what, view) in [
            ("the beginning", view::of_the_beginning()),
            ("trouble", view::of_trouble()),
            ("everything", view::of_everything()),
        ] {
            still.show(&view);
            shown::until_drawn(browser, &view);
            is_readable(browser, &format!("{what}, {scheme}"));
        }
        browser.point_at("document.querySelector('#quays .cell')");
        browser.until("!document.getElementById('tip').hidden");
        is_readable(browser, &format!("a tip, {scheme}"));
        browser.click("document.querySelectorAll('.node')[4]");
        browser.until("document.getElementById('detail').open");
        is_readable(browser, &format!("a node, {scheme}"));
        browser.press("Escape");
        let schemes = browser.eval("getComputedStyle(document.body).backgroundColor");
        let expected = if scheme == "light" { "rgb(248, 246, 240)" } else { "rgb(12, 19, 25)" };
        assert_eq!(schemes, json!(expected), "it follows the scheme");
    }
    browser.prefer("light", "reduce");
}

pub(super) fn fit(browser: &mut Browser, wide: u32, what: &str) {
    let faults = browser.eval(&format!("{SIZES}({wide})"));
    assert_eq!(faults, json!([]), "{what} at {wide}");
}

/// On all screens, the same.
pub(super) fn fit_everywhere(browser: &mut Browser, still: &Still, everything: &Value) {
    for size in [(1440, 1000), (768, 1024), (390, 844), (320, 640)] {
        browser.resize(size);
        for view in [view::of_trouble(), everything.clone()] {
            still.show(&view);
            shown::until_drawn(browser, &view);
            shown::is_shown(&shown::document(browser), &view);
            fit(browser, size.0, "the page");
        }
        browser.click("document.querySelector('.node')");
        browser.until("document.getElementById('detail').open");
        fit(browser, size.0, "a node");
        browser.press("Escape");
    }
    browser.resize((1440, 1000));
}
