//! Whether a page shows what its view says.

use serde_json::Value;

use super::devtools::Browser;
use crate::all;

/// As the page writes money.
pub(super) fn money(price: &Value) -> String {
    let Some(price) = price.as_str() else { return "–".to_owned() };
    let value: f64 = price.parse().expect("a price");
    let digits = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 2,
        _ if value >= 1.0 => 3,
        _ => 4,
    };
    format!("${value:.digits$}")
}

fn escaped(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Waits until the page shows a view of this time.
pub(super) fn until_drawn(browser: &mut Browser, view: &Value) {
    let at = view["at"].as_str().and_then(|at| at.get(11..19)).expect("a time");
    browser.until(&format!("document.getElementById('live')?.textContent === '{at} UTC'"));
    browser.settle();
}

/// The document as it is now.
pub(super) fn document(browser: &mut Browser) -> String {
    let document = browser.eval("document.documentElement.outerHTML");
    document.as_str().expect("a document").to_owned()
}

pub(super) fn is_shown(document: &str, view: &Value) {
    let count = |text: &str| document.matches(text).count();
    let nodes = all(view, "nodes");
    assert_eq!(count("class=\"berth\""), nodes.len(), "a berth for each node");
    for node in nodes {
        let name = escaped(&node["name"]);
        let price = money(&node["pricePerHour"]);
        assert!(document.contains(&format!("<b>{name}</b><span>{price}</span>")), "{name} costs {price}");
    }
    let decisions = all(view, "decisions");
    assert_eq!(count("class=\"item decision"), decisions.len());
    for decision in decisions {
        let message = escaped(&decision["message"]);
        assert!(document.contains(&format!("<p>{message}</p>")), "{message} is not shown");
    }
    let pods: usize = nodes.iter().map(|node| all(node, "pods").len()).sum();
    let cost = &view["cost"];
    let number = |price: &Value| price.as_str().and_then(|price| price.parse::<f64>().ok());
    let gap = match (number(&cost["perHour"]), number(&cost["lowerBoundPerHour"])) {
        (Some(cost), Some(bound)) if cost > 0.0 => percent((cost - bound) / cost),
        _ => "–".to_owned(),
    };
    for (name, value) in [
        ("Cost now", money(&cost["perHour"])),
        ("Lower bound", money(&cost["lowerBoundPerHour"])),
        ("Gap", gap),
        ("Nodes", nodes.len().to_string()),
        ("Pods on nodes", pods.to_string()),
        ("Pods pending", all(view, "pending").len().to_string()),
    ] {
        let figure = format!("<dt>{name}</dt><dd><span>{value}</span>");
        assert!(document.contains(&figure), "{name} is not {value}");
    }
    let rows = document.split("id=\"claim-rows\"").nth(1).and_then(|rest| rest.split("</tbody>").next());
    let rows = rows.map_or(0, |rows| rows.matches("<tr>").count());
    assert_eq!(rows, all(view, "claims").len().min(25));
    for pool in all(view, "pools") {
        assert!(document.contains(&format!("<span>{}</span>", escaped(&pool["name"]))), "{pool}");
        for limit in all(pool, "limits") {
            let resource = escaped(&limit["resource"]);
            assert!(document.contains(&format!("<li><span>{resource} ")), "{limit}");
        }
    }
    for pod in all(view, "pending") {
        for reason in all(pod, "reasons") {
            let words = format!("<b class=\"heed\">{}</b>", escaped(&reason["reason"]));
            assert!(document.contains(&words), "{reason}");
            assert!(document.contains(&escaped(&reason["message"])), "{reason}");
        }
    }
    for missing in all(view, "missing") {
        assert!(document.contains(&escaped(missing)), "{missing}");
    }
}

/// As the page writes shares.
fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.1 {
        format!("{:.1} %", share * 100.0)
    } else {
        format!("{} %", (share * 100.0).round())
    }
}
