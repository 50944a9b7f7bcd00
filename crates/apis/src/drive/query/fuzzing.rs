//! Queries that can be written again, for a fuzz target.

use std::fmt;

use super::{Comparison, Match, Query, QueryError};
use crate::record::Fields;

/// A query of Drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveQuery(Query);

impl DriveQuery {
    /// Parses a query; `None` if the text is not a query.
    pub fn parse(text: &str) -> Option<Self> {
        Query::parse(text).ok().map(Self)
    }

    /// Whether a text is no query for its length alone.
    pub fn is_too_long(text: &str) -> bool {
        Query::parse(text) == Err(QueryError::TooLong)
    }

    /// Whether a file matches. `trashed`: the file or a folder above it is in the trash.
    pub fn matches(&self, fields: &Fields, trashed: bool) -> bool {
        self.0.matches(fields, trashed)
    }

    /// The folder that all matching files are in, if the query implies one.
    pub fn folder(&self) -> Option<&str> {
        self.0.folder()
    }
}

/// Writes the query in its own language.
impl fmt::Display for DriveQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

fn write(query: &Query, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match query {
        Query::All => Ok(()),
        Query::And(one, other) => join(one, "and", other, f),
        Query::Or(one, other) => join(one, "or", other, f),
        Query::Not(query) => {
            f.write_str("not ")?;
            write_operand(query, f)
        }
        Query::Name(how, name) => write!(f, "name {} {}", sign(*how), quoted(name)),
        Query::MediaType(how, name) => write!(f, "mimeType {} {}", sign(*how), quoted(name)),
        Query::Time(name, comparison, moment) => {
            let sign = match comparison {
                Comparison::Less => "<",
                Comparison::LessOrEqual => "<=",
                Comparison::Equal => "=",
                Comparison::GreaterOrEqual => ">=",
                Comparison::Greater => ">",
            };
            write!(f, "{name} {sign} {}", quoted(moment))
        }
        Query::Flag(name, wanted) => write!(f, "{name} = {wanted}"),
        Query::Inside(folder) => write!(f, "{} in parents", quoted(folder)),
        Query::Person(person) => write!(f, "{} in owners", quoted(person)),
        Query::Has { field, key, value } => {
            let (key, value) = (quoted(key), quoted(value));
            write!(f, "{field} has {{ key={key} and value={value} }}")
        }
    }
}

/// Neither connective binds closer, and both bind from left to right.
fn join(one: &Query, word: &str, other: &Query, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write(one, f)?;
    write!(f, " {word} ")?;
    write_operand(other, f)
}

fn write_operand(query: &Query, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !matches!(query, Query::And(..) | Query::Or(..)) {
        return write(query, f);
    }
    f.write_str("(")?;
    write(query, f)?;
    f.write_str(")")
}

fn sign(how: Match) -> &'static str {
    match how {
        Match::Equal => "=",
        Match::Contains => "contains",
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
