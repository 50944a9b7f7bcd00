//! `q`: which files are listed.
//!
//! ```text
//! query = unary *( ( "and" / "or" ) unary )    ; from left to right, neither binds closer
//! unary = "not" unary / "(" query ")" / term
//! term  = name operator value / value "in" name
//!       / name "has" "{" "key" "=" value "and" "value" "=" value "}"
//! value = "'" *( any character / "\'" / "\\" ) "'" / "true" / "false"
//! ```
//!
//! A flag alone means that it is set. Names are compared without regard to case; `contains` finds the
//! beginnings of words in names, and anything in types.

use thiserror::Error;

use crate::record::{Fields, normal_time, text};

use super::file::{flag, parent};

mod parser;
#[cfg(test)]
mod tests;

/// Why a query cannot be read.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum QueryError {
    #[error("a quotation mark is not closed")]
    Unclosed,
    #[error("`{found}` stands where {expected} is expected")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    #[error("it ends where {expected} is expected")]
    Ends { expected: &'static str },
    #[error("`{name}` cannot be searched by")]
    UnknownName { name: String },
    #[error("`{operator}` does not go with `{name}`")]
    Operator { name: String, operator: String },
    #[error("`{value}` is not a time such as 2026-11-21T10:00:00")]
    NotATime { value: String },
    #[error("it has more than {} terms and brackets", parser::MOST_PARTS)]
    TooLong,
}

/// Which files are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Query {
    All,
    And(Box<Query>, Box<Query>),
    Or(Box<Query>, Box<Query>),
    Not(Box<Query>),
    /// The name, in lower case.
    Name(Match, String),
    MediaType(Match, String),
    /// A moment, in the form in which moments compare as texts do.
    Time(&'static str, Comparison, String),
    Flag(&'static str, bool),
    /// In this folder.
    Inside(String),
    /// In the list of people that begins with the one user.
    Person(String),
    Has {
        field: &'static str,
        key: String,
        value: String,
    },
}

/// How a text is to agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Equal,
    Contains,
}

/// How a moment is to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Query {
    /// Reads a query; an empty one is for all files.
    pub(super) fn parse(text: &str) -> Result<Self, QueryError> {
        parser::parse(text)
    }

    /// The folder that all wanted files are in, if the query says so.
    pub(super) fn folder(&self) -> Option<&str> {
        match self {
            Self::Inside(folder) => Some(folder),
            Self::And(one, other) => one.folder().or_else(|| other.folder()),
            _ => None,
        }
    }

    /// Whether a file of these fields is wanted. `trashed`: it is in the trash, or a folder above is.
    pub(super) fn wants(&self, fields: &Fields, trashed: bool) -> bool {
        let name = text(fields, "name").unwrap_or_default().to_lowercase();
        self.matches(fields, &name, trashed)
    }

    /// `file_name` is in lower case, once for all that ask for it.
    fn matches(&self, fields: &Fields, file_name: &str, trashed: bool) -> bool {
        let field = |name| text(fields, name).unwrap_or_default();
        let holds = |query: &Self| query.matches(fields, file_name, trashed);
        match self {
            Self::All => true,
            Self::And(one, other) => holds(one) && holds(other),
            Self::Or(one, other) => holds(one) || holds(other),
            Self::Not(query) => !holds(query),
            Self::Name(Match::Equal, name) => file_name == *name,
            Self::Name(Match::Contains, name) => begins_a_word(file_name, name),
            Self::MediaType(Match::Equal, media_type) => field("mimeType") == media_type,
            Self::MediaType(Match::Contains, part) => field("mimeType").contains(part),
            Self::Time(name, comparison, moment) => {
                let known = text(fields, name);
                known.is_some_and(|known| comparison.holds(known, moment))
            }
            Self::Flag("trashed", wanted) => trashed == *wanted,
            Self::Flag(name, wanted) => flag(fields, name) == *wanted,
            Self::Inside(folder) => parent(fields) == folder,
            Self::Person(person) => person == "me",
            Self::Has { field, key, value } => {
                let properties = fields.get(*field);
                let known = properties.and_then(|properties| properties.get(key)?.as_str());
                known == Some(value)
            }
        }
    }
}

impl Comparison {
    fn holds(self, one: &str, other: &str) -> bool {
        match self {
            Self::Less => one < other,
            Self::LessOrEqual => one <= other,
            Self::Equal => one == other,
            Self::GreaterOrEqual => one >= other,
            Self::Greater => one > other,
        }
    }
}

/// Whether `part` stands at the beginning of a word of `text`.
fn begins_a_word(text: &str, part: &str) -> bool {
    let mut found = text.match_indices(part);
    found.any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric)
    })
}

/// The moment in the form in which moments compare.
fn moment(value: String) -> Result<String, QueryError> {
    normal_time(&value).ok_or(QueryError::NotATime { value })
}
