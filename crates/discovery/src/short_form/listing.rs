//! The keys `filter_by` and `order_by` of a collection: the fields that filter and order its list.

use toml::Spanned;

use super::ShortForm;
use super::collection::CollectionForm;
use crate::document::ParameterDescription;
use crate::mistake::Mistakes;
use crate::schema::Schema;
use crate::settings::{IndexedField, SortOrder, ValueKind};

/// The most fields in `filter_by`. Each costs rows in the ledger with every write.
const MAX_FILTERS: usize = 4;

/// The most orders in `order_by`, for the same reason.
const MAX_ORDERS: usize = 2;

/// The fields that the server fills in and that can be indexed.
const SERVER_FIELDS: [(&str, ValueKind); 4] = [
    ("createdTime", ValueKind::Time),
    ("updatedTime", ValueKind::Time),
    ("size", ValueKind::Integer),
    ("mimeType", ValueKind::Text),
];

impl CollectionForm {
    /// The fields of `filter_by`.
    pub(super) fn filters(&self) -> Vec<IndexedField> {
        let names = self.filter_by.iter().map(Spanned::get_ref);
        names.filter_map(|name| self.indexed(name).ok()).collect()
    }

    /// The orders of `order_by`.
    pub(super) fn orders(&self) -> Vec<SortOrder> {
        let orders = self.order_by.iter().map(Spanned::get_ref);
        orders
            .filter_map(|written| self.order(written).ok())
            .collect()
    }

    /// The parameters of the list.
    pub(super) fn list_parameters(&self) -> Vec<(String, ParameterDescription)> {
        let names: Vec<_> = self.filters().into_iter().map(|field| field.name).collect();
        let orders: Vec<_> = self.orders().iter().map(ToString::to_string).collect();
        let filter = (!names.is_empty()).then(|| {
            let about = format!(
                "Conditions, such as {} = \"x\", with AND between them. Fields: {}. Operators: =, !=, <, <=, >, >=.",
                names[0],
                names.join(", ")
            );
            ("filter".to_owned(), query(&about, Vec::new()))
        });
        let order = (!orders.is_empty()).then(|| {
            (
                "orderBy".to_owned(),
                query("The order of the list.", orders),
            )
        });
        filter.into_iter().chain(order).collect()
    }

    fn order(&self, written: &str) -> Result<SortOrder, String> {
        let (name, descending) = match written.split_once(' ') {
            None => (written, false),
            Some((name, "desc")) => (name, true),
            Some(_) => return Err(format!("`{written}` is neither a field nor `FIELD desc`")),
        };
        let field = self.indexed(name)?;
        Ok(SortOrder { field, descending })
    }

    /// The field of this name, if its values can be compared.
    fn indexed(&self, name: &str) -> Result<IndexedField, String> {
        let mut of_server = SERVER_FIELDS.iter();
        let of_server = of_server.find(|(known, _)| *known == name);
        let kind = of_server.map_or_else(|| self.declared_kind(name), |(_, kind)| Ok(*kind))?;
        Ok(IndexedField {
            name: name.to_owned(),
            kind,
        })
    }

    fn declared_kind(&self, name: &str) -> Result<ValueKind, String> {
        let mut declared = self.schema.iter();
        let declared = declared.find(|(known, _)| known.to_string() == name);
        let (_, field) = declared.ok_or_else(|| {
            let server = SERVER_FIELDS.map(|(name, _)| name).join(", ");
            format!("`{name}` is not a field of the schema, nor one of {server}")
        })?;
        kind_of(&field.get_ref().schema("")).ok_or_else(|| {
            format!("`{name}` is not a string, a number or a boolean, which can be compared")
        })
    }

    /// The mistakes in `filter_by` and `order_by`, each with its key and its place.
    fn listing_problems(&self) -> Vec<(&'static str, String, &Spanned<String>)> {
        let mut problems = Vec::new();
        for (key, most, written) in [
            ("filter_by", MAX_FILTERS, &self.filter_by),
            ("order_by", MAX_ORDERS, &self.order_by),
        ] {
            if let Some(extra) = written.get(most) {
                problems.push((key, format!("it has at most {most} entries"), extra));
            }
            for entry in written {
                let checked = match key {
                    "filter_by" => self.indexed(entry.get_ref()).map(drop),
                    _ => self.order(entry.get_ref()).map(drop),
                };
                match checked {
                    Err(problem) => problems.push((key, problem, entry)),
                    Ok(()) if !self.has_list() => {
                        let problem = "the collection has no method `list`".to_owned();
                        problems.push((key, problem, entry));
                    }
                    Ok(()) => {}
                }
            }
        }
        problems
    }
}

fn query(description: &str, allowed_values: Vec<String>) -> ParameterDescription {
    ParameterDescription {
        location: Some("query".to_owned()),
        json_type: Some("string".to_owned()),
        description: Some(description.to_owned()),
        allowed_values,
        ..ParameterDescription::default()
    }
}

fn kind_of(schema: &Schema) -> Option<ValueKind> {
    let format = schema.format.as_deref();
    match (schema.json_type.as_deref()?, format) {
        ("integer", _) | ("string", Some("int64" | "uint64")) => Some(ValueKind::Integer),
        ("number", _) => Some(ValueKind::Number),
        ("boolean", _) => Some(ValueKind::Boolean),
        ("string", Some("date-time" | "google-datetime")) => Some(ValueKind::Time),
        ("string", _) => Some(ValueKind::Text),
        _ => None,
    }
}

impl ShortForm {
    /// Checks the fields that filter and order lists.
    pub(super) fn check_lists(&self, mistakes: &mut Mistakes<'_>) {
        for (name, form) in &self.collections {
            for (key, problem, at) in form.listing_problems() {
                mistakes.push(format!("collections.{name}.{key}"), problem, at);
            }
        }
    }
}
