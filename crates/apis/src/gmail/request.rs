//! The arguments of a call: the mailbox, parameters, fields of the metadata; and answers to it.

use serde_json::{Map, Value};
use windlass_discovery::Access;
use windlass_rest::handler::{Answer, Call, Rejection};

use super::mailbox::{self, Mailbox};
use super::options::{Address, Options};
use super::rows::{Labels, Rows};
use super::{ids, invalid, invalid_parameter, not_found};

/// Maximum number of entries of a page.
const MAX_PAGE: usize = 500;

/// Number of entries of a page by default.
const DEFAULT_PAGE: usize = 100;

/// Maximum number of values of a parameter or a field that names labels or headers.
const MAX_NAMES: usize = 100;

/// A call on a mailbox.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) options: &'a Options,
    /// Address of the mailbox.
    pub(super) address: Address,
}

impl<'a> Request<'a> {
    /// # Errors
    /// [`Rejection::NotFound`] when `userId` names no mailbox of this server, or the mailbox of
    /// another principal. [`Rejection::FailedPrecondition`] when it is `me` and the principal has
    /// no mailbox.
    pub(super) fn new(call: &'a Call<'a>, options: &'a Options) -> Result<Self, Rejection> {
        let user = call.path.value("userId").unwrap_or("me");
        let address = match user {
            "me" => own_mailbox(call, options).ok_or_else(no_mailbox)?,
            user => {
                let named = user.parse::<Address>().ok();
                let named = named.filter(|address| options.is_local(address));
                let named = named.map(|address| address.without_tag());
                let own = named.filter(|named| may_open(call, options, named));
                own.ok_or_else(|| not_found("mailbox", user))?
            }
        };
        Ok(Self {
            call,
            options,
            address,
        })
    }

    pub(super) fn rows(&self) -> Rows<'a> {
        Rows::new(self.call.lookup, self.call.now)
    }

    /// Returns the `id` of the path.
    pub(super) fn id(&self) -> &'a str {
        self.call.path.value("id").unwrap_or_default()
    }

    /// Returns the `id` of the path, which is the id of a message or a thread.
    pub(super) fn message_id(&self) -> Result<String, Rejection> {
        ids::canonical(self.id())
    }

    /// Returns the id for a message that this call creates: 16 hexadecimal digits that ascend with
    /// time.
    pub(super) fn fresh_id(&self) -> String {
        self.call.fresh_id[1..17].to_owned()
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.call
            .query
            .first(name)
            .filter(|value| !value.is_empty())
    }

    pub(super) fn parameters(&self, name: &str) -> Result<Vec<&'a str>, Rejection> {
        let pairs = self.call.query.iter().filter(|(key, _)| *key == name);
        let values: Vec<_> = pairs.map(|(_, value)| value).collect();
        check_count(name, values.len(), MAX_NAMES)?;
        Ok(values)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        let value = self.call.query.first(name);
        // In any case: some libraries write `True`.
        value.is_some_and(|it| matches!(it.to_ascii_lowercase().as_str(), "true" | "1" | ""))
    }

    pub(super) fn page_size(&self) -> Result<usize, Rejection> {
        match self.parameter("maxResults").map(str::parse::<usize>) {
            None => Ok(DEFAULT_PAGE),
            Some(Ok(size)) if size > 0 => Ok(size.min(MAX_PAGE)),
            Some(_) => Err(invalid_parameter("maxResults", "must be a positive number")),
        }
    }

    /// Returns the fields of the message: the metadata itself, or its `message` if the method is
    /// one of drafts.
    pub(super) fn message_fields(&self) -> Result<&'a Map<String, Value>, Rejection> {
        let metadata = self.call.metadata;
        if self.call.method.collection() != "users.drafts" {
            return Ok(metadata);
        }
        match metadata.get("message") {
            None | Some(Value::Null) => Ok(empty()),
            Some(Value::Object(message)) => Ok(message),
            Some(_) => Err(invalid("message must be an object")),
        }
    }

    /// Returns the thread that the client names for a new message.
    pub(super) fn wanted_thread(&self) -> Result<Option<String>, Rejection> {
        let thread = text(self.message_fields()?, "threadId")?;
        thread.map(ids::canonical).transpose()
    }

    /// Returns the labels that the client names for a new message; `None` if there is no such
    /// field.
    pub(super) fn wanted_labels(&self) -> Result<Option<Labels>, Rejection> {
        let fields = self.message_fields()?;
        if !fields.contains_key("labelIds") {
            return Ok(None);
        }
        let labels = texts(fields, "labelIds", MAX_NAMES)?;
        Ok(Some(labels.into_iter().map(str::to_owned).collect()))
    }
}

/// Returns the address of the caller's mailbox, `me`.
fn own_mailbox(call: &Call<'_>, options: &Options) -> Option<Address> {
    match call.separate_owner {
        Some(owner) => options.mailbox_of(owner.id()),
        None => Some(options.me.without_tag()),
    }
}

/// Whether the caller may open a mailbox of this server: where owners are kept apart, only its own.
fn may_open(call: &Call<'_>, options: &Options, mailbox: &Address) -> bool {
    let is_shared = call.api.settings().access == Access::Shared;
    is_shared || own_mailbox(call, options).is_some_and(|own| own == *mailbox)
}

fn no_mailbox() -> Rejection {
    let problem = "the principal has no mailbox on this server; its id must be an address of a local \
                   domain, or the part of one before the @, without a tag, and not that of gmail.me, \
                   whose owner is the principal of auth.unowned";
    Rejection::FailedPrecondition {
        problem: problem.to_owned(),
    }
}

/// Refuses labels that do not exist and labels that `may_change` excludes.
pub(super) async fn check_labels(
    mailbox: &mut Mailbox<'_, '_>,
    labels: &Labels,
    may_change: fn(&str) -> bool,
) -> Result<(), Rejection> {
    for id in labels {
        if !mailbox::label_exists(mailbox, id).await? || !may_change(id) {
            let id: String = id.chars().take(100).collect();
            return Err(invalid(format!("invalid label: {id}")));
        }
    }
    Ok(())
}

/// Returns the text of a field; `None` if it is absent or empty.
pub(super) fn text<'f>(
    fields: &'f Map<String, Value>,
    name: &str,
) -> Result<Option<&'f str>, Rejection> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Rejection::invalid_field(name, "must be a string")),
    }
}

/// Returns the texts of a field that is a list of at most `most`; none if it is absent.
pub(super) fn texts<'f>(
    fields: &'f Map<String, Value>,
    name: &str,
    most: usize,
) -> Result<Vec<&'f str>, Rejection> {
    let list = match fields.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(Rejection::invalid_field(name, "must be a list")),
    };
    check_count(name, list.len(), most)?;
    let texts = list.iter().map(Value::as_str);
    let texts: Option<Vec<_>> = texts.collect();
    texts.ok_or_else(|| Rejection::invalid_field(name, "must be a list of strings"))
}

fn check_count(name: &str, count: usize, most: usize) -> Result<(), Rejection> {
    if count > most {
        return Err(invalid(format!(
            "{name} has {count} values; the limit is {most}"
        )));
    }
    Ok(())
}

fn empty() -> &'static Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    &EMPTY
}

/// Returns an answer without changes.
pub(super) fn body_of(body: Value) -> Answer {
    let body = match body {
        Value::Object(body) => body,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    Answer::of(body)
}

/// Returns the answer with the changes of the rows.
pub(super) fn finish(rows: Rows<'_>, answer: Answer) -> Answer {
    Answer {
        changes: rows.into_changes(),
        ..answer
    }
}
