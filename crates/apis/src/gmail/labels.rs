//! Methods on labels: system labels, which always exist, and user labels.

use serde_json::{Map, Value, json};
use windlass_rest::handler::{Answer, Rejection};

use super::mailbox::{
    Mailbox, SYSTEM_LABELS, folded_label_name, is_system_label, label_row, label_row_or_default,
    write_label,
};
use super::request::{Request, body_of, finish, text};
use super::rows::{Label, LabelName};
use super::{invalid, not_found};

/// Maximum number of user labels, as in Gmail.
const MAX_LABELS: u64 = 10_000;

/// Longest label name, in characters, as in Gmail.
const MAX_NAME_LEN: usize = 225;

/// Number of labels that are read from the ledger at a time.
const BATCH: usize = 500;

const MESSAGE_LIST: [&str; 2] = ["show", "hide"];

const LABEL_LIST: [&str; 3] = ["labelShow", "labelShowIfUnread", "labelHide"];

/// Returns whether a client may add and remove the label. The server alone sets `SENT` and `DRAFT`.
pub(super) fn may_change(id: &str) -> bool {
    !matches!(id, "SENT" | "DRAFT" | "CHAT")
}

/// Returns whether a message may be inserted with the label.
pub(super) fn may_come_with(id: &str) -> bool {
    !matches!(id, "DRAFT" | "CHAT")
}

/// `users.labels.list`
pub(super) async fn list(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mailbox = Mailbox::open(&mut rows, &request.address);
    let collection = mailbox.collection("labels");
    let mut labels: Vec<_> = SYSTEM_LABELS.iter().map(|id| system(id)).collect();
    let mut after: Option<String> = None;
    loop {
        let batch: Vec<(String, Label)> = rows.list(&collection, after.as_deref(), BATCH).await?;
        let Some((last, _)) = batch.last() else {
            break;
        };
        after = Some(last.clone());
        let own = batch.iter().filter(|(id, _)| !is_system_label(id));
        labels.extend(own.map(|(id, label)| shown(id, label)));
    }
    Ok(body_of(json!({"labels": labels})))
}

/// `users.labels.get`
pub(super) async fn get(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let label = label_row_or_default(&mut mailbox, id).await?;
    let label = label.ok_or_else(|| not_found("label", id))?;
    let mut body = if is_system_label(id) {
        system(id)
    } else {
        shown(id, &label)
    };
    body["messagesTotal"] = label.counts.messages.into();
    body["messagesUnread"] = label.counts.unread.into();
    body["threadsTotal"] = label.counts.threads.into();
    body["threadsUnread"] = label.counts.threads_unread.into();
    Ok(body_of(body))
}

/// `users.labels.create`
pub(super) async fn create(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let mut account = mailbox.account().await?;
    if account.user_labels >= MAX_LABELS {
        let problem =
            format!("the mailbox has {MAX_LABELS} labels, which is the limit; delete one first");
        return Err(Rejection::FailedPrecondition { problem });
    }
    account.user_labels += 1;
    account.last_label += 1;
    let id = format!("Label_{}", account.last_label);
    let label = merged(Label::default(), request.call.metadata)?;
    take_name(&mut mailbox, &label.name, &id).await?;
    write_label(&mut mailbox, &id, &label);
    mailbox.set_account(&account);
    Ok(finish(rows, body_of(shown(&id, &label))))
}

/// `users.labels.update`
pub(super) async fn update(request: &Request<'_>) -> Result<Answer, Rejection> {
    change(request, |old| Label {
        counts: old.counts,
        ..Label::default()
    })
    .await
}

/// `users.labels.patch`
pub(super) async fn patch(request: &Request<'_>) -> Result<Answer, Rejection> {
    change(request, |old| old).await
}

/// Replaces the fields of a label by the fields in the metadata. `base` returns the label with the
/// fields that are kept.
async fn change(request: &Request<'_>, base: fn(Label) -> Label) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let old = own(&mut mailbox, id).await?;
    let label = merged(base(old.clone()), request.call.metadata)?;
    if folded_label_name(&old.name) != folded_label_name(&label.name) {
        leave_name(&mut mailbox, &old.name).await?;
        take_name(&mut mailbox, &label.name, id).await?;
    }
    write_label(&mut mailbox, id, &label);
    Ok(finish(rows, body_of(shown(id, &label))))
}

/// `users.labels.delete`
pub(super) async fn delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let old = own(&mut mailbox, id).await?;
    leave_name(&mut mailbox, &old.name).await?;
    let collection = mailbox.collection("labels");
    mailbox.rows.delete(&collection, id);
    let mut account = mailbox.account().await?;
    account.user_labels = account.user_labels.saturating_sub(1);
    mailbox.set_account(&account);
    Ok(finish(rows, Answer::default()))
}

/// Returns a user label.
async fn own(mailbox: &mut Mailbox<'_, '_>, id: &str) -> Result<Label, Rejection> {
    if is_system_label(id) {
        return Err(invalid(format!(
            "label {id} is a system label, which cannot be changed"
        )));
    }
    let label = label_row(mailbox, id).await?;
    label.ok_or_else(|| not_found("label", id))
}

async fn take_name(mailbox: &mut Mailbox<'_, '_>, name: &str, id: &str) -> Result<(), Rejection> {
    if super::mailbox::label_named(mailbox, name).await?.is_some() {
        return Err(Rejection::AlreadyExists {
            what: "label".to_owned(),
            id: name.to_owned(),
        });
    }
    let collection = mailbox.collection("label-names");
    let label = id.to_owned();
    mailbox
        .rows
        .write(&collection, &folded_label_name(name), &LabelName { label });
    Ok(())
}

async fn leave_name(mailbox: &mut Mailbox<'_, '_>, name: &str) -> Result<(), Rejection> {
    super::mailbox::label_named(mailbox, name).await?;
    let collection = mailbox.collection("label-names");
    mailbox.rows.delete(&collection, &folded_label_name(name));
    Ok(())
}

/// Returns the label with the fields of the metadata.
fn merged(label: Label, fields: &Map<String, Value>) -> Result<Label, Rejection> {
    let name = match text(fields, "name")? {
        Some(name) => name.split_whitespace().collect::<Vec<_>>().join(" "),
        None => label.name,
    };
    check_name(&name)?;
    let message_list = one_of(fields, "messageListVisibility", &MESSAGE_LIST)?;
    let label_list = one_of(fields, "labelListVisibility", &LABEL_LIST)?;
    Ok(Label {
        name,
        in_messages: message_list.or(label.in_messages),
        in_labels: label_list.or(label.in_labels),
        color: color(fields)?.or(label.color),
        counts: label.counts,
    })
}

fn check_name(name: &str) -> Result<(), Rejection> {
    if name.is_empty() {
        return Err(invalid("a label needs a name"));
    }
    let is_bad = name.chars().count() > MAX_NAME_LEN
        || name.contains(char::is_control)
        || name.split('/').any(|level| level.trim().is_empty());
    if is_bad {
        return Err(invalid("invalid label name"));
    }
    Ok(())
}

fn one_of(
    fields: &Map<String, Value>,
    name: &str,
    allowed: &[&str],
) -> Result<Option<String>, Rejection> {
    match text(fields, name)? {
        Some(value) if !allowed.contains(&value) => Err(Rejection::invalid_field(
            name,
            format!("must be one of {}", allowed.join(", ")),
        )),
        value => Ok(value.map(str::to_owned)),
    }
}

/// Reads both colours, as `#rrggbb`, or none.
fn color(fields: &Map<String, Value>) -> Result<Option<(String, String)>, Rejection> {
    let color = match fields.get("color") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(color)) => color,
        Some(_) => return Err(Rejection::invalid_field("color", "must be an object")),
    };
    let one = |name| {
        let value = text(color, name)?.unwrap_or_default();
        let digits = value.strip_prefix('#').unwrap_or_default();
        if digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(value.to_lowercase())
        } else {
            Err(Rejection::invalid_field(
                name,
                "must be a colour as #rrggbb",
            ))
        }
    };
    Ok(Some((one("backgroundColor")?, one("textColor")?)))
}

fn system(id: &str) -> Value {
    json!({"id": id, "name": id, "type": "system"})
}

fn shown(id: &str, label: &Label) -> Value {
    let or =
        |value: &Option<String>, default: &str| value.clone().unwrap_or_else(|| default.to_owned());
    let mut shown = json!({
        "id": id,
        "name": label.name,
        "messageListVisibility": or(&label.in_messages, "show"),
        "labelListVisibility": or(&label.in_labels, "labelShow"),
        "type": "user",
    });
    if let Some((background, text)) = &label.color {
        shown["color"] = json!({"backgroundColor": background, "textColor": text});
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_names_that_search_alike_are_equal() {
        for name in ["Hay/Prices 2024", "hay-prices-2024", "HAY PRICES/2024"] {
            assert_eq!(folded_label_name(name), "hay-prices-2024");
        }
    }

    #[test]
    fn label_name_with_empty_level_is_refused() {
        for name in ["hay", "farm/hay", "farm/hay/2024", "сено"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(MAX_NAME_LEN + 1);
        for name in ["", "/", "/hay", "hay/", "farm//hay", "a\nb", &long] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
