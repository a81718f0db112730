//! Plans for people: as text on a terminal and as a page.

pub(crate) mod catalog;
pub(crate) mod explain;
pub(crate) mod explain_node;
pub(crate) mod fill;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod html;
pub(crate) mod money;
mod removals;
pub(crate) mod shorten;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod tiles;
pub(crate) mod view;
