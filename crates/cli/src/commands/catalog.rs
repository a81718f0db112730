//! `berth catalog`

use std::io;
use std::sync::Arc;

use berth_cloud::filter::{Filter, select};
use berth_core::catalog::{Catalog, InstanceType};

use super::{Answer, Failure, write_file};
use crate::args::{CatalogImport, CatalogList, Format};
use crate::out;
use crate::render::{catalog::catalog_text, style::Style};

pub(crate) fn list(list: &CatalogList) -> Result<Answer, Failure> {
    let catalog = berth_cloud::load(&list.catalog, &list.offers.options())?;
    let kept = filtered(&catalog, &list.filter);
    match list.output {
        Format::Table => out::text(&catalog_text(&kept, Style::of_stdout()))?,
        Format::Json => out::text(&exported(&kept)?)?,
        Format::Yaml => {
            let document: serde_json::Value = serde_json::from_str(&exported(&kept)?).map_err(unwritable)?;
            out::yaml(&document)?;
        }
    }
    Ok(Answer::Done)
}

pub(crate) fn import(import: &CatalogImport) -> Result<Answer, Failure> {
    let catalog = berth_cloud::load(&import.file, &import.offers.options())?;
    let text = exported(&catalog)?;
    match &import.output {
        Some(path) => write_file(path, &text)?,
        None => out::text(&text)?,
    }
    Ok(Answer::Done)
}

/// Types with the offerings that are left to them, from the smallest type to the largest.
fn filtered(catalog: &Catalog, filter: &Filter) -> Catalog {
    let selected = select(catalog, filter);
    let types = selected.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)).map(|of_one_type| {
        let (instance_type, _) = of_one_type[0];
        Arc::new(InstanceType {
            offerings: of_one_type.iter().map(|(_, offering)| (*offering).clone()).collect(),
            ..InstanceType::clone(instance_type)
        })
    });
    Catalog { name: catalog.name.clone(), types: types.collect() }
}

fn exported(catalog: &Catalog) -> Result<String, Failure> {
    berth_cloud::export(catalog).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::Output(io::Error::from(error))
}
