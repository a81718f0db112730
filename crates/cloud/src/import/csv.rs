//! A table with a header line and a line for each instance type, or for each offering of one.
//!
//! | column | |
//! |---|---|
//! | `instance_type`, `cpu`, `memory_mib` | required |
//! | `price` or `on_demand_usd_hour` | one of them is required; US dollars an hour |
//! | `zone`, `region`, `capacity_type` | with any of them a type may have several lines, one for each offering |
//! | `arch`, `os`, `category`, `family`, `generation`, `size`, `hypervisor`, `gpu_name` | labels |
//! | `allocatable_cpu_milli`, `allocatable_memory_mib` | what the system leaves; without them, everything |
//! | `allocatable_pods`, `allocatable_ephemeral_storage`, `gpu` | capacity |
//! | a label key with a slash | that label |
//!
//! Without `zone` a type is offered in each of the options' zones, and without `capacity_type` on demand and
//! as spot at the options' discount, which is marked as estimated.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Labels, Text, label_key_problem, label_value_problem};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, format_amount};
use berth_core::units::{Price, PriceError, Quantity, QuantityError};
use rustc_hash::FxHashSet;

use super::{Draft, PODS_DEFAULT, Repeated, unknown_capacity_type};
use crate::CatalogOptions;
use crate::aws::{self, Accelerator};
use crate::draft::quoted;
use crate::error::{CatalogError, Place, Problem};

/// Reads the table; `region` is that of all its types, where it is known.
pub(crate) fn read(
    text: &str,
    name: &str,
    region: Option<&str>,
    options: &CatalogOptions,
) -> Result<Catalog, CatalogError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, first)) = lines.next() else {
        return Err(CatalogError::Empty);
    };
    let mut cells = Vec::new();
    split(first, 1, &mut cells)?;
    let header = Header::parse(&cells)?;
    let by_offering = [Column::Zone, Column::Region, Column::CapacityType].iter().any(|c| header.has(*c));
    let repeated = if by_offering { Repeated::AddsOfferings } else { Repeated::Refused };
    let mut texts = Texts::default();
    let mut draft = Draft::default();
    for (index, line) in lines {
        cells.clear();
        split(line, index + 1, &mut cells)?;
        let row = Row { header: &header, line: index + 1, cells: &cells };
        row.check_width()?;
        draft.add(row.instance_type(region, options, &mut texts)?, repeated, || {
            row.place(Column::InstanceType)
        })?;
    }
    draft.finish(name)
}

#[derive(Clone, Copy, Debug)]
enum Column {
    InstanceType,
    Arch,
    Category,
    Family,
    Generation,
    Size,
    Cpu,
    MemoryMib,
    AllocatableCpuMilli,
    AllocatableMemoryMib,
    AllocatableEphemeralStorage,
    AllocatablePods,
    Gpu,
    GpuName,
    Hypervisor,
    OnDemandUsdHour,
    Os,
    Region,
    Zone,
    CapacityType,
    Price,
}

/// In the order of [`Column`].
const COLUMNS: [&str; 21] = [
    "instance_type",
    "arch",
    "category",
    "family",
    "generation",
    "size",
    "cpu",
    "memory_mib",
    "allocatable_cpu_milli",
    "allocatable_memory_mib",
    "allocatable_ephemeral_storage",
    "allocatable_pods",
    "gpu",
    "gpu_name",
    "hypervisor",
    "on_demand_usd_hour",
    "os",
    "region",
    "zone",
    "capacity_type",
    "price",
];

impl Column {
    fn name(self) -> &'static str {
        COLUMNS[self as usize]
    }
}

/// Columns that are a label as they are.
const LABEL_COLUMNS: [(Column, &str); 8] = [
    (Column::Category, "karpenter.k8s.aws/instance-category"),
    (Column::Cpu, "karpenter.k8s.aws/instance-cpu"),
    (Column::Family, "karpenter.k8s.aws/instance-family"),
    (Column::Generation, "karpenter.k8s.aws/instance-generation"),
    (Column::Gpu, "karpenter.k8s.aws/instance-gpu-count"),
    (Column::Hypervisor, "karpenter.k8s.aws/instance-hypervisor"),
    (Column::MemoryMib, "karpenter.k8s.aws/instance-memory"),
    (Column::Size, "karpenter.k8s.aws/instance-size"),
];
const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
const GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";

/// Where each column stands.
struct Header {
    at: [Option<usize>; COLUMNS.len()],
    labels: Vec<(usize, Text)>,
    width: usize,
}

impl Header {
    fn parse(cells: &[Cow<str>]) -> Result<Self, CatalogError> {
        let mut header = Self { at: [None; COLUMNS.len()], labels: Vec::new(), width: cells.len() };
        for (position, cell) in cells.iter().enumerate() {
            let column = cell.trim();
            let bad =
                |problem| CatalogError::BadColumn { column: column.to_owned(), problem, known: &COLUMNS };
            if let Some(known) = COLUMNS.iter().position(|name| *name == column) {
                if header.at[known].replace(position).is_some() {
                    return Err(bad("there twice"));
                }
            } else if !column.contains('/') {
                return Err(bad("not known"));
            } else if label_key_problem(column).is_some() {
                return Err(bad("not a label key"));
            } else {
                header.labels.push((position, column.into()));
            }
        }
        for required in [Column::InstanceType, Column::Cpu, Column::MemoryMib] {
            if !header.has(required) {
                return Err(CatalogError::MissingColumn { missing: required.name(), known: &COLUMNS });
            }
        }
        if !header.has(Column::Price) && !header.has(Column::OnDemandUsdHour) {
            return Err(CatalogError::MissingColumn { missing: Column::Price.name(), known: &COLUMNS });
        }
        Ok(header)
    }

    fn has(&self, column: Column) -> bool {
        self.at[column as usize].is_some()
    }
}

/// Each text once: thousands of types share a few hundred label values.
#[derive(Default)]
struct Texts(FxHashSet<Text>);

impl Texts {
    fn get(&mut self, text: &str) -> Text {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new = Text::from(text);
        self.0.insert(new.clone());
        new
    }
}

struct Row<'r> {
    header: &'r Header,
    line: usize,
    cells: &'r [Cow<'r, str>],
}

impl Row<'_> {
    fn instance_type(
        &self,
        region: Option<&str>,
        options: &CatalogOptions,
        texts: &mut Texts,
    ) -> Result<InstanceType, CatalogError> {
        let (capacity, overhead) = self.resources(texts)?;
        Ok(InstanceType {
            name: self.required(Column::InstanceType, "the type's name")?.into(),
            labels: self.labels(region, texts)?,
            capacity,
            overhead,
            volume_limits: BTreeMap::new(),
            offerings: self.offerings(options, texts)?,
        })
    }

    fn resources(&self, texts: &mut Texts) -> Result<(Resources, Resources), CatalogError> {
        let cpu = self.required_amount(Column::Cpu, 1000)?;
        let memory = self.required_amount(Column::MemoryMib, 1 << 20)?;
        let mut capacity = vec![
            (texts.get(CPU), cpu),
            (texts.get(MEMORY), memory),
            (texts.get(PODS), self.amount(Column::AllocatablePods, 1)?.unwrap_or(PODS_DEFAULT)),
        ];
        // The table has no disk sizes, only what is left of them.
        if let Some(bytes) = self.amount(Column::AllocatableEphemeralStorage, 1)? {
            capacity.push((texts.get(EPHEMERAL_STORAGE), bytes));
        }
        if let Some(count) = self.amount(Column::Gpu, 1)?.filter(|count| *count > 0) {
            let model = self.get(Column::GpuName).unwrap_or_default();
            capacity.push((texts.get(Accelerator::of_model(model).resource), count));
        }
        let mut overhead = Vec::new();
        for (resource, whole, column, scale) in [
            (CPU, cpu, Column::AllocatableCpuMilli, 1),
            (MEMORY, memory, Column::AllocatableMemoryMib, 1 << 20),
        ] {
            let Some(allocatable) = self.amount(column, scale)? else { continue };
            if allocatable > whole {
                return Err(self.error(
                    column,
                    Problem::AllocatableExceedsCapacity {
                        allocatable: format_amount(resource, allocatable),
                        capacity: format_amount(resource, whole),
                    },
                ));
            }
            overhead.push((texts.get(resource), whole - allocatable));
        }
        Ok((capacity.into_iter().collect(), overhead.into_iter().collect()))
    }

    fn labels(&self, region: Option<&str>, texts: &mut Texts) -> Result<Labels, CatalogError> {
        let name = self.label(Column::InstanceType)?.unwrap_or_default();
        let mut labels = vec![
            (texts.get(names::INSTANCE_TYPE), Text::from(name)),
            (texts.get(names::OS), texts.get(self.label(Column::Os)?.unwrap_or("linux"))),
        ];
        let arch = self.label(Column::Arch)?.or_else(|| aws::arch_of(name));
        let stated = [(names::ARCH, arch), (names::REGION, region)];
        for (key, value) in stated {
            if let Some(value) = value {
                labels.push((texts.get(key), texts.get(value)));
            }
        }
        for (column, key) in LABEL_COLUMNS {
            if let Some(value) = self.label(column)? {
                labels.push((texts.get(key), texts.get(value)));
            }
        }
        if let Some(model) = self.label(Column::GpuName)? {
            labels.push((texts.get(GPU_NAME), texts.get(model)));
            let manufacturer = Accelerator::of_model(model).manufacturer;
            labels.push((texts.get(GPU_MANUFACTURER), texts.get(manufacturer)));
        }
        for (position, key) in &self.header.labels {
            let value = self.cells[*position].trim();
            if let Some(problem) = label_value_problem(value) {
                let at = Place::Cell { line: self.line, column: key.to_string() };
                let problem = Problem::Label { found: value.to_owned(), problem };
                return Err(CatalogError::Field { at, problem });
            }
            if !value.is_empty() {
                labels.push((key.clone(), texts.get(value)));
            }
        }
        Ok(labels.into_iter().collect())
    }

    fn offerings(&self, options: &CatalogOptions, texts: &mut Texts) -> Result<Vec<Offering>, CatalogError> {
        let price = self.price()?;
        let own_zone = self.label(Column::Zone)?.map(|zone| [texts.get(zone)]);
        let zones = own_zone.as_ref().map_or(options.zones.as_slice(), |zone| zone.as_slice());
        if zones.is_empty() {
            return Err(CatalogError::NoZones { at: Place::Line(self.line) });
        }
        let capacity_type = match self.get(Column::CapacityType) {
            None => None,
            Some(word) => Some(
                CapacityType::parse(word)
                    .ok_or_else(|| self.error(Column::CapacityType, unknown_capacity_type(word)))?,
            ),
        };
        let labels: Labels = self
            .label(Column::Region)?
            .map(|region| (texts.get(names::REGION), texts.get(region)))
            .into_iter()
            .collect();
        let discount = i64::from(options.spot_discount_percent.min(100));
        let mut offerings = Vec::with_capacity(zones.len() * 2);
        for zone in zones {
            let listed = capacity_type.unwrap_or(CapacityType::OnDemand);
            offerings.push(Offering { labels: labels.clone(), ..quoted(zone.clone(), listed, price) });
            if capacity_type.is_none() && discount > 0 {
                offerings.push(Offering {
                    estimated: true,
                    labels: labels.clone(),
                    ..quoted(zone.clone(), CapacityType::Spot, price.scaled(100 - discount, 100))
                });
            }
        }
        Ok(offerings)
    }

    fn price(&self) -> Result<Price, CatalogError> {
        let column = if self.header.has(Column::Price) { Column::Price } else { Column::OnDemandUsdHour };
        self.required(column, "the price in US dollars an hour, for example 0.0416")?
            .parse()
            .map_err(|error: PriceError| self.error(column, error))
    }

    /// A cell that is not empty.
    fn get(&self, column: Column) -> Option<&str> {
        let cell = self.cells.get(self.header.at[column as usize]?)?.trim();
        (!cell.is_empty()).then_some(cell)
    }

    fn required(&self, column: Column, wanted: &'static str) -> Result<&str, CatalogError> {
        self.get(column).ok_or_else(|| self.error(column, Problem::Missing(wanted)))
    }

    /// A cell that can be a label's value.
    fn label(&self, column: Column) -> Result<Option<&str>, CatalogError> {
        let value = self.get(column);
        match value.and_then(label_value_problem) {
            None => Ok(value),
            Some(problem) => {
                let found = value.unwrap_or_default().to_owned();
                Err(self.error(column, Problem::Label { found, problem }))
            }
        }
    }

    /// A quantity times `scale`, rounded up to a whole number.
    fn amount(&self, column: Column, scale: i64) -> Result<Option<i64>, CatalogError> {
        let Some(text) = self.get(column) else {
            return Ok(None);
        };
        let quantity: Quantity = text.parse().map_err(|error: QuantityError| self.error(column, error))?;
        if quantity.is_negative() {
            return Err(self.error(column, QuantityError::Negative(text.to_owned())));
        }
        let nanos = quantity.nanos().saturating_mul(i128::from(scale));
        Ok(Some(Quantity::from_nanos(nanos).units_ceil()))
    }

    fn required_amount(&self, column: Column, scale: i64) -> Result<i64, CatalogError> {
        self.amount(column, scale)?.ok_or_else(|| self.error(column, Problem::Missing("a whole number")))
    }

    fn check_width(&self) -> Result<(), CatalogError> {
        if self.cells.len() == self.header.width {
            return Ok(());
        }
        let problem = format!("{} cells, but the header has {}", self.cells.len(), self.header.width);
        Err(CatalogError::Syntax { line: self.line, column: 1, problem })
    }

    fn place(&self, column: Column) -> Place {
        Place::Cell { line: self.line, column: column.name().to_owned() }
    }

    fn error(&self, column: Column, problem: impl Into<Problem>) -> CatalogError {
        CatalogError::Field { at: self.place(column), problem: problem.into() }
    }
}

/// The cells of a line. A cell with commas stands in double quotes, and a quote in it is doubled.
fn split<'t>(line: &'t str, number: usize, cells: &mut Vec<Cow<'t, str>>) -> Result<(), CatalogError> {
    if !line.contains('"') {
        cells.extend(line.split(',').map(Cow::Borrowed));
        return Ok(());
    }
    let mut rest = line;
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (cell, after) =
                rest.split_once(',').map_or((rest, None), |(cell, after)| (cell, Some(after)));
            cells.push(Cow::Borrowed(cell));
            match after {
                Some(after) => rest = after,
                None => return Ok(()),
            }
            continue;
        };
        let mut cell = String::new();
        let mut inside = quoted;
        let after = loop {
            let Some((part, after)) = inside.split_once('"') else {
                let column = line.len() - rest.len() + 1;
                let problem = "the double quote is never closed".to_owned();
                return Err(CatalogError::Syntax { line: number, column, problem });
            };
            cell.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => {
                    cell.push('"');
                    inside = more;
                }
                None => break after,
            }
        };
        cells.push(Cow::Owned(cell));
        match (after.is_empty(), after.strip_prefix(',')) {
            (true, _) => return Ok(()),
            (_, Some(next)) => rest = next,
            (false, None) => {
                let column = line.len() - after.len() + 1;
                let problem = "a comma must follow the closing quote".to_owned();
                return Err(CatalogError::Syntax { line: number, column, problem });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::import;
    use super::*;

    /// Each offering as `type zone capacity-type price`, `~` before an estimated price.
    fn offerings(text: &str, zones: &[&str]) -> Result<Vec<String>, String> {
        let zones = zones.iter().map(|zone| Text::from(*zone)).collect();
        let options = CatalogOptions { zones, ..CatalogOptions::default() };
        let catalog = import(text, "table", &options).map_err(|error| error.to_string())?;
        let line = |t: &InstanceType, o: &Offering| {
            let estimated = if o.estimated { "~" } else { "" };
            format!("{} {} {} {estimated}{}", t.name, o.zone, o.capacity_type, o.price)
        };
        Ok(catalog.types.iter().flat_map(|t| t.offerings.iter().map(move |o| line(t, o))).collect())
    }

    #[test]
    fn tables_of_types_and_of_offerings() {
        for (text, zones, expected) in [
            (
                "instance_type,cpu,memory_mib,on_demand_usd_hour\nm5.large,2,8192,0.096\n",
                &["a"][..],
                &["m5.large a on-demand 0.096000", "m5.large a spot ~0.038400"][..],
            ),
            (
                "\u{feff}instance_type,cpu,memory_mib,zone,price\r\nx,2,8192,b,0.1\r\n\r\nx,2,8192,a,0.2\r\n",
                &["ignored"],
                &[
                    "x a on-demand 0.200000",
                    "x a spot ~0.080000",
                    "x b on-demand 0.100000",
                    "x b spot ~0.040000",
                ],
            ),
            (
                "instance_type,cpu,memory_mib,capacity_type,price\nx,2,8192,spot,0.1\nx,2,8192,on-demand,0.2\n",
                &["a"],
                &["x a on-demand 0.200000", "x a spot 0.100000"],
            ),
            (
                "instance_type,cpu,memory_mib,price\n\"x\",\"2\",8192,\"0.1\"\n",
                &["a"],
                &["x a on-demand 0.100000", "x a spot ~0.040000"],
            ),
        ] {
            assert_eq!(offerings(text, zones).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn rows_are_types() {
        let text = "instance_type,cpu,memory_mib,allocatable_cpu_milli,allocatable_memory_mib,gpu,gpu_name,price,zone,region,example.com/tier\n\
                    box,0.5,512,400,256,2,gaudi-hl-205,1,z,r,gold\n";
        let catalog = import(text, "table", &CatalogOptions::default()).unwrap();
        let t = &catalog.types[0];
        assert_eq!(
            t.capacity,
            Resources::of(&[(CPU, 500), (MEMORY, 512 << 20), (PODS, 110), ("habana.ai/gaudi", 2)])
        );
        assert_eq!(t.overhead, Resources::of(&[(CPU, 100), (MEMORY, 256 << 20)]));
        assert_eq!(&*t.labels["example.com/tier"], "gold");
        assert_eq!(&*t.labels[GPU_MANUFACTURER], "habana");
        assert_eq!(t.labels.get(names::ARCH), None);
        assert_eq!(&*t.offerings[0].labels[names::REGION], "r");
    }

    #[test]
    fn errors_say_which_line_and_column() {
        let plain = "instance_type,cpu,memory_mib,price";
        for (text, expected) in [
            (
                "instance_type,cpu,price\n".to_owned(),
                "line 1: the column memory_mib is missing; the columns are instance_type, arch",
            ),
            ("instance_type,cpu,memory_mib\n".to_owned(), "line 1: the column price is missing"),
            (format!("{plain},colour\n"), "line 1: the column `colour` is not known"),
            (format!("{plain},cpu\n"), "line 1: the column `cpu` is there twice"),
            (format!("{plain},a/b/c\n"), "line 1: the column `a/b/c` is not a label key"),
            (format!("{plain}\n"), "the catalog is empty"),
            (
                format!("{plain}\nx,2,8192,\n"),
                "line 2, column price: is missing; write the price in US dollars an hour",
            ),
            (format!("{plain}\nx,2,8192,-1\n"), "line 2, column price: `-1` is negative"),
            (format!("{plain}\nx,2,8192,1Gi\n"), "line 2, column price: `1Gi` is not a price"),
            (format!("{plain}\nx,-2,8192,1\n"), "line 2, column cpu: `-2` is negative"),
            (format!("{plain}\nx,two,8192,1\n"), "line 2, column cpu: `two` is not a quantity"),
            (format!("{plain}\nx,,8192,1\n"), "line 2, column cpu: is missing"),
            (format!("{plain}\nx y,2,8192,1\n"), "line 2, column instance_type: `x y` is not a label"),
            (format!("{plain}\n,2,8192,1\n"), "line 2, column instance_type: is missing"),
            (format!("{plain}\nx,2,8192\n"), "line 2, column 1: 3 cells, but the header has 4"),
            (format!("{plain}\n\"x,2,8192,1\n"), "line 2, column 1: the double quote is never closed"),
            (format!("{plain}\n\"x\"y,2,8192,1\n"), "line 2, column 4: a comma must follow"),
            (
                format!("{plain}\nx,2,8192,1\nx,2,8192,1\n"),
                "line 3, column instance_type: instance type `x` is listed twice",
            ),
            (
                format!("{plain},zone\nx,2,8192,1,z\nx,2,8192,2,z\n"),
                "line 3, column instance_type: instance type `x` is offered twice in z as on-demand",
            ),
            (
                format!("{plain},zone\nx,2,8192,1,z\nx,4,8192,2,y\n"),
                "line 3, column instance_type: instance type `x` differs here",
            ),
            (
                format!("{plain},capacity_type\nx,2,8192,1,cheap\n"),
                "line 2, column capacity_type: `cheap` is not known here; write one of on-demand, spot, reserved",
            ),
            (
                format!("{plain},allocatable_cpu_milli\nx,2,8192,1,2001\n"),
                "line 2, column allocatable_cpu_milli: 2001m can be allocated of 2",
            ),
            (format!("{plain},a/b\nx,2,8192,1,!\n"), "line 2, column a/b: `!` is not a label"),
        ] {
            let error = offerings(&text, &["a"]).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n  not {expected}");
        }
        let nowhere = offerings(&format!("{plain}\nx,2,8192,1\n"), &[]).unwrap_err();
        assert!(nowhere.starts_with("line 2: the list names no zones"), "{nowhere}");
    }
}
