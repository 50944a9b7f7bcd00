//! Changes of labels, of one message or of many.

use windlass_server::handler::{Answer, Rejection};

use super::mailbox::Mailbox;
use super::message;
use super::records::{Entry, Labels};
use super::request::{Request, check_labels, texts};
use super::thread::finish;
use super::{invalid, label};

/// The most labels that are given or taken at once, as in Gmail.
const MOST_LABELS: usize = 100;

/// The most messages that are changed at once, as in Gmail.
const MOST_MESSAGES: usize = 1000;

/// Labels to be given and taken.
#[derive(Debug, Default)]
pub(super) struct LabelChange {
    add: Labels,
    remove: Labels,
}

impl LabelChange {
    /// What the metadata says.
    pub(super) async fn of(request: &Request<'_>) -> Result<Self, Rejection> {
        let labels = |name| {
            let labels = texts(request.call.metadata, name, MOST_LABELS)?;
            Ok::<_, Rejection>(labels.into_iter().map(str::to_owned).collect::<Labels>())
        };
        let change = Self {
            add: labels("addLabelIds")?,
            remove: labels("removeLabelIds")?,
        };
        let mut rows = request.rows();
        let mut mailbox = Mailbox::open(&mut rows, &request.address);
        check_labels(&mut mailbox, &change.add, label::may_change).await?;
        check_labels(&mut mailbox, &change.remove, label::may_change).await?;
        match change.add.intersection(&change.remove).next() {
            Some(both) => Err(invalid(format!("label {both} is both given and taken"))),
            None => Ok(change),
        }
    }

    pub(super) fn trash() -> Self {
        Self {
            add: trash_label(),
            ..Self::default()
        }
    }

    pub(super) fn untrash() -> Self {
        Self {
            remove: trash_label(),
            ..Self::default()
        }
    }
}

fn trash_label() -> Labels {
    Labels::from(["TRASH".to_owned()])
}

/// Makes the change on one message.
pub(super) async fn apply(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
    change: &LabelChange,
) -> Result<Entry, Rejection> {
    mailbox.relabel(id, &change.add, &change.remove).await
}

/// `users.messages.modify`
pub(super) async fn modify(request: &Request<'_>) -> Result<Answer, Rejection> {
    one(request, LabelChange::of(request).await?).await
}

/// `users.messages.trash`
pub(super) async fn trash(request: &Request<'_>) -> Result<Answer, Rejection> {
    one(request, LabelChange::trash()).await
}

/// `users.messages.untrash`
pub(super) async fn untrash(request: &Request<'_>) -> Result<Answer, Rejection> {
    one(request, LabelChange::untrash()).await
}

async fn one(request: &Request<'_>, change: LabelChange) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let entry = apply(&mut mailbox, request.id(), &change).await?;
    let body = message::minimal(&mut mailbox, &entry).await?;
    Ok(finish(rows, super::body_of(body)))
}

/// `users.messages.delete`
pub(super) async fn delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    mailbox.remove(request.id()).await?;
    Ok(finish(rows, Answer::default()))
}

/// `users.messages.batchModify`
pub(super) async fn batch_modify(request: &Request<'_>) -> Result<Answer, Rejection> {
    let change = LabelChange::of(request).await?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    for id in ids(request)? {
        apply(&mut mailbox, id, &change).await?;
    }
    Ok(finish(rows, Answer::default()))
}

/// `users.messages.batchDelete`. Messages that are not there, or no more, are ignored, as the
/// service promises nothing about them.
pub(super) async fn batch_delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    for id in ids(request)? {
        match mailbox.remove(id).await {
            Ok(()) | Err(Rejection::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(finish(rows, Answer::default()))
}

fn ids<'a>(request: &Request<'a>) -> Result<Vec<&'a str>, Rejection> {
    let ids = texts(request.call.metadata, "ids", MOST_MESSAGES)?;
    if ids.is_empty() {
        return Err(invalid("ids names no message"));
    }
    Ok(ids)
}
