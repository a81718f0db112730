//! The page by keyboard.

use serde_json::json;

use super::devtools::Browser;

/// What has the focus, as people would call it.
const FOCUS: &str = "(() => {
    const at = document.activeElement;
    const name = at.id || at.getAttribute('aria-label') || at.getAttribute('aria-labelledby') || at.textContent.trim();
    return at.matches('.node') ? name.split(',')[0] : name;
})()";

const ORDER: [&str; 25] = [
    "Skip to the nodes",
    "Nodes",
    "Pending",
    "Decisions",
    "Claims",
    "course",
    "One web less",
    "Replicas of shop/web",
    "One web more",
    "One worker less",
    "Replicas of shop/worker",
    "One worker more",
    "50 %",
    "100 %",
    "200 %",
    "Reclaim 30 % of spot",
    "Break the cloud",
    "× 1",
    "× 5",
    "× 20",
    "general-0",
    "pending-title",
    "decisions-title",
    "claims-scroll",
    "all-claims",
];

/// Keys, one after the other, and what has the focus after each.
const WALK: [(&str, &str); 19] = [
    ("Tab", "Skip to the nodes"),
    ("Enter", "nodes"),
    // All nodes are one stop.
    ("Tab", "general-0"),
    ("ArrowLeft", "general-0"),
    ("ArrowRight", "general-1"),
    ("End", "other-7"),
    ("ArrowRight", "other-7"),
    ("ArrowUp", "spot-8"),
    ("ArrowDown", "other-7"),
    ("Home", "general-0"),
    ("ArrowRight", "general-1"),
    ("ArrowRight", "general-2"),
    ("Tab", "pending-title"),
    ("Shift+Tab", "general-2"),
    // Into the dialog, which keeps the focus, and back.
    ("Enter", "detail-close"),
    ("Escape", "general-2"),
    ("Enter", "detail-close"),
    ("Enter", "general-2"),
    ("Tab", "pending-title"),
];

/// The page has just been loaded, and shows the view of everything.
pub(super) fn reaches_all(browser: &mut Browser) {
    let mut order = Vec::new();
    for _ in ORDER {
        browser.press("Tab");
        order.push(browser.eval(FOCUS));
        let is_marked = browser.eval("document.activeElement.matches(':focus-visible')");
        assert_eq!(is_marked, json!(true), "{order:?} is marked");
    }
    assert_eq!(json!(order), json!(ORDER));
}

/// The page has just been loaded, and shows the view of everything.
pub(super) fn is_enough(browser: &mut Browser) {
    for (step, (key, expected)) in WALK.into_iter().enumerate() {
        browser.press(key);
        assert_eq!(browser.eval(FOCUS), json!(expected), "after {key}, at {step}");
        let dialog = browser.eval(
            "document.getElementById('detail').open && document.getElementById('detail-title').textContent",
        );
        assert_eq!(dialog, if expected == "detail-close" { json!("general-2") } else { json!(false) });
    }

    // What a pointer is told, the keyboard is told too, and it can be put away.
    browser.press("Shift+Tab");
    browser.until("document.querySelector('#tip:not([hidden])')?.innerText.startsWith('general-2')");
    browser.press("Escape");
    browser.until("document.getElementById('tip').hidden");
    browser.eval("document.getElementById('course').focus()");
    for (key, expected) in [
        ("ArrowLeft", "09:10:00: cost $3.300, lower bound $1.650"),
        ("ArrowLeft", "09:07:00: cost $1.400, lower bound $0.7000"),
        ("ArrowLeft", "09:04:00: cost $1.900, lower bound $0.9000"),
        ("ArrowRight", "09:07:00: cost $1.400, lower bound $0.7000"),
    ] {
        browser.press(key);
        assert_eq!(browser.eval("document.getElementById('announce').textContent"), json!(expected));
    }
}
