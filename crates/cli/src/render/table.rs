//! A plan as text.

use berth_core::resources::{CPU, MEMORY, PODS};
use berth_core::units::Price;
use comfy_table::{CellAlignment, ColumnConstraint};

use super::fill::Fill;
use super::money::{hourly, monthly, signed};
use super::removals::{Removals, Staying};
use super::style::{Style, Tone, cell, lines, printable, toned_cell};
use super::view::{Cost, LeftOut, Placement, PoolsRefusal, Purchase, View, counted};

const BAR_WIDTH: u32 = 5;
/// A window this wide has room for all columns of what is bought.
const WIDE: u16 = 132;
const MIN_VALUES_RELAXED: &str = "minValues given up";

/// The whole plan, ready to print.
pub(crate) fn plan_text(view: &View, style: Style) -> String {
    let tone = if view.pods_left_out == 0 { Tone::Good } else { Tone::Bad };
    let mut text = style.toned(&view.verdict, tone);
    text.push('\n');
    let mut section = |heading: &str, body: &str| {
        text.push('\n');
        text.push_str(&style.heading(heading));
        text.push('\n');
        text.push_str(body);
        text.push('\n');
    };
    if let Some(removals) = view.removals.as_ref().filter(|removals| !removals.steps.is_empty()) {
        let heading = format!("Take away {}", counted(removals.nodes_removed, "node"));
        section(&heading, &steps(removals, style));
    }
    if !view.purchases.is_empty() {
        let heading = format!("Buy {}", counted(view.nodes_new, "node"));
        section(&heading, &purchases(&view.purchases, style));
    }
    if !view.placements.is_empty() {
        section("On existing nodes", &placements(&view.placements, style));
    }
    if !view.left_out.is_empty() {
        section("Left out", &left_out(&view.left_out, style));
    }
    if let Some(removals) = view.removals.as_ref().filter(|removals| !removals.staying.is_empty()) {
        section("Why the other nodes stay", &staying(&removals.staying, style));
    }
    section("Cost", &costs(&view.cost, style));
    if !view.skipped.is_empty() {
        let skipped = format!("Skipped, because Berth has no use for them: {}", printable(&view.skipped));
        text.push('\n');
        text.push_str(&style.toned(&skipped, Tone::Quiet));
        text.push('\n');
    }
    text
}

/// `███░░ 62%`, or `-` where there is nothing to fill.
fn bar(fill: &Fill) -> String {
    let Some(percent) = fill.percent() else { return "-".to_owned() };
    // Rounded up: whatever is taken at all shows.
    let full = (percent.min(100) * BAR_WIDTH).div_ceil(100);
    let bar: String = (0..BAR_WIDTH).map(|i| if i < full { '█' } else { '░' }).collect();
    format!("{bar} {percent:>3}%")
}

fn purchases(purchases: &[Purchase], style: Style) -> String {
    use CellAlignment::{Left, Right};
    if style.width.is_some_and(|width| width < WIDE) {
        return narrow_purchases(purchases, style);
    }
    let mut table = style.table(
        ["COUNT", "POOL", "TYPE", "ZONE", "CAPACITY", "EACH/H", "TOGETHER/H", "CPU", "MEMORY", "PODS", "FOR"],
        [Right, Left, Left, Left, Left, Right, Right, Left, Left, Left, Left],
    );
    for purchase in purchases {
        let filled = |resource: &str| {
            purchase.fills.iter().find(|fill| &*fill.resource == resource).map_or_else(|| "-".to_owned(), bar)
        };
        let others = purchase.fills.iter().filter(|fill| ![CPU, MEMORY, PODS].contains(&&*fill.resource));
        let mut remarks = vec![purchase.pods.clone()];
        remarks.extend(others.map(|fill| format!("{} {}", fill.resource, bar(fill))));
        remarks.extend(purchase.min_values_relaxed.then(|| MIN_VALUES_RELAXED.to_owned()));
        remarks.retain(|remark| !remark.is_empty());
        table.add_row([
            cell(&purchase.count.to_string()),
            cell(&purchase.pool),
            cell(&purchase.instance_type),
            cell(&purchase.zone),
            cell(purchase.capacity_type.name()),
            cell(&price(purchase.price, purchase.estimated)),
            cell(&price(purchase.together, purchase.estimated)),
            cell(&filled(CPU)),
            cell(&filled(MEMORY)),
            cell(&filled(PODS)),
            cell(&remarks.join("; ")),
        ]);
    }
    table.trim_fmt()
}

/// The same in fewer columns and more lines.
fn narrow_purchases(purchases: &[Purchase], style: Style) -> String {
    use CellAlignment::{Left, Right};
    let mut table =
        style.table(["COUNT", "WHAT", "PER HOUR", "HOW FULL", "FOR"], [Right, Left, Right, Left, Left]);
    if let Some(how_full) = table.column_mut(3) {
        how_full.set_constraint(ColumnConstraint::ContentWidth);
    }
    for purchase in purchases {
        let resource_width = purchase.fills.iter().map(|fill| fill.resource.len()).max().unwrap_or(0);
        let each = price(purchase.price, purchase.estimated);
        let mut prices = vec![each];
        if purchase.count > 1 {
            prices.push(format!("all {}", price(purchase.together, purchase.estimated)));
        }
        let mut remarks = vec![purchase.pods.clone()];
        remarks.extend(purchase.min_values_relaxed.then(|| MIN_VALUES_RELAXED.to_owned()));
        table.add_row([
            cell(&purchase.count.to_string()),
            lines([
                &*purchase.instance_type,
                &purchase.pool,
                &format!("{} {}", purchase.zone, purchase.capacity_type),
            ]),
            lines(prices.iter().map(String::as_str)),
            lines(
                purchase
                    .fills
                    .iter()
                    .map(|fill| format!("{:resource_width$} {}", fill.resource, bar(fill)))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(String::as_str),
            ),
            lines(remarks.iter().map(String::as_str)),
        ]);
    }
    table.trim_fmt()
}

fn price(price: Price, estimated: bool) -> String {
    let mark = if estimated { " est." } else { "" };
    format!("{}{mark}", hourly(price))
}

/// Step by step what goes: each may be the last that is done.
fn steps(removals: &Removals, style: Style) -> String {
    use CellAlignment::{Left, Right};
    let is_narrow = style.width.is_some_and(|width| width < WIDE);
    let mut table = if is_narrow {
        style.table(["STEP", "WHAT", "SAVES", "WHY"], [Right, Left, Right, Left])
    } else {
        style.table(
            ["STEP", "ACTION", "REASON", "NODES", "INSTEAD", "PODS MOVED", "SAVES/H", "PER MONTH", "WHY"],
            [Right, Left, Left, Left, Left, Right, Right, Right, Left],
        )
    };
    for step in &removals.steps {
        let (number, moved) = (step.number.to_string(), step.pods_moved.to_string());
        let (per_hour, per_month) = (hourly(step.saves), monthly(step.saves));
        table.add_row(if is_narrow {
            let mut what = vec![format!("{} {}", step.action, step.reason.name()), step.nodes.clone()];
            what.extend((!step.replacements.is_empty()).then(|| format!("for {}", step.replacements)));
            what.push(format!("{} moved", counted(step.pods_moved, "pod")));
            vec![
                cell(&number),
                lines(what.iter().map(String::as_str)),
                lines([&*format!("{per_hour}/h"), &format!("{per_month}/month")]),
                cell(&step.why),
            ]
        } else {
            let instead = if step.replacements.is_empty() { "-" } else { &step.replacements };
            [
                number.as_str(),
                step.action,
                step.reason.name(),
                &step.nodes,
                instead,
                &moved,
                &per_hour,
                &per_month,
                &step.why,
            ]
            .map(cell)
            .to_vec()
        });
    }
    let mut paragraphs = vec![table.trim_fmt()];
    paragraphs.extend(removals.further.map(|(count, saves)| {
        format!("  {} more save {} an hour; -o json lists all.", counted(count, "step"), hourly(saves))
    }));
    paragraphs.push(style.paragraph(&removals.terms));
    paragraphs.join("\n")
}

fn staying(groups: &[Staying], style: Style) -> String {
    use CellAlignment::{Left, Right};
    let mut table = style.table(["NODES", "REASON", "WHICH", "BECAUSE"], [Right, Left, Left, Left]);
    for group in groups {
        table.add_row([
            cell(&group.count.to_string()),
            cell(group.reason.name()),
            cell(&group.nodes),
            cell(&group.message),
        ]);
    }
    table.trim_fmt()
}

fn placements(placements: &[Placement], style: Style) -> String {
    use CellAlignment::{Left, Right};
    let mut table = style.table(["NODE", "PODS", "WHICH"], [Left, Right, Left]);
    for placement in placements {
        table.add_row([cell(&placement.node), cell(&placement.pod_count.to_string()), cell(&placement.pods)]);
    }
    table.trim_fmt()
}

fn left_out(groups: &[LeftOut], style: Style) -> String {
    let texts = groups
        .iter()
        .map(|group| format!("  {}\n{}", printable(&group.pods), refusals(&group.refusals, style)));
    texts.collect::<Vec<_>>().join("\n")
}

/// Pool by pool, why not.
pub(crate) fn refusals(refusals: &[PoolsRefusal], style: Style) -> String {
    let mut table = style.table(["  POOL", "REASON", "BECAUSE"], [CellAlignment::Left; 3]);
    for refusal in refusals {
        table.add_row([
            cell(&format!("  {}", refusal.pools)),
            toned_cell(refusal.reason.name(), Tone::Bad),
            cell(&refusal.message),
        ]);
    }
    table.trim_fmt()
}

fn costs(cost: &Cost, style: Style) -> String {
    use CellAlignment::{Left, Right};
    let mut table = style.table(["", "PER HOUR", "PER MONTH", ""], [Left, Right, Right, Left]);
    let estimated = if cost.estimated { "partly estimated" } else { "" };
    for (label, per_hour, per_month, note) in [
        ("before", hourly(cost.before), monthly(cost.before), String::new()),
        ("after", hourly(cost.after), monthly(cost.after), estimated.to_owned()),
        ("change", signed(cost.change(), hourly), signed(cost.change(), monthly), String::new()),
        (
            "lower bound",
            hourly(cost.lower_bound),
            monthly(cost.lower_bound),
            format!("no plan for these pods costs less; gap {}", cost.gap()),
        ),
    ] {
        table.add_row([cell(label), cell(&per_hour), cell(&per_month), cell(&note)]);
    }
    let mut paragraphs = vec![table.trim_fmt()];
    if cost.estimated {
        paragraphs.push("  Prices marked est. are estimated from on-demand prices, not quoted.".to_owned());
    }
    if cost.unpriced_nodes > 0 {
        let nodes = counted(cost.unpriced_nodes, "existing node");
        paragraphs.push(format!("  Without {nodes} of unknown price."));
    }
    paragraphs.extend(cost.beyond_prices_note().map(|note| format!("  {note}")));
    paragraphs.extend(cost.warning.as_ref().map(|warning| format!("  {warning}")));
    paragraphs.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{assert_golden, scenes};
    use super::*;

    #[test]
    fn plans_as_text() {
        for scene in scenes() {
            let view = scene.view();
            let text = plan_text(&view, Style::PLAIN);
            assert_golden(&format!("{}.txt", scene.name), &text);
            assert!(!text.contains('\u{1b}'), "{} has colour or worse", scene.name);
            let narrow = plan_text(&view, Style { colour: false, width: Some(80) });
            assert_golden(&format!("{}-80.txt", scene.name), &narrow);
        }
    }

    #[test]
    fn lines_fit_the_window() {
        for scene in scenes() {
            let view = scene.view();
            let text = plan_text(&view, Style { colour: false, width: Some(100) });
            let tables = text.lines().skip(1).filter(|line| !line.starts_with("Skipped"));
            for line in tables {
                assert!(line.chars().count() <= 100, "{}: {line}", scene.name);
            }
        }
    }

    #[test]
    fn colour_only_repeats_the_words() {
        for scene in scenes() {
            let view = scene.view();
            let coloured = plan_text(&view, Style { colour: true, width: None });
            let plain = plan_text(&view, Style::PLAIN);
            assert!(coloured.contains('\u{1b}'), "{} has no colour", scene.name);
            for (coloured, plain) in coloured.lines().zip(plain.lines()) {
                assert_eq!(without_escapes(coloured).trim_end(), plain, "{}", scene.name);
            }
        }
    }

    fn without_escapes(text: &str) -> String {
        let mut pieces = text.split('\u{1b}');
        let mut plain = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
        }
        plain
    }
}
