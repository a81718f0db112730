//! The page as a screen reader has it: the tree that the browser makes for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::devtools::Browser;
use crate::all;

/// What can be used, and what is a place or a picture: nothing of it says anything without a name.
const NAMED: [&str; 16] = [
    "button",
    "link",
    "textbox",
    "spinbutton",
    "slider",
    "checkbox",
    "combobox",
    "meter",
    "img",
    "image",
    "figure",
    "table",
    "dialog",
    "region",
    "navigation",
    "heading",
];

struct Heard {
    role: String,
    name: String,
    properties: Value,
}

/// All that is told, in the order in which it is read.
fn heard(browser: &mut Browser) -> Vec<Heard> {
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let nodes = all(&tree, "nodes");
    let by_id: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["nodeId"].as_str()?, node))).collect();
    let text = |value: &Value| value["value"].as_str().unwrap_or_default().trim().to_owned();
    let mut told = Vec::new();
    let mut ahead: Vec<&Value> = nodes.iter().filter(|node| node.get("parentId").is_none()).collect();
    while let Some(node) = ahead.pop() {
        let children = all(node, "childIds").iter().rev();
        ahead.extend(children.filter_map(|id| by_id.get(id.as_str()?)));
        if node["ignored"] == json!(false) {
            let (role, name) = (text(&node["role"]), text(&node["name"]));
            told.push(Heard { role, name, properties: node["properties"].clone() });
        }
    }
    told
}

fn property(heard: &Heard, name: &str) -> Value {
    let properties = heard.properties.as_array().into_iter().flatten();
    let found = properties.into_iter().find(|property| property["name"] == name);
    found.map_or(Value::Null, |property| property["value"]["value"].clone())
}

fn everything_has_a_name(heard: &[Heard]) {
    for heard in heard {
        assert!(!NAMED.contains(&&*heard.role) || !heard.name.is_empty(), "a {} without a name", heard.role);
    }
    // And one of its own, where one would have to choose.
    let mut known = BTreeSet::new();
    for heard in heard.iter().filter(|heard| ["button", "link", "spinbutton"].contains(&&*heard.role)) {
        assert!(known.insert((&heard.role, &heard.name)), "two of {} {}", heard.role, heard.name);
    }
}

/// It shows the view of everything.
pub(super) fn understands(browser: &mut Browser) {
    let tree = heard(browser);
    everything_has_a_name(&tree);
    let named = |role: &str| -> Vec<&str> {
        tree.iter().filter(|heard| heard.role == role).map(|heard| &*heard.name).collect()
    };
    for landmark in ["banner", "main", "navigation", "contentinfo"] {
        assert_eq!(named(landmark).len(), 1, "{landmark}");
    }
    let headings: Vec<(i64, &str)> = tree
        .iter()
        .filter(|heard| heard.role == "heading")
        .map(|heard| (property(heard, "level").as_i64().unwrap_or_default(), &*heard.name))
        .collect();
    let expected = [
        (1, "Berth"),
        (2, "Cost and size"),
        (2, "Try it"),
        (2, "Nodes"),
        (3, "general"),
        (3, "resting"),
        (3, "spot"),
        (3, "Without a pool"),
        (2, "Pending pods"),
        (2, "Decisions"),
        (2, "Claims"),
    ];
    assert_eq!(headings.len(), expected.len(), "{headings:?}");
    for ((level, name), (expected_level, begins)) in headings.iter().zip(expected) {
        assert!(*level == expected_level && name.starts_with(begins), "{level} {name} is not {begins}");
    }
    let charts: Vec<&str> = named("image").into_iter().chain(named("img")).collect();
    let chart =
        "Cost per hour in the last 10 min: highest $3.300, lowest $0.1000, now $3.300. The lower bound is";
    assert!(matches!(&*charts, [words] if words.starts_with(chart)), "{charts:?}");
    let node = "general-4, Disrupting because of Underutilized, s-4x · zone-a · on-demand, $0.2600 /h, \
                cpu 72 % of 3.9, memory 47 % of 15 GiB, 7 pods";
    assert!(named("button").contains(&node), "{:?}", named("button"));
    assert_eq!(named("meter"), ["cpu", "memory", "nodes"]);
    let live = tree.iter().filter(|heard| property(heard, "live") == "polite").count();
    assert!(live > 0, "something says what happens");

    browser.click("document.querySelector('.node')");
    let tree = heard(browser);
    everything_has_a_name(&tree);
    let dialogs: Vec<&Heard> = tree.iter().filter(|heard| heard.role == "dialog").collect();
    assert!(matches!(&*dialogs, [dialog] if dialog.name == "general-0" && property(dialog, "modal") == true));
    browser.press("Escape");
}
