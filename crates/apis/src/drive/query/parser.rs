//! From the text of a query to a [`Query`], by recursive descent over a bounded number of parts.

use super::{Comparison, Match, Query, QueryError, moment};

/// The most terms, brackets and words that are read. It bounds the depth, too.
pub(super) const MOST_PARTS: usize = 600;

/// A word, a value, or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

/// The signs, the longer of those that begin alike first.
const SIGNS: [&str; 10] = ["<=", ">=", "!=", "<", ">", "=", "(", ")", "{", "}"];

/// Reads a query; an empty one is for all files.
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
        if tokens.len() == MOST_PARTS {
            return Err(QueryError::TooLong);
        }
        let (token, after) = token(rest)?;
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn token(text: &str) -> Result<(Token, &str), QueryError> {
    if let Some(quoted) = text.strip_prefix('\'') {
        return self::quoted(quoted);
    }
    if let Some(sign) = SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        return Ok((Token::Sign(sign), &text[sign.len()..]));
    }
    let ends = |char: char| char.is_whitespace() || "<>=!(){}'".contains(char);
    // A lone exclamation mark is a word of its own.
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
