//! The search language of Gmail, as a test on messages.
//!
//! Texts are compared word by word: `from:ann` finds `Ann Lee <ann@example.com>` and `Lee
//! <x@ann.org>`, not `Anna`. Words in quotes must be adjacent, in this order.

use windlass_server::handler::Rejection;

use super::mailbox::{self, Mailbox};
use super::rows::Entry;

mod parser;

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
        parser::parse(text, now).map(Self)
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

#[cfg(test)]
mod tests;
