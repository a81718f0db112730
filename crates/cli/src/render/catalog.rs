//! A catalog as text: a line for each instance type.

use berth_core::catalog::{CapacityType, Catalog, InstanceType};
use berth_core::names;
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, format_amount};
use comfy_table::CellAlignment;

use super::money::hourly;
use super::style::{Style, cell, printable};
use super::view::counted;

const CAPACITY_TYPES: [CapacityType; 3] =
    [CapacityType::OnDemand, CapacityType::Spot, CapacityType::Reserved];

/// The whole catalog, ready to print.
pub(crate) fn catalog_text(catalog: &Catalog, style: Style) -> String {
    use CellAlignment::{Left, Right};
    let offerings: usize = catalog.types.iter().map(|instance_type| instance_type.offerings.len()).sum();
    let mut text = style.heading(&format!(
        "{}: {}, {}",
        printable(&catalog.name),
        counted(catalog.types.len(), "type"),
        counted(offerings, "offering"),
    ));
    text.push('\n');
    if catalog.types.is_empty() {
        return text;
    }
    let mut table = style.table(
        ["TYPE", "ARCH", "CPU", "MEMORY", "PODS", "OTHER", "ZONES", "ON-DEMAND/H", "SPOT/H", "RESERVED/H"],
        [Left, Left, Right, Right, Right, Left, Right, Right, Right, Right],
    );
    for instance_type in &catalog.types {
        let amount = |resource: &str| format_amount(resource, instance_type.capacity.get(resource));
        let [on_demand, spot, reserved] = CAPACITY_TYPES.map(|wanted| lowest_price(instance_type, wanted));
        table.add_row([
            cell(&instance_type.name),
            cell(instance_type.labels.get(names::ARCH).map_or("-", |arch| arch)),
            cell(&amount(CPU)),
            cell(&amount(MEMORY)),
            cell(&amount(PODS)),
            cell(&others(instance_type)),
            cell(&zone_count(instance_type).to_string()),
            cell(&on_demand),
            cell(&spot),
            cell(&reserved),
        ]);
    }
    let has_reserved = offered(catalog).any(|capacity_type| capacity_type == CapacityType::Reserved);
    let has_others = catalog.types.iter().any(|instance_type| !others(instance_type).is_empty());
    for (column, shown) in [(5, has_others), (9, has_reserved)] {
        if let Some(column) = table.column_mut(column).filter(|_| !shown) {
            column.set_constraint(comfy_table::ColumnConstraint::Hidden);
        }
    }
    text.push_str(&table.trim_fmt());
    text.push('\n');
    text
}

fn offered(catalog: &Catalog) -> impl Iterator<Item = CapacityType> {
    catalog
        .types
        .iter()
        .flat_map(|instance_type| &instance_type.offerings)
        .map(|offering| offering.capacity_type)
}

fn zone_count(instance_type: &InstanceType) -> usize {
    let zones = instance_type.offerings.iter().map(|offering| &offering.zone);
    zones.collect::<std::collections::BTreeSet<_>>().len()
}

/// Extended resources, which few types have.
fn others(instance_type: &InstanceType) -> String {
    let usual = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];
    let others =
        instance_type.capacity.iter().filter(|(name, amount)| *amount > 0 && !usual.contains(&&***name));
    others
        .map(|(name, amount)| format!("{name} {}", format_amount(name, amount)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// In the cheapest zone.
fn lowest_price(instance_type: &InstanceType, wanted: CapacityType) -> String {
    let offerings = instance_type.offerings.iter().filter(|offering| offering.capacity_type == wanted);
    offerings.min_by_key(|offering| offering.price).map_or_else(
        || "-".to_owned(),
        |offering| {
            let estimated = if offering.estimated { " est." } else { "" };
            format!("{}{estimated}", hourly(offering.price))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{assert_golden, catalog};
    use super::*;

    #[test]
    fn catalogs_as_text() {
        assert_golden("catalog.txt", &catalog_text(&catalog(), Style::PLAIN));
        let empty = Catalog { name: "none".into(), types: vec![] };
        assert_eq!(catalog_text(&empty, Style::PLAIN), "none: 0 types, 0 offerings\n");
    }
}
