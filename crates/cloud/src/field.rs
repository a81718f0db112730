//! Walking through a JSON document with the path at hand, for errors that say where.

use std::fmt::Write;

use berth_core::names::{Labels, Text, label_key_problem, label_value_problem};
use berth_core::resources::Resources;
use berth_core::units::{Price, Quantity, QuantityError};
use serde_json::{Map, Value};

use crate::error::{CatalogError, Place, Problem};

/// A value that may be missing, and the way to it. The way becomes text only when there is an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'v, 'p> {
    value: Option<&'v Value>,
    path: Path<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn write(&self, text: &mut String) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) => {
                parent.write(text);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Self::Index(parent, index) => {
                parent.write(text);
                // Writing to a String cannot fail.
                let _ = write!(text, "[{index}]");
            }
        }
    }
}

impl<'v> Field<'v, '_> {
    pub(crate) fn root(value: &'v Value) -> Self {
        Self { value: Some(value), path: Path::Root }
    }

    /// A member of this object; `null` counts as missing.
    pub(crate) fn get<'s>(&'s self, key: &'s str) -> Field<'v, 's> {
        let value = self.value.and_then(|v| v.get(key)).filter(|v| !v.is_null());
        Field { value, path: Path::Key(&self.path, key) }
    }

    /// The first of these members that is there, for names that are spelt in several ways.
    pub(crate) fn get_any<'s>(&'s self, keys: &[&'s str]) -> Field<'v, 's> {
        let present = keys.iter().find(|key| self.get(key).is_present());
        self.get(present.or(keys.first()).copied().unwrap_or_default())
    }

    pub(crate) fn is_present(&self) -> bool {
        self.value.is_some()
    }

    pub(crate) fn place(&self) -> Place {
        let mut text = String::new();
        self.path.write(&mut text);
        Place::Path(if text.is_empty() { "the document".to_owned() } else { text })
    }

    pub(crate) fn error(&self, problem: impl Into<Problem>) -> CatalogError {
        CatalogError::Field { at: self.place(), problem: problem.into() }
    }

    fn required(&self, wanted: &'static str) -> Result<&'v Value, CatalogError> {
        self.value.ok_or_else(|| self.error(Problem::Missing(wanted)))
    }

    fn wrong_kind(&self, value: &Value, wanted: &'static str) -> CatalogError {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.error(Problem::WrongKind { found, wanted })
    }

    /// As it is.
    pub(crate) fn value(&self) -> Result<Value, CatalogError> {
        self.required("a value").cloned()
    }

    pub(crate) fn object(&self, wanted: &'static str) -> Result<&'v Map<String, Value>, CatalogError> {
        let value = self.required(wanted)?;
        value.as_object().ok_or_else(|| self.wrong_kind(value, wanted))
    }

    pub(crate) fn items<'s>(
        &'s self,
        wanted: &'static str,
    ) -> Result<impl Iterator<Item = Field<'v, 's>>, CatalogError> {
        let value = self.required(wanted)?;
        let items = value.as_array().ok_or_else(|| self.wrong_kind(value, wanted))?;
        Ok(items
            .iter()
            .enumerate()
            .map(|(i, item)| Field { value: Some(item), path: Path::Index(&self.path, i) }))
    }

    pub(crate) fn text(&self, wanted: &'static str) -> Result<&'v str, CatalogError> {
        let value = self.required(wanted)?;
        match value {
            Value::String(text) if text.is_empty() => Err(self.error(Problem::Missing(wanted))),
            Value::String(text) => Ok(text),
            _ => Err(self.wrong_kind(value, wanted)),
        }
    }

    /// Text, or a number as its shortest text: sources disagree on whether ids and amounts are quoted.
    pub(crate) fn scalar(&self, wanted: &'static str) -> Result<String, CatalogError> {
        match self.required(wanted)? {
            Value::Number(number) => Ok(number.to_string()),
            _ => self.text(wanted).map(str::to_owned),
        }
    }

    /// A name that nodes will carry as a label's value.
    pub(crate) fn label_value(&self, wanted: &'static str) -> Result<Text, CatalogError> {
        let text = self.scalar(wanted)?;
        match label_value_problem(&text) {
            Some(problem) => Err(self.error(Problem::Label { found: text, problem })),
            None => Ok(text.into()),
        }
    }

    pub(crate) fn boolean_or(&self, default: bool) -> Result<bool, CatalogError> {
        match self.value {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(value) => Err(self.wrong_kind(value, "true or false")),
        }
    }

    pub(crate) fn count(&self, wanted: &'static str) -> Result<u32, CatalogError> {
        let text = self.scalar(wanted)?;
        text.parse().map_err(|_| self.error(Problem::NotA { found: text, wanted }))
    }

    pub(crate) fn quantity(&self, wanted: &'static str) -> Result<Quantity, CatalogError> {
        let text = self.scalar(wanted)?;
        let quantity: Quantity = text.parse().map_err(|e: QuantityError| self.error(e))?;
        if quantity.is_negative() {
            return Err(self.error(QuantityError::Negative(text)));
        }
        Ok(quantity)
    }

    pub(crate) fn price(&self) -> Result<Price, CatalogError> {
        let text = self.scalar("the price in US dollars an hour, for example 0.0416")?;
        text.parse().map_err(|e: berth_core::units::PriceError| self.error(e))
    }

    pub(crate) fn resources(&self) -> Result<Resources, CatalogError> {
        let members = self.object("resources by name, for example {\"cpu\": \"4\", \"memory\": \"16Gi\"}")?;
        let amount = |name: &String| {
            let quantity = self.get(name).quantity("a quantity such as 4, 500m or 16Gi")?;
            Ok((Text::from(name.as_str()), Resources::amount_of(name, quantity)))
        };
        members.keys().map(amount).collect()
    }

    pub(crate) fn labels(&self) -> Result<Labels, CatalogError> {
        if !self.is_present() {
            return Ok(Labels::new());
        }
        let members = self.object("labels by key")?;
        let label = |key: &String| {
            let field = self.get(key);
            if let Some(problem) = label_key_problem(key) {
                return Err(field.error(Problem::Label { found: key.clone(), problem }));
            }
            Ok((Text::from(key.as_str()), field.label_value("the label's value")?))
        };
        members.keys().map(label).collect()
    }

    /// Refuses members that are not among the known ones: a misspelt optional field must not pass.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), CatalogError> {
        let members = self.object("an object")?;
        match members.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(self.get(key).error(Problem::UnknownWord {
                found: key.clone(),
                wanted: format!("one of the fields {}", known.join(", ")),
            })),
        }
    }
}
