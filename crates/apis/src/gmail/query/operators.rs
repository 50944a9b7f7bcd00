//! The operators of a query, such as `from:`, and the tests for their values.
//!
//! Source: "Refine searches in Gmail", support.google.com/mail/answer/7190.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{Field, QueryError, Term, Test, Text, not};
use crate::gmail::options::Address;
use crate::gmail::rows::words_of;

const A_TEXT: &str = "a text with a letter or a digit";

const A_DAY: &str = "a day, as 2024/5/1 or 5/1/2024, or a number of seconds since 1970";

const AN_AGE: &str = "a number of days, weeks, months or years, as 3d, 2w, 2m or 1y";

const A_SIZE: &str = "a number of bytes, as 1000000, 500K or 10M";

const A_LABEL: &str = "the name of a label";

/// The operators and their values.
const OPERATORS: [(&str, &str); 25] = [
    ("after", A_DAY),
    ("bcc", A_TEXT),
    ("before", A_DAY),
    (
        "category",
        "primary, social, promotions, updates, forums, reservations or purchases",
    ),
    ("cc", A_TEXT),
    ("deliveredto", A_TEXT),
    ("filename", A_TEXT),
    ("from", A_TEXT),
    (
        "has",
        "attachment, userlabels, nouserlabels, or a star such as yellow-star",
    ),
    ("in", A_LABEL),
    (
        "is",
        "unread, read, starred, important, sent, draft, chat, muted or snoozed",
    ),
    ("l", A_LABEL),
    ("label", A_LABEL),
    ("larger", A_SIZE),
    ("larger_than", A_SIZE),
    ("list", A_TEXT),
    ("newer", A_DAY),
    ("newer_than", AN_AGE),
    ("older", A_DAY),
    ("older_than", AN_AGE),
    ("rfc822msgid", "the Message-ID of a message"),
    ("size", A_SIZE),
    ("smaller", A_SIZE),
    ("subject", A_TEXT),
    ("to", A_TEXT),
];

/// Values of `has:` for which the service inspects the targets of links in a message.
const NOT_SUPPORTED: [&str; 5] = [
    "document",
    "drive",
    "presentation",
    "spreadsheet",
    "youtube",
];

/// Stars that no message has here: the API sets the yellow one alone.
const OTHER_STARS: [&str; 11] = [
    "blue-info",
    "blue-star",
    "green-check",
    "green-star",
    "orange-guillemet",
    "orange-star",
    "purple-question",
    "purple-star",
    "red-bang",
    "red-star",
    "yellow-bang",
];

/// Maximum number of characters of a value in a message of an error.
const SHOWN: usize = 100;

/// Returns the operator of this name.
pub(super) fn known(name: &str) -> Option<&'static str> {
    let mut operators = OPERATORS.iter();
    let found = operators.find(|(operator, _)| *operator == name);
    found.map(|(operator, _)| *operator)
}

/// Returns the refusal of a value that an operator does not take.
pub(super) fn refusal(operator: &'static str, value: &str) -> QueryError {
    let mut operators = OPERATORS.iter();
    let found = operators.find(|(name, _)| *name == operator);
    QueryError::Value {
        operator,
        value: value.chars().take(SHOWN).collect(),
        takes: found.map_or(A_TEXT, |(_, takes)| takes),
    }
}

/// Reads the values of operators.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'q> {
    /// Milliseconds since the epoch.
    now: u64,
    /// Whom `me` stands for.
    owner: &'q Address,
}

impl<'q> Reader<'q> {
    pub(super) fn new(now: u64, owner: &'q Address) -> Self {
        Self { now, owner }
    }

    /// Returns the term of an operator and its value.
    ///
    /// # Errors
    /// [`QueryError`] if the operator does not take the value.
    pub(super) fn term(self, operator: &'static str, text: &Text) -> Result<Term, QueryError> {
        let value = &*text.value;
        let folded = value.to_lowercase();
        // The header Delivered-To is not among the words of a message.
        let is_delivery = operator == "deliveredto";
        if is_delivery || (operator == "has" && NOT_SUPPORTED.contains(&&*folded)) {
            return Err(QueryError::Unsupported {
                operator,
                value: folded,
            });
        }
        let term = match operator {
            // Names of labels are not split into words: `label:my-label` is one name.
            "label" | "l" | "in" => (!value.is_empty()).then(|| location(value)),
            "has" if folded == "nouserlabels" => Some(not(Term::Test(Test::UserLabel))),
            _ => self.test(operator, text, &folded).map(Term::Test),
        };
        term.ok_or_else(|| refusal(operator, value))
    }

    fn test(self, operator: &str, text: &Text, folded: &str) -> Option<Test> {
        let value = &*text.value;
        let person = |fields| {
            let is_owner = !text.is_quoted && folded == "me";
            words(fields, if is_owner { self.owner.as_str() } else { value })
        };
        match operator {
            "from" => person(&[Field::From]),
            "to" => person(&[Field::To, Field::Cc, Field::Bcc]),
            "cc" => person(&[Field::Cc]),
            "bcc" => person(&[Field::Bcc]),
            "subject" => words(&[Field::Subject], value),
            "filename" => words(&[Field::Files], value),
            "list" => words(&[Field::List], value),
            "is" => is(folded),
            "has" => has(folded),
            "category" => category(folded),
            "rfc822msgid" => {
                let id = value.trim_start_matches('<').trim_end_matches('>');
                (!id.is_empty()).then(|| Test::MessageId(id.to_owned()))
            }
            "size" | "larger" | "larger_than" => Some(Test::Larger(size(value)?)),
            "smaller" => Some(Test::Smaller(size(value)?)),
            "after" | "newer" => Some(Test::Since(moment(value)?)),
            "before" | "older" => Some(Test::Until(moment(value)?)),
            "newer_than" => Some(Test::Since(self.now.saturating_sub(age(value)?))),
            "older_than" => Some(Test::Until(self.now.saturating_sub(age(value)?))),
            _ => None,
        }
    }
}

/// Returns the test for a phrase in one of the fields.
fn words(fields: &'static [Field], text: &str) -> Option<Test> {
    let phrase = words_of([text]);
    (!phrase.is_empty()).then_some(Test::In(fields, phrase))
}

fn location(name: &str) -> Term {
    let label = |id: &str| Term::Test(Test::Label(id.to_owned()));
    match name.to_lowercase().as_str() {
        "anywhere" => Term::Test(Test::Everywhere),
        "drafts" => label("DRAFT"),
        "chats" => label("CHAT"),
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
        // No method mutes or snoozes a message.
        "muted" | "snoozed" => return Some(Test::Nothing),
        _ => return None,
    };
    Some(Test::Label(id.to_owned()))
}

fn has(value: &str) -> Option<Test> {
    match value {
        "attachment" => Some(Test::HasAttachment),
        "userlabels" => Some(Test::UserLabel),
        "yellow-star" => Some(Test::Label("STARRED".to_owned())),
        star if OTHER_STARS.contains(&star) => Some(Test::Nothing),
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
        // The API has no labels for them.
        "reservations" | "purchases" => return Some(Test::Nothing),
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
