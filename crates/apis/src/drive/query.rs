//! The query language of `q`, which selects files.
//!
//! ```text
//! query = unary *( ( "and" / "or" ) unary )    ; from left to right, neither binds closer
//! unary = "not" unary / "(" query ")" / term
//! term  = name operator value / value "in" name
//!       / name "has" "{" "key" "=" value "and" "value" "=" value "}"
//! value = "'" *( any character / "\'" / "\\" ) "'" / "true" / "false"
//! ```
//!
//! A flag alone means that it is set. Names are compared without regard to case; `contains` finds
//! the beginnings of words in names, and anything in types.

use thiserror::Error;

use super::file::{flag, parent};
use crate::record::{Fields, normal_time, text};

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

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
    #[error("it has more than {} terms and brackets", MAX_PARTS)]
    TooLong,
}

/// A condition on files.
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

/// Comparison of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Equal,
    Contains,
}

/// Comparison of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Query {
    /// Parses a query. An empty one matches all files.
    pub(super) fn parse(text: &str) -> Result<Self, QueryError> {
        parse(text)
    }

    /// Returns the folder that all matching files are in, if the query implies one.
    pub(super) fn folder(&self) -> Option<&str> {
        match self {
            Self::Inside(folder) => Some(folder),
            Self::And(one, other) => one.folder().or_else(|| other.folder()),
            _ => None,
        }
    }

    /// Returns the number of its terms, each of which is compared with a file.
    pub(super) fn terms(&self) -> u64 {
        match self {
            Self::And(one, other) | Self::Or(one, other) => one.terms() + other.terms(),
            Self::Not(query) => query.terms(),
            _ => 1,
        }
    }

    /// Returns whether a file matches. `trashed`: the file or a folder above it is in the trash.
    pub(super) fn matches(&self, fields: &Fields, trashed: bool) -> bool {
        let name = text(fields, "name").unwrap_or_default().to_lowercase();
        self.matches_named(fields, &name, trashed)
    }

    /// `file_name` is in lower case, converted once for all terms.
    fn matches_named(&self, fields: &Fields, file_name: &str, trashed: bool) -> bool {
        let field = |name| text(fields, name).unwrap_or_default();
        let holds = |query: &Self| query.matches_named(fields, file_name, trashed);
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

/// Returns whether a word of `text` begins with `part`.
fn begins_a_word(text: &str, part: &str) -> bool {
    let mut found = text.match_indices(part);
    found.any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric)
    })
}

/// Returns the moment in the form in which moments compare.
fn moment(value: String) -> Result<String, QueryError> {
    normal_time(&value).ok_or(QueryError::NotATime { value })
}

/// Maximum number of terms, brackets and words that are read. It bounds the depth, too.
const MAX_PARTS: usize = 600;

/// A word, a value, or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

/// The signs. A sign precedes all signs that are a prefix of it.
const SIGNS: [&str; 10] = ["<=", ">=", "!=", "<", ">", "=", "(", ")", "{", "}"];

/// Parses a query. An empty one matches all files.
pub(super) fn parse(text: &str) -> Result<Query, QueryError> {
    let mut tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(Query::All);
    }
    // The last one is the next.
    tokens.reverse();
    let mut parser = Parser { tokens };
    let query = parser.query()?;
    match parser.tokens.pop() {
        None => Ok(query),
        Some(token) => Err(token.unexpected("and, or, or the end")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if tokens.len() == MAX_PARTS {
            return Err(QueryError::TooLong);
        }
        let (token, after) = token(rest)?;
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn token(text: &str) -> Result<(Token, &str), QueryError> {
    if let Some(rest) = text.strip_prefix('\'') {
        return quoted(rest);
    }
    if let Some(sign) = SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        return Ok((Token::Sign(sign), &text[sign.len()..]));
    }
    let ends = |char: char| char.is_whitespace() || "<>=!(){}'".contains(char);
    // A lone exclamation mark is a word by itself.
    let end = text.find(ends).unwrap_or(text.len()).max(1);
    Ok((Token::Word(text[..end].to_owned()), &text[end..]))
}

fn quoted(text: &str) -> Result<(Token, &str), QueryError> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\'' => return Ok((Token::Quoted(value), &text[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            char => value.push(char),
        }
    }
    Err(QueryError::Unclosed)
}

impl Token {
    fn unexpected(self, expected: &'static str) -> QueryError {
        let found = match self {
            Self::Word(word) => word,
            Self::Quoted(value) => value,
            Self::Sign(sign) => sign.to_owned(),
        };
        QueryError::Unexpected { found, expected }
    }
}

struct Parser {
    tokens: Vec<Token>,
}

impl Parser {
    fn query(&mut self) -> Result<Query, QueryError> {
        let mut query = self.unary()?;
        loop {
            let join = if self.skip_word("and") {
                Query::And
            } else if self.skip_word("or") {
                Query::Or
            } else {
                return Ok(query);
            };
            query = join(Box::new(query), Box::new(self.unary()?));
        }
    }

    fn unary(&mut self) -> Result<Query, QueryError> {
        if self.skip_word("not") {
            return Ok(Query::Not(Box::new(self.unary()?)));
        }
        match self.next("a term")? {
            Token::Sign("(") => {
                let query = self.query()?;
                self.sign(")", "a closing bracket")?;
                Ok(query)
            }
            Token::Quoted(value) => self.member(value),
            Token::Word(name) => self.term(name),
            token @ Token::Sign(_) => Err(token.unexpected("a term")),
        }
    }

    /// `'value' in name`
    fn member(&mut self, value: String) -> Result<Query, QueryError> {
        self.word("in")?;
        match self.next("a name")? {
            Token::Word(name) => match name.as_str() {
                "parents" => Ok(Query::Inside(value)),
                "owners" | "writers" | "readers" => Ok(Query::Person(value)),
                _ => Err(operator(&name, "in")),
            },
            token => Err(token.unexpected("a name")),
        }
    }

    fn term(&mut self, name: String) -> Result<Query, QueryError> {
        match name.as_str() {
            "name" => self.text(&name, |how, value| Query::Name(how, value.to_lowercase())),
            "mimeType" => self.text(&name, Query::MediaType),
            "createdTime" => self.time("createdTime"),
            "modifiedTime" => self.time("modifiedTime"),
            "viewedByMeTime" => self.time("viewedByMeTime"),
            "sharedWithMeTime" => self.time("sharedWithMeTime"),
            "trashed" => self.flag("trashed"),
            "starred" => self.flag("starred"),
            "sharedWithMe" => self.flag("sharedWithMe"),
            "properties" => self.has("properties"),
            "appProperties" => self.has("appProperties"),
            _ => Err(QueryError::UnknownName { name }),
        }
    }

    fn text(
        &mut self,
        name: &str,
        query: impl Fn(Match, String) -> Query,
    ) -> Result<Query, QueryError> {
        let sign = self.next("an operator")?;
        let value = self.quoted()?;
        match sign {
            Token::Sign("=") => Ok(query(Match::Equal, value)),
            Token::Sign("!=") => Ok(Query::Not(Box::new(query(Match::Equal, value)))),
            Token::Word(word) if word == "contains" => Ok(query(Match::Contains, value)),
            Token::Sign(sign) => Err(operator(name, sign)),
            token => Err(token.unexpected("an operator")),
        }
    }

    fn time(&mut self, name: &'static str) -> Result<Query, QueryError> {
        let sign = self.next("an operator")?;
        let moment = moment(self.quoted()?)?;
        let query = |comparison, moment| Ok(Query::Time(name, comparison, moment));
        match sign {
            Token::Sign("<") => query(Comparison::Less, moment),
            Token::Sign("<=") => query(Comparison::LessOrEqual, moment),
            Token::Sign("=") => query(Comparison::Equal, moment),
            Token::Sign(">=") => query(Comparison::GreaterOrEqual, moment),
            Token::Sign(">") => query(Comparison::Greater, moment),
            Token::Sign("!=") => Ok(Query::Not(Box::new(query(Comparison::Equal, moment)?))),
            token => Err(token.unexpected("a comparison")),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<Query, QueryError> {
        let wanted = if self.skip(&Token::Sign("=")) {
            self.truth()?
        } else if self.skip(&Token::Sign("!=")) {
            !self.truth()?
        } else {
            true
        };
        Ok(Query::Flag(name, wanted))
    }

    /// `has { key='k' and value='v' }`
    fn has(&mut self, field: &'static str) -> Result<Query, QueryError> {
        self.word("has")?;
        self.sign("{", "a brace")?;
        self.word("key")?;
        self.sign("=", "=")?;
        let key = self.quoted()?;
        self.word("and")?;
        self.word("value")?;
        self.sign("=", "=")?;
        let value = self.quoted()?;
        self.sign("}", "a closing brace")?;
        Ok(Query::Has { field, key, value })
    }

    fn truth(&mut self) -> Result<bool, QueryError> {
        match self.next("true or false")? {
            Token::Word(word) if word == "true" => Ok(true),
            Token::Word(word) if word == "false" => Ok(false),
            token => Err(token.unexpected("true or false")),
        }
    }

    fn quoted(&mut self) -> Result<String, QueryError> {
        match self.next("a value in quotation marks")? {
            Token::Quoted(value) => Ok(value),
            token => Err(token.unexpected("a value in quotation marks")),
        }
    }

    fn sign(&mut self, sign: &'static str, expected: &'static str) -> Result<(), QueryError> {
        self.exactly(&Token::Sign(sign), expected)
    }

    fn word(&mut self, word: &'static str) -> Result<(), QueryError> {
        self.exactly(&Token::Word(word.to_owned()), word)
    }

    fn exactly(&mut self, wanted: &Token, expected: &'static str) -> Result<(), QueryError> {
        match self.next(expected)? {
            token if token == *wanted => Ok(()),
            token => Err(token.unexpected(expected)),
        }
    }

    fn skip_word(&mut self, word: &str) -> bool {
        self.skip(&Token::Word(word.to_owned()))
    }

    fn skip(&mut self, token: &Token) -> bool {
        let is_next = self.tokens.last() == Some(token);
        if is_next {
            self.tokens.pop();
        }
        is_next
    }

    fn next(&mut self, expected: &'static str) -> Result<Token, QueryError> {
        self.tokens.pop().ok_or(QueryError::Ends { expected })
    }
}

fn operator(name: &str, operator: &str) -> QueryError {
    QueryError::Operator {
        name: name.to_owned(),
        operator: operator.to_owned(),
    }
}

#[cfg(test)]
mod tests;
