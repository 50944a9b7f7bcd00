//! The Gmail API: mailboxes whose messages are uploaded, sent, read and searched.
//!
//! Methods are selected by id, so one handler serves the description that comes with Windlass and
//! the published one. The settings of a mailbox, push notifications and spam filters are not
//! implemented.
//!
//! A module imports only modules of lower rows:
//!
//! | modules | content |
//! |---|---|
//! | `delivery`, `messages`, `listing`, `labels`, `history` | the methods |
//! | `request` | arguments of a call |
//! | `outbox` | messages to the relay, by SMTP, and bounces |
//! | `filing` | changes of messages and threads |
//! | `query` | the search grammar |
//! | `mailbox` | reads and writes of one mailbox, its labels and its history |
//! | `rows` | row types, and the write buffer of a call |
//! | `ids` | ids of messages and threads |
//! | `parsed_message`, [`mime`] | uploaded media as a message and its parts |
//! | [`options`] | operator settings |
//!
//! This module has the errors that the methods and the storage of mailboxes share.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use windlass_discovery::{Api, Method};
use windlass_rest::ServedApi;
use windlass_rest::handler::{Answer, ApiHandler, Call, Deliver, Embedded, Rejection, Uploaded};
use windlass_store::Resource;

use crate::ApiProvider;
use crate::not_served::NotServed;

mod delivery;
mod filing;
mod history;
mod ids;
mod labels;
mod listing;
mod mailbox;
mod messages;
pub mod mime;
pub mod options;
mod outbox;
mod parsed_message;
mod query;
mod request;
mod rows;

pub use options::{Address, NotAnAddress};
#[cfg(feature = "fuzzing")]
pub use query::fuzzing::{GmailMessage, GmailQuery};

use mailbox::Mailbox;
use options::Options;
use outbox::RelayDelivery;
use request::{Request, body_of};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "gmail",
    inputs: include_str!("gmail/inputs.toml"),
    built_in: |options| {
        vec![serve(
            crate::description(include_str!("gmail/gmail.toml")),
            options,
        )]
    },
    from_document: |api, options| serve(crate::kept_apart(crate::answering_created(api)), options),
};

/// Methods of the service that are not here.
const NOT_SERVED: NotServed = NotServed::new(&[
    ("POST", "gmail/v1/users/{userId}/watch", "gmail.users.watch"),
    ("POST", "gmail/v1/users/{userId}/stop", "gmail.users.stop"),
    (
        "*",
        "gmail/v1/users/{userId}/settings/{+rest}",
        "gmail.users.settings",
    ),
]);

/// Allowance for the JSON around an embedded message, in bytes: other fields, quotes, white space.
const AROUND_RAW: u64 = 64 * 1024;

fn serve(api: Api, options: &crate::Options) -> ServedApi {
    ServedApi::new(api, Arc::new(GmailHandler::new(options.gmail.clone())))
}

/// Handler of all methods of Gmail.
#[derive(Debug)]
struct GmailHandler {
    options: Arc<Options>,
}

impl GmailHandler {
    fn new(options: Options) -> Self {
        Self {
            options: Arc::new(options),
        }
    }
}

#[async_trait]
impl ApiHandler for GmailHandler {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        let request = Request::new(call, &self.options)?;
        let mut rows = request.rows();
        let mut mailbox = Mailbox::open(&mut rows, &request.address);
        if let Some(thread) = request.wanted_thread()? {
            mailbox.thread(&thread).await?;
        }
        if let Some(labels) = request.wanted_labels()? {
            request::check_labels(&mut mailbox, &labels, |_| true).await?;
        }
        match method_of(call) {
            "drafts.update" => mailbox.draft(request.id()).await.map(drop),
            "drafts.send" => mailbox
                .draft(delivery::id_to_send(&request)?)
                .await
                .map(drop),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let request = &Request::new(call, &self.options)?;
        match method_of(call) {
            "messages.send" => delivery::send(request, media).await,
            "messages.insert" => delivery::insert(request, media).await,
            "messages.import" => delivery::import(request, media).await,
            "messages.get" => messages::get(request).await,
            "messages.list" => listing::messages(request).await,
            "messages.delete" => messages::delete(request).await,
            "messages.modify" => messages::modify(request).await,
            "messages.trash" => messages::trash(request).await,
            "messages.untrash" => messages::untrash(request).await,
            "messages.batchModify" => messages::batch_modify(request).await,
            "messages.batchDelete" => messages::batch_delete(request).await,
            "messages.attachments.get" => messages::attachment(request).await,
            "drafts.create" => delivery::create_draft(request, media).await,
            "drafts.update" => delivery::update_draft(request, media).await,
            "drafts.send" => delivery::send_draft(request, media).await,
            "drafts.get" => delivery::get_draft(request).await,
            "drafts.list" => delivery::list_drafts(request).await,
            "drafts.delete" => delivery::delete_draft(request).await,
            "threads.get" => messages::get_thread(request).await,
            "threads.list" => listing::threads(request).await,
            "threads.delete" => messages::delete_thread(request).await,
            "threads.modify" => messages::modify_thread(request).await,
            "threads.trash" => messages::trash_thread(request).await,
            "threads.untrash" => messages::untrash_thread(request).await,
            "labels.list" => labels::list(request).await,
            "labels.get" => labels::get(request).await,
            "labels.create" => labels::create(request).await,
            "labels.update" => labels::update(request).await,
            "labels.patch" => labels::patch(request).await,
            "labels.delete" => labels::delete(request).await,
            "history.list" => history::list(request).await,
            "getProfile" => profile(request).await,
            _ => Err(call.not_implemented()),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        Err(call.not_implemented())
    }

    /// One lock for all mailboxes: the recipients of a message are unknown before it is read.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        (call.method.http_method != http::Method::GET).then(|| "gmail".to_owned())
    }

    fn body_limit(&self, method: &Method) -> Option<usize> {
        let most = method.upload.as_ref()?.max_size?.bytes();
        // Base64 is a third longer.
        usize::try_from(most.div_ceil(3) * 4 + AROUND_RAW).ok()
    }

    fn embedded(
        &self,
        method: &Method,
        metadata: &mut Map<String, Value>,
    ) -> Result<Option<Embedded>, Rejection> {
        if method.upload.is_none() {
            return Ok(None);
        }
        let message = if method.collection() == "users.drafts" {
            metadata.get_mut("message").and_then(Value::as_object_mut)
        } else {
            Some(metadata)
        };
        message.map_or(Ok(None), parsed_message::embedded)
    }

    fn counts(&self, collection: &str) -> bool {
        rows::counts(collection)
    }

    /// A sent message is filed in the mailboxes of its recipients, who are other principals.
    fn separates_owners(&self) -> bool {
        true
    }

    fn not_served(&self, http_method: &http::Method, path: &str) -> Option<String> {
        NOT_SERVED.find(http_method, path)
    }

    fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        let relay = self.options.relay.clone().into_iter();
        let delivery = |relay| RelayDelivery::new(Arc::clone(&self.options), relay);
        relay
            .map(|relay| Arc::new(delivery(relay)) as Arc<dyn Deliver>)
            .collect()
    }
}

/// Returns the method id without the common prefix, e.g. `messages.send`.
fn method_of<'a>(call: &Call<'a>) -> &'a str {
    let id = call.method.id.as_str();
    id.strip_prefix("gmail.users.").unwrap_or(id)
}

/// `users.getProfile`
async fn profile(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let account = mailbox.account().await?;
    Ok(body_of(json!({
        "emailAddress": request.address.as_str(),
        "messagesTotal": account.messages,
        "threadsTotal": account.threads,
        "historyId": account.history.to_string(),
    })))
}

fn not_found(what: &str, id: &str) -> Rejection {
    Rejection::NotFound {
        what: what.to_owned(),
        // The client chose the text, which may be long.
        id: id.chars().take(200).collect(),
    }
}

fn no_media() -> Rejection {
    invalid(
        "the call has no message: upload it to the /upload path, or send it as raw in base64url",
    )
}

/// Refuses an argument of the call.
fn invalid(problem: impl Into<String>) -> Rejection {
    Rejection::InvalidArgument {
        problem: problem.into(),
    }
}

/// Refuses a query parameter.
fn invalid_parameter(name: &str, problem: &str) -> Rejection {
    Rejection::InvalidParameter {
        parameter: name.to_owned(),
        problem: problem.to_owned(),
    }
}
