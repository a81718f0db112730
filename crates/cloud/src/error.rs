//! Why a catalog cannot be read: where, what is wrong, and what would be right.

use std::fmt;

use berth_core::names::Text;
use berth_core::units::{PriceError, QuantityError};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("line {line}, column {column}: {problem}")]
    Syntax { line: usize, column: usize, problem: String },
    #[error(
        "{found}; Berth reads its own catalogs, Karpenter's instance_types.json, Gardener's price list, VPSie's offers, and CSV with a header line"
    )]
    UnknownFormat { found: &'static str },
    #[error("line 1: the column {missing} is missing; the columns are {columns}, and any label key with a slash", columns = .known.join(", "))]
    MissingColumn { missing: &'static str, known: &'static [&'static str] },
    #[error("line 1: the column `{column}` is {problem}; the columns are {columns}, and any label key with a slash", columns = .known.join(", "))]
    BadColumn { column: String, problem: &'static str, known: &'static [&'static str] },
    #[error("{at}: {problem}")]
    Field { at: Place, problem: Problem },
    #[error("{at}: instance type `{name}` is listed twice; names must be unique")]
    DuplicateType { at: Place, name: Text },
    #[error("{at}: instance type `{name}` is offered twice {offering}; keep one of the two prices")]
    DuplicateOffering { at: Place, name: Text, offering: String },
    #[error(
        "{at}: instance type `{name}` differs here from where it is listed first; {difference} must agree"
    )]
    TypesDiffer { at: Place, name: Text, difference: &'static str },
    #[error("{at}: the list names no zones; say in which zones these types can be had (--zones)")]
    NoZones { at: Place },
    #[error("the list has no price for the zones {}; its regions are {}", .zones.join(", "), .regions.join(", "))]
    OtherRegions { zones: Vec<Text>, regions: Vec<Text> },
    #[error("the cloud answered with an error instead of offers: {message} (code {code})")]
    Refused { code: String, message: String },
    #[error("the catalog is empty; it must list at least one instance type")]
    Empty,
}

/// Where in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In JSON: `types[3].offerings[0].zone`.
    Path(String),
    /// In CSV.
    Line(usize),
    Cell {
        line: usize,
        column: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Cell { line, column } => write!(f, "line {line}, column {column}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("is missing; write {0}")]
    Missing(&'static str),
    #[error("is {found}; write {wanted}")]
    WrongKind { found: &'static str, wanted: &'static str },
    #[error("`{found}` is not known here; write {wanted}")]
    UnknownWord { found: String, wanted: String },
    #[error("`{found}` is not {wanted}")]
    NotA { found: String, wanted: &'static str },
    #[error("{0}")]
    Quantity(#[from] QuantityError),
    #[error("{0}")]
    Price(#[from] PriceError),
    #[error("`{found}` is not a label: {problem}")]
    Label { found: String, problem: &'static str },
    #[error("{allocatable} can be allocated of {capacity}; allocatable must not exceed capacity")]
    AllocatableExceedsCapacity { allocatable: String, capacity: String },
    #[error("stands for {0} offerings; one line of a catalog may stand for 1000 at most")]
    TooManyOfferings(usize),
}
