//! Reads a query: its terms, and the syntax between them.

use super::operators::{self, Reader};
use super::{MAX_LEN, Near, QueryError, Term, Test, Text, not};
use crate::gmail::mime::words;
use crate::gmail::options::Address;
use crate::gmail::rows::words_of;

/// Maximum nesting of parentheses.
const DEEPEST: usize = 50;

/// Parses a query into terms that all have to match.
pub(super) fn parse(text: &str, now: u64, owner: &Address) -> Result<Vec<Term>, QueryError> {
    if text.len() > MAX_LEN {
        return Err(QueryError::TooLong);
    }
    let mut parser = Parser {
        rest: text.trim_start(),
        operators: Reader::new(now, owner),
        depth: 0,
    };
    let mut terms = Vec::new();
    while !parser.rest.is_empty() {
        terms.extend(parser.group(None)?);
    }
    Ok(terms)
}

struct Parser<'q> {
    rest: &'q str,
    operators: Reader<'q>,
    depth: usize,
}

/// Connective between two terms of a group.
enum Connective {
    And,
    Or,
}

impl Parser<'_> {
    /// Parses terms up to the closing parenthesis or the end. `OR` binds more tightly than `AND`.
    fn group(&mut self, close: Option<char>) -> Result<Vec<Term>, QueryError> {
        let mut terms: Vec<Term> = Vec::new();
        let mut connective = Connective::And;
        loop {
            self.skip_blanks();
            if self.rest.is_empty() {
                return Ok(terms);
            }
            if let Some(closing) = self.eat_any(&[')', '}']) {
                match close {
                    Some(wanted) if wanted == closing => return Ok(terms),
                    // An unmatched closing parenthesis is ignored.
                    _ => continue,
                }
            }
            if self.eat_word("OR") || self.eat_any(&['|']).is_some() {
                connective = Connective::Or;
                continue;
            }
            if self.eat_word("AND") {
                continue;
            }
            let Some(term) = self.term()? else {
                continue;
            };
            match (connective, terms.pop()) {
                (Connective::Or, Some(Term::Any(mut any))) => {
                    any.push(term);
                    terms.push(Term::Any(any));
                }
                (Connective::Or, Some(last)) => terms.push(Term::Any(vec![last, term])),
                (_, last) => {
                    terms.extend(last);
                    terms.push(term);
                }
            }
            connective = Connective::And;
        }
    }

    fn term(&mut self) -> Result<Option<Term>, QueryError> {
        if self.eat_any(&['-']).is_some() {
            self.enter()?;
            let term = self.term()?;
            self.depth -= 1;
            return Ok(term.map(not));
        }
        self.eat_any(&['+']);
        if self.eat_any(&['(']).is_some() {
            return Ok(some(self.nested(')')?, Term::All));
        }
        if self.eat_any(&['{']).is_some() {
            return Ok(some(self.nested('}')?, Term::Any));
        }
        if let Some(operator) = self.operator() {
            return self.operand(operator).map(Some);
        }
        let text = self.text();
        self.words(&text)
    }

    /// Returns the term of a text without an operator: a phrase, or two words near each other.
    fn words(&mut self, text: &Text) -> Result<Option<Term>, QueryError> {
        let near = if text.is_quoted {
            near_in_quotes(&text.value)?
        } else {
            self.near(&text.value)?
        };
        // A text without letters and digits is ignored, as in the service.
        Ok(near.or_else(|| anywhere(&text.value)))
    }

    /// Parses the rest of `first AROUND 5 second`.
    fn near(&mut self, first: &str) -> Result<Option<Term>, QueryError> {
        let before = self.rest;
        self.skip_blanks();
        if first.is_empty() || !self.eat_word("AROUND") {
            self.rest = before;
            return Ok(None);
        }
        self.skip_blanks();
        let within = self.text().value;
        self.skip_blanks();
        let second = self.text().value;
        near(first, &within, &second, false).map(Some)
    }

    fn nested(&mut self, close: char) -> Result<Vec<Term>, QueryError> {
        self.enter()?;
        let terms = self.group(Some(close));
        self.depth -= 1;
        terms
    }

    fn enter(&mut self) -> Result<(), QueryError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(QueryError::TooDeep);
        }
        Ok(())
    }

    /// Parses the operand of an operator: a text, or several in parentheses, as in `from:(ann
    /// bob)`.
    fn operand(&mut self, operator: &'static str) -> Result<Term, QueryError> {
        let close = match self.eat_any(&['(', '{']) {
            None => return self.test(operator),
            Some('(') => ')',
            Some(_) => '}',
        };
        self.enter()?;
        let mut terms = Vec::new();
        let mut is_any = close == '}';
        loop {
            self.skip_blanks();
            if self.rest.is_empty() || self.eat_any(&[close]).is_some() {
                break;
            }
            if self.eat_word("OR") || self.eat_any(&['|']).is_some() {
                is_any = true;
            } else if !self.eat_word("AND") && self.eat_any(&[')', '}', '(', '{']).is_none() {
                let is_not = self.eat_any(&['-']).is_some();
                let term = self.test(operator)?;
                terms.push(if is_not { not(term) } else { term });
            }
        }
        self.depth -= 1;
        let term = some(terms, if is_any { Term::Any } else { Term::All });
        // Without a value the operator would be ignored, and more messages found.
        term.ok_or_else(|| operators::refusal(operator, ""))
    }

    fn test(&mut self, operator: &'static str) -> Result<Term, QueryError> {
        let text = self.text();
        self.operators.term(operator, &text)
    }

    /// Parses a known operator before a colon.
    fn operator(&mut self) -> Option<&'static str> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let after = self.rest[end..].strip_prefix(':')?;
        let operator = self.rest[..end].to_ascii_lowercase();
        let known = operators::known(&operator)?;
        self.rest = after.trim_start_matches([' ', '\t']);
        Some(known)
    }

    /// Parses a quoted text, or all up to a blank or a parenthesis. The text
    /// is empty if one of these comes first.
    fn text(&mut self) -> Text {
        if self.eat_any(&['"']).is_some() {
            let (text, rest) = self.rest.split_once('"').unwrap_or((self.rest, ""));
            self.rest = rest;
            return Text {
                value: text.to_owned(),
                is_quoted: true,
            };
        }
        let is_end = |c: char| c.is_whitespace() || "(){}\"".contains(c);
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Text {
            value: text.to_owned(),
            is_quoted: false,
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat_any(&mut self, wanted: &[char]) -> Option<char> {
        let first = self.rest.chars().next();
        let found = first.filter(|first| wanted.contains(first))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(word) else {
            return false;
        };
        let is_whole = rest.is_empty() || rest.starts_with([' ', '\t', '(', '{', ')', '}']);
        if is_whole {
            self.rest = rest;
        }
        is_whole
    }
}

/// Returns two words near each other, if a text in quotation marks asks for them: in this order.
fn near_in_quotes(text: &str) -> Result<Option<Term>, QueryError> {
    let Some((first, rest)) = text.split_once(" AROUND ") else {
        return Ok(None);
    };
    let (within, second) = rest
        .trim_start()
        .split_once(' ')
        .ok_or(QueryError::Around)?;
    near(first, within, second, true).map(Some)
}

fn near(first: &str, within: &str, second: &str, in_order: bool) -> Result<Term, QueryError> {
    let near = Near {
        first: one_word(first)?,
        second: one_word(second)?,
        within: within.parse().map_err(|_| QueryError::Around)?,
        in_order,
    };
    Ok(Term::Test(Test::Near(near)))
}

fn one_word(text: &str) -> Result<String, QueryError> {
    let mut words = words(text);
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word),
        _ => Err(QueryError::Around),
    }
}

fn anywhere(text: &str) -> Option<Term> {
    let phrase = words_of([text]);
    (!phrase.is_empty()).then_some(Term::Test(Test::Anywhere(phrase)))
}

fn some(mut terms: Vec<Term>, group: fn(Vec<Term>) -> Term) -> Option<Term> {
    match terms.len() {
        0 => None,
        1 => terms.pop(),
        _ => Some(group(terms)),
    }
}
