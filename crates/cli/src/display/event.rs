//! Events for programs: one JSON object per line. Their fields are part of the interface (docs/cli.md).

use serde_json::{Map, Value, json};
use windlass_client::{RecordId, Verified};

use super::view::{Activity, View};
use crate::exit::Code;

/// An event.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Progress {
        source: &'a str,
        view: &'a View,
    },
    /// A finished upload.
    Uploaded(Uploaded<'a>),
    /// A finished download.
    Downloaded(Downloaded<'a>),
    /// A failed transfer.
    Failed(&'a Failed<'a>),
}

/// Media is up.
#[derive(Debug)]
pub(crate) struct Uploaded<'a> {
    pub(crate) source: &'a str,
    pub(crate) size: u64,
    pub(crate) upload_type: &'a str,
    pub(crate) verified: Verified,
    pub(crate) restarts: u32,
    pub(crate) resource: Option<&'a Value>,
}

/// Media has come.
#[derive(Debug)]
pub(crate) struct Downloaded<'a> {
    pub(crate) source: &'a str,
    pub(crate) file: &'a str,
    pub(crate) size: u64,
    pub(crate) verified: bool,
}

/// It did not work out.
#[derive(Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) source: &'a str,
    pub(crate) message: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) upload: Option<RecordId>,
    pub(crate) hint: Option<&'a str>,
    pub(crate) exit_code: Code,
}

impl Event<'_> {
    /// Returns the event as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let value = match self {
            Self::Progress { source, view } => progress(source, view),
            Self::Uploaded(uploaded) => uploaded.to_json(),
            Self::Downloaded(downloaded) => downloaded.to_json(),
            Self::Failed(failed) => failed.to_json(),
        };
        value.to_string()
    }
}

fn progress(source: &str, view: &View) -> Value {
    let mut event = json!({
        "event": "progress",
        "source": source,
        "state": view.activity.name(),
        "committed": view.committed,
        "sent": view.sent,
        "total": view.total,
        "rate": view.rate,
    });
    if let Activity::Waiting(wait) = &view.activity {
        event["wait"] = json!({
            "seconds": wait.delay.as_secs_f64(),
            "attempt": wait.tries.map(|(attempt, _)| attempt),
            "of": wait.tries.map(|(_, of)| of),
            "cause": wait.cause,
        });
    }
    if let Some(upload) = &view.upload {
        event["upload"] = upload.to_string().into();
    }
    event
}

impl Uploaded<'_> {
    fn to_json(&self) -> Value {
        json!({
            "event": "uploaded",
            "source": self.source,
            "size": self.size,
            "type": self.upload_type,
            "verified": verified(self.verified),
            "restarts": self.restarts,
            "resource": self.resource,
        })
    }
}

impl Downloaded<'_> {
    fn to_json(&self) -> Value {
        let verified: &[&str] = if self.verified { &["crc32c"] } else { &[] };
        json!({
            "event": "downloaded",
            "source": self.source,
            "file": self.file,
            "size": self.size,
            "verified": verified,
        })
    }
}

impl Failed<'_> {
    /// Unknown fields are left out.
    fn to_json(&self) -> Value {
        let fields = [
            ("event", Some("failed".into())),
            ("source", Some(self.source.into())),
            ("message", Some(self.message.into())),
            ("kind", Some(self.kind.into())),
            ("status", self.status.map(Value::from)),
            ("reason", self.reason.map(Value::from)),
            (
                "upload",
                self.upload.as_ref().map(|id| id.to_string().into()),
            ),
            ("hint", self.hint.map(Value::from)),
            ("exit_code", Some(self.exit_code.number().into())),
        ];
        let known = fields.into_iter();
        let known = known.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(known.collect::<Map<_, _>>())
    }
}

/// Describes the comparison for people.
pub(crate) fn checked(by: Verified) -> String {
    let by = verified(by);
    if by.is_empty() {
        "not checked".to_owned()
    } else {
        format!("checked by {}", by.join(", "))
    }
}

/// Returns the names of the properties that were compared and equal.
fn verified(verified: Verified) -> Vec<&'static str> {
    let all = [
        ("size", verified.size),
        ("crc32c", verified.crc32c),
        ("md5", verified.md5),
    ];
    let equal = all.into_iter().filter(|(_, equal)| *equal);
    equal.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::display::{Direction, Waiting};

    #[test]
    fn the_fields_of_events_are_those_of_the_document() {
        let wait = Waiting {
            delay: Duration::from_millis(1500),
            tries: Some((2, 6)),
            cause: "the connection broke".to_owned(),
        };
        let view = View {
            direction: Direction::Up,
            committed: 1,
            sent: 2,
            total: None,
            rate: 3,
            left: None,
            activity: Activity::Waiting(wait),
            upload: "mzxw6ytb".parse().ok(),
        };
        let resource = json!({"id": "7"});
        let verified = Verified::default();
        let cases = [
            (
                Event::Progress {
                    source: "a",
                    view: &view,
                },
                r#"{"event":"progress","source":"a","state":"waiting","committed":1,"sent":2,"total":null,"rate":3,"wait":{"seconds":1.5,"attempt":2,"of":6,"cause":"the connection broke"},"upload":"mzxw6ytb"}"#,
            ),
            (
                Event::Uploaded(Uploaded {
                    source: "a",
                    size: 5,
                    upload_type: "media",
                    verified,
                    restarts: 0,
                    resource: Some(&resource),
                }),
                r#"{"event":"uploaded","source":"a","size":5,"type":"media","verified":[],"restarts":0,"resource":{"id":"7"}}"#,
            ),
            (
                Event::Downloaded(Downloaded {
                    source: "u",
                    file: "a",
                    size: 5,
                    verified: true,
                }),
                r#"{"event":"downloaded","source":"u","file":"a","size":5,"verified":["crc32c"]}"#,
            ),
            (
                Event::Failed(&Failed {
                    source: "a",
                    message: "no",
                    kind: "refused",
                    status: Some(404),
                    reason: Some("notFound"),
                    upload: None,
                    hint: None,
                    exit_code: Code::Failure,
                }),
                r#"{"event":"failed","source":"a","message":"no","kind":"refused","status":404,"reason":"notFound","exit_code":1}"#,
            ),
        ];
        for (event, line) in cases {
            assert_eq!(event.to_json(), line);
        }
    }
}
