//! The inputs of a call for which it may be refused: parameters and headers.

use std::fmt;

/// A part of a request that is neither its path nor its body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// A parameter of the query, by its name.
    Parameter(String),
    /// A header, by its name in lower case.
    Header(String),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(name) => write!(f, "parameter {name}"),
            Self::Header(name) => write!(f, "header {name}"),
        }
    }
}

/// The status of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedAs {
    /// The input is not valid for this method: 400.
    Invalid,
    /// The original service implements the input, but this server does not: 501.
    NotImplemented,
}
