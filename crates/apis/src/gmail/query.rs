//! The search language of Gmail, as a test on messages.
//!
//! Texts are compared word by word: `from:ann` finds `Ann Lee <ann@example.com>` and `Lee
//! <x@ann.org>`, not `Anna`. Words in quotes must be adjacent, in this order.
//!
//! `parser` reads terms and the syntax between them; `operators` reads the operators before a
//! colon. A documented operator has its meaning or is refused. Treated as words, it would find
//! other messages. A text before a colon that is not an operator is read as words, as in the
//! service. A missing parenthesis is assumed.

use windlass_rest::handler::Rejection;

use super::mailbox::{self, Mailbox};
use super::options::Address;
use super::rows::Entry;

mod operators;
mod parser;

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

/// Longest query, in bytes.
pub(super) const MAX_LEN: usize = 2048;

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<Term>);

/// Why a query is refused. The text follows the name of its parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    /// It is longer than [`MAX_LEN`].
    #[error("is longer than {MAX_LEN} bytes")]
    TooLong,
    /// Parentheses are nested too deep.
    #[error("has parentheses nested too deep")]
    TooDeep,
    /// An operator has a value that it does not take, or none.
    #[error("{operator}:{value} is no search; {operator}: takes {takes}")]
    Value {
        /// The operator, without its colon.
        operator: &'static str,
        /// Its value.
        value: String,
        /// The values that it takes.
        takes: &'static str,
    },
    /// The service has the operator, and this server has not.
    #[error("{operator}:{value} is not supported by this server")]
    Unsupported {
        /// The operator, without its colon.
        operator: &'static str,
        /// Its value.
        value: String,
    },
    /// `AROUND` is not between two words, with a number.
    #[error("AROUND stands with a number between two words, as in hay AROUND 5 price")]
    Around,
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
    /// Two words near each other, the text of the message included.
    Near(Near),
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

/// A word of a query, or a text in quotation marks.
#[derive(Debug)]
struct Text {
    value: String,
    is_quoted: bool,
}

/// Two words in one text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Near {
    first: String,
    second: String,
    /// Maximum distance in words between the two.
    within: usize,
    /// Whether the first one must come first.
    in_order: bool,
}

impl Near {
    /// Whether a text has the words so. `text` is as [`words_of`](super::rows::words_of) writes it.
    fn is_in(&self, text: &str) -> bool {
        let (mut first, mut second) = (None, None);
        let words = text.split(' ').filter(|word| !word.is_empty());
        for (index, word) in words.enumerate() {
            let is_close = |other: Option<usize>| other.is_some_and(|at| index - at <= self.within);
            let (is_first, is_second) = (word == self.first, word == self.second);
            if (is_second && is_close(first)) || (is_first && !self.in_order && is_close(second)) {
                return true;
            }
            first = if is_first { Some(index) } else { first };
            second = if is_second { Some(index) } else { second };
        }
        false
    }
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
    /// Parses a query of the owner of a mailbox. `now` is in milliseconds since the epoch.
    pub(super) fn parse(text: &str, now: u64, owner: &Address) -> Result<Self, QueryError> {
        parser::parse(text, now, owner).map(Self)
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

fn not(term: Term) -> Term {
    Term::Not(Box::new(term))
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
            Self::Near(near) if ALL_FIELDS.iter().any(|it| near.is_in(it.of(entry))) => true,
            Self::Near(near) => near.is_in(body?),
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

#[cfg(test)]
mod tests;
