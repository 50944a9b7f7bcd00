//! The grammar of queries.
//!
//! Only the limits of length and depth make a query invalid. An unknown operator is searched for as
//! words, and a missing parenthesis is assumed.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{Field, LONGEST, QueryError, Term, Test};
use crate::gmail::rows::words_of;

/// Maximum nesting of parentheses.
const DEEPEST: usize = 50;

/// Parses a query into terms that all have to match.
pub(super) fn parse(text: &str, now: u64) -> Result<Vec<Term>, QueryError> {
    if text.len() > LONGEST {
        return Err(QueryError::TooLong);
    }
    let mut parser = Parser {
        rest: text.trim_start(),
        now,
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
    /// Milliseconds since the epoch.
    now: u64,
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
            return self.operand(&operator);
        }
        Ok(anywhere(&self.text()))
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
    fn operand(&mut self, operator: &str) -> Result<Option<Term>, QueryError> {
        let close = match self.eat_any(&['(', '{']) {
            None => return Ok(self.test(operator)),
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
            } else if self.eat_any(&[')', '}', '(', '{']).is_none() {
                let is_not = self.eat_any(&['-']).is_some();
                let term = self.test(operator);
                let term = term.map(|term| if is_not { not(term) } else { term });
                terms.extend(term);
            }
        }
        self.depth -= 1;
        Ok(some(terms, if is_any { Term::Any } else { Term::All }))
    }

    fn test(&mut self, operator: &str) -> Option<Term> {
        let value = self.text();
        match operator {
            // Names of labels are not split into words: `label:my-label` is one name.
            "label" | "l" | "in" => Some(location(&value)),
            "rfc822msgid" => {
                let id = value.trim_start_matches('<').trim_end_matches('>');
                Some(Term::Test(Test::MessageId(id.to_owned())))
            }
            _ => meaning(operator, &value, self.now)
                .map(Term::Test)
                .or_else(|| anywhere(&format!("{operator} {value}"))),
        }
    }

    /// Parses a known operator before a colon, and returns it in lower case.
    fn operator(&mut self) -> Option<String> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let after = self.rest[end..].strip_prefix(':')?;
        let operator = self.rest[..end].to_ascii_lowercase();
        if !OPERATORS.contains(&operator.as_str()) {
            return None;
        }
        self.rest = after.trim_start_matches([' ', '\t']);
        Some(operator)
    }

    /// Parses a quoted text, or all up to a blank or a parenthesis. The text
    /// is empty if one of these comes first.
    fn text(&mut self) -> String {
        if self.eat_any(&['"']).is_some() {
            let (text, rest) = self.rest.split_once('"').unwrap_or((self.rest, ""));
            self.rest = rest;
            return text.to_owned();
        }
        let is_end = |c: char| c.is_whitespace() || "(){}\"".contains(c);
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text.to_owned()
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

const OPERATORS: [&str; 26] = [
    "after",
    "around",
    "bcc",
    "before",
    "category",
    "cc",
    "deliveredto",
    "filename",
    "from",
    "has",
    "in",
    "is",
    "l",
    "label",
    "larger",
    "larger_than",
    "list",
    "newer",
    "newer_than",
    "older",
    "older_than",
    "rfc822msgid",
    "size",
    "smaller",
    "subject",
    "to",
];

/// Returns the test of an operator and its value; `None` if the value does not fit, and both are
/// words.
fn meaning(operator: &str, value: &str, now: u64) -> Option<Test> {
    let within = |fields: &'static [Field]| {
        let phrase = words_of([value]);
        (!phrase.is_empty()).then_some(Test::In(fields, phrase))
    };
    match operator {
        "from" => within(&[Field::From]),
        "to" | "deliveredto" => within(&[Field::To, Field::Cc, Field::Bcc]),
        "cc" => within(&[Field::Cc]),
        "bcc" => within(&[Field::Bcc]),
        "subject" => within(&[Field::Subject]),
        "filename" => within(&[Field::Files]),
        "list" => within(&[Field::List]),
        "is" => is(&value.to_lowercase()),
        "has" => has(&value.to_lowercase()),
        "category" => category(&value.to_lowercase()),
        "size" | "larger" | "larger_than" => Some(Test::Larger(size(value)?)),
        "smaller" => Some(Test::Smaller(size(value)?)),
        "after" | "newer" => Some(Test::Since(moment(value)?)),
        "before" | "older" => Some(Test::Until(moment(value)?)),
        "newer_than" => Some(Test::Since(now.saturating_sub(age(value)?))),
        "older_than" => Some(Test::Until(now.saturating_sub(age(value)?))),
        _ => None,
    }
}

fn location(name: &str) -> Term {
    let label = |id: &str| Term::Test(Test::Label(id.to_owned()));
    match name.to_lowercase().as_str() {
        "anywhere" => Term::Test(Test::Everywhere),
        "drafts" => label("DRAFT"),
        "archive" => Term::All(
            ["INBOX", "SENT", "DRAFT", "SPAM", "TRASH"]
                .map(|id| not(label(id)))
                .into(),
        ),
        _ => Term::Test(Test::LabelNamed(name.to_owned())),
    }
}

fn is(value: &str) -> Option<Test> {
    let id = match value {
        "unread" => "UNREAD",
        "read" => return Some(Test::Read),
        "starred" => "STARRED",
        "important" => "IMPORTANT",
        "sent" => "SENT",
        "draft" => "DRAFT",
        "chat" => "CHAT",
        _ => return None,
    };
    Some(Test::Label(id.to_owned()))
}

fn has(value: &str) -> Option<Test> {
    match value {
        "attachment" => Some(Test::HasAttachment),
        "userlabels" => Some(Test::UserLabel),
        _ => None,
    }
}

fn category(value: &str) -> Option<Test> {
    let id = match value {
        "primary" | "personal" => "CATEGORY_PERSONAL",
        "social" => "CATEGORY_SOCIAL",
        "promotions" => "CATEGORY_PROMOTIONS",
        "updates" => "CATEGORY_UPDATES",
        "forums" => "CATEGORY_FORUMS",
        _ => return None,
    };
    Some(Test::Label(id.to_owned()))
}

/// Reads a number of bytes, as in `1000`, `10K`, `5MB`.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" | "kb" => 1024,
        "m" | "mb" => 1024 * 1024,
        "g" | "gb" => 1024 * 1024 * 1024,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn anywhere(text: &str) -> Option<Term> {
    let phrase = words_of([text]);
    (!phrase.is_empty()).then_some(Term::Test(Test::Anywhere(phrase)))
}

fn not(term: Term) -> Term {
    Term::Not(Box::new(term))
}

fn some(mut terms: Vec<Term>, group: fn(Vec<Term>) -> Term) -> Option<Term> {
    match terms.len() {
        0 => None,
        1 => terms.pop(),
        _ => Some(group(terms)),
    }
}

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Milliseconds since the epoch: of a day's beginning in UTC, as in `2024/5/1`, `2024-05-01` and
/// `05/01/2024`, or of a number of seconds.
pub(super) fn moment(text: &str) -> Option<u64> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<_> = text.split(['/', '-', '.']).collect();
    if !numbers.iter().all(|number| is_digits(number)) {
        return None;
    }
    match numbers[..] {
        [seconds] => seconds.parse::<u64>().ok()?.checked_mul(1000),
        [year, month, day] if year.len() == 4 => day_of(year, month, day),
        [month, day, year] if year.len() == 4 => day_of(year, month, day),
        _ => None,
    }
}

fn day_of(year: &str, month: &str, day: &str) -> Option<u64> {
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let begins = date.ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(u64::try_from(begins.timestamp().as_millisecond()).unwrap_or(0))
}

/// Milliseconds, as in `3d`, `2m` (months of 30 days) and `1y`.
pub(super) fn age(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let days = match unit.to_ascii_lowercase() {
        'd' => 1,
        'w' => 7,
        'm' => 30,
        'y' => 365,
        _ => return None,
    };
    number.checked_mul(days * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_in_several_ways() {
        for text in [
            "2024/5/1",
            "2024/05/01",
            "2024-05-01",
            "05/01/2024",
            "1714521600",
        ] {
            assert_eq!(moment(text), Some(1_714_521_600_000), "{text}");
        }
        assert_eq!(moment("1950/1/1"), Some(0));
        for text in [
            "",
            "2024",
            "tomorrow",
            "2024/13/1",
            "1/2/3",
            "2024/5",
            "99999999999999999999",
        ] {
            let number = text == "2024";
            assert_eq!(moment(text).is_some(), number, "{text}");
        }
    }

    #[test]
    fn an_age_is_a_number_of_days_weeks_months_or_years() {
        assert_eq!(age("3d"), Some(3 * DAY));
        assert_eq!(age("1w"), Some(7 * DAY));
        assert_eq!(age("2M"), Some(60 * DAY));
        assert_eq!(age("1y"), Some(365 * DAY));
        for text in ["", "d", "3", "3h", "-1d", "18446744073709551615y", "3é"] {
            assert_eq!(age(text), None, "{text}");
        }
    }
}
