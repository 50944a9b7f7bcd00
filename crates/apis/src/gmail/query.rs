//! The search language of Gmail, as a test on messages.
//!
//! Texts are compared word by word: `from:ann` finds `Ann Lee <ann@example.com>` and `Lee
//! <x@ann.org>`, not `Anna`. Words in quotes must be adjacent, in this order.
//!
//! Only the limits of length and depth make a query invalid. An unknown operator is searched for as
//! words, and a missing parenthesis is assumed.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use windlass_server::handler::Rejection;

use super::mailbox::{self, Mailbox};
use super::rows::{Entry, words_of};

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

/// Longest query, in bytes.
pub(super) const LONGEST: usize = 2048;

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<Term>);

/// Why a query is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    /// It is longer than [`LONGEST`].
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
    /// Parentheses are nested too deep.
    #[error("has parentheses nested too deep")]
    TooDeep,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    All(Vec<Term>),
    Any(Vec<Term>),
    Not(Box<Term>),
    Test(Test),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// A phrase in one of the fields.
    In(&'static [Field], String),
    /// A phrase anywhere, the text of the message included.
    Anywhere(String),
    /// A label by its name.
    LabelNamed(String),
    /// A label by its id.
    Label(String),
    /// Any of the labels of the user.
    UserLabel,
    Read,
    HasAttachment,
    MessageId(String),
    Larger(u64),
    Smaller(u64),
    /// In milliseconds since the epoch, this one included.
    Since(u64),
    /// In milliseconds since the epoch.
    Until(u64),
    /// Any message, those in spam and trash included, which other queries leave out.
    Everywhere,
    /// No message.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    From,
    To,
    Cc,
    Bcc,
    Subject,
    Files,
    List,
}

impl Field {
    fn of(self, entry: &Entry) -> &str {
        match self {
            Self::From => &entry.from,
            Self::To => &entry.to,
            Self::Cc => &entry.cc,
            Self::Bcc => &entry.bcc,
            Self::Subject => &entry.subject,
            Self::Files => &entry.files,
            Self::List => &entry.list,
        }
    }
}

const ALL_FIELDS: &[Field] = &[
    Field::From,
    Field::To,
    Field::Cc,
    Field::Bcc,
    Field::Subject,
    Field::Files,
];

impl Query {
    /// Parses a query. `now` is in milliseconds since the epoch.
    pub(super) fn parse(text: &str, now: u64) -> Result<Self, QueryError> {
        parse(text, now).map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces names of labels by their ids. An unknown label matches no message.
    pub(super) async fn with_labels(
        mut self,
        mailbox: &mut Mailbox<'_, '_>,
    ) -> Result<Self, Rejection> {
        let mut open: Vec<&mut Term> = self.0.iter_mut().collect();
        while let Some(term) = open.pop() {
            match term {
                Term::All(terms) | Term::Any(terms) => open.extend(terms),
                Term::Not(term) => open.push(term),
                Term::Test(test) => {
                    if let Test::LabelNamed(name) = test {
                        let id = mailbox::label_named(mailbox, name).await?;
                        *test = id.map_or(Test::Nothing, Test::Label);
                    }
                }
            }
        }
        Ok(self)
    }

    /// Returns whether the query names spam or trash.
    pub(super) fn includes_spam_and_trash(&self) -> bool {
        self.0.iter().any(Term::includes_spam_and_trash)
    }

    /// Returns whether a message matches; `None` if that depends on its text and `body` is `None`.
    pub(super) fn matches(&self, entry: &Entry, body: Option<&str>) -> Option<bool> {
        all(&self.0, entry, body)
    }

    /// Returns the number of tests, each of which may read a whole entry.
    pub(super) fn tests(&self) -> usize {
        self.0.iter().map(Term::tests).sum()
    }
}

impl Term {
    fn includes_spam_and_trash(&self) -> bool {
        match self {
            Self::All(terms) | Self::Any(terms) => terms.iter().any(Self::includes_spam_and_trash),
            Self::Not(_) => false,
            Self::Test(Test::Label(id)) => matches!(id.as_str(), "SPAM" | "TRASH"),
            Self::Test(test) => *test == Test::Everywhere,
        }
    }

    fn tests(&self) -> usize {
        match self {
            Self::All(terms) | Self::Any(terms) => terms.iter().map(Self::tests).sum(),
            Self::Not(term) => term.tests(),
            Self::Test(_) => 1,
        }
    }

    fn matches(&self, entry: &Entry, body: Option<&str>) -> Option<bool> {
        match self {
            Self::All(terms) => all(terms, entry, body),
            Self::Any(terms) => any(terms, entry, body),
            Self::Not(term) => term.matches(entry, body).map(|found| !found),
            Self::Test(test) => test.matches(entry, body),
        }
    }
}

fn all(terms: &[Term], entry: &Entry, body: Option<&str>) -> Option<bool> {
    let mut verdict = Some(true);
    for term in terms {
        match term.matches(entry, body) {
            Some(false) => return Some(false),
            Some(true) => {}
            None => verdict = None,
        }
    }
    verdict
}

fn any(terms: &[Term], entry: &Entry, body: Option<&str>) -> Option<bool> {
    let mut verdict = Some(false);
    for term in terms {
        match term.matches(entry, body) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => verdict = None,
        }
    }
    verdict
}

impl Test {
    fn matches(&self, entry: &Entry, body: Option<&str>) -> Option<bool> {
        let within = |fields: &[Field], phrase: &str| {
            fields.iter().any(|field| field.of(entry).contains(phrase))
        };
        Some(match self {
            Self::In(fields, phrase) => within(fields, phrase),
            Self::Anywhere(phrase) if within(ALL_FIELDS, phrase) => true,
            Self::Anywhere(phrase) => body?.contains(phrase.as_str()),
            Self::Label(id) => entry.has(id),
            Self::UserLabel => entry.labels.iter().any(|id| id.starts_with("Label_")),
            Self::Read => !entry.has("UNREAD"),
            Self::HasAttachment => entry.has_attachment,
            Self::MessageId(id) => entry.message_id.as_ref() == Some(id),
            Self::Larger(size) => entry.size > *size,
            Self::Smaller(size) => entry.size < *size,
            Self::Since(date) => entry.date >= *date,
            Self::Until(date) => entry.date < *date,
            Self::Everywhere => true,
            Self::LabelNamed(_) | Self::Nothing => false,
        })
    }
}

/// Maximum nesting of parentheses.
const DEEPEST: usize = 50;

/// Parses a query into terms that all have to match.
fn parse(text: &str, now: u64) -> Result<Vec<Term>, QueryError> {
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
fn moment(text: &str) -> Option<u64> {
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
fn age(text: &str) -> Option<u64> {
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
mod tests;
