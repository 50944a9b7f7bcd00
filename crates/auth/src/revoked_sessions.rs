//! Upload sessions that an operator has revoked.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Deserializer};
use toml::value::{Datetime, Offset};
use windlass_server::SessionInfo;
use windlass_store::Timestamp;

/// A row of `[[sessions.revoked]]`: one session, or all sessions that a principal has started
/// before a time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Fields")]
pub enum RevokedSession {
    /// A session by its [abbreviated id](windlass_store::SessionId::abbreviated), as the log and
    /// the audit log show it.
    Id(String),
    /// All sessions of a principal that were started before a time.
    Principal {
        /// Id of the principal.
        principal: String,
        /// Time.
        before: Timestamp,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    session: Option<String>,
    principal: Option<String>,
    #[serde(default, deserialize_with = "time")]
    before: Option<Timestamp>,
}

impl TryFrom<Fields> for RevokedSession {
    type Error = &'static str;

    fn try_from(fields: Fields) -> Result<Self, &'static str> {
        match fields {
            Fields {
                session: Some(id),
                principal: None,
                before: None,
            } if is_abbreviated(&id) => Ok(Self::Id(id)),
            Fields {
                session: None,
                principal: Some(principal),
                before: Some(before),
            } => Ok(Self::Principal { principal, before }),
            Fields {
                session: Some(_),
                principal: None,
                before: None,
            } => Err("a session has 8 hexadecimal digits in lower case, as the audit log shows it"),
            _ => Err("a row has either session, or principal and before"),
        }
    }
}

fn is_abbreviated(id: &str) -> bool {
    id.len() == 8
        && id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A time of TOML with an offset, such as `2026-11-26T10:15:00Z`.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let time = since_epoch(Datetime::deserialize(deserializer)?);
    let time =
        time.ok_or_else(|| serde::de::Error::custom("a time is written as 2026-11-26T10:15:00Z"))?;
    Ok(Some(Timestamp::from_millis(0).saturating_add(time)))
}

fn since_epoch(time: Datetime) -> Option<Duration> {
    let minutes = match time.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let local = Datetime {
        offset: Some(Offset::Z),
        ..time
    };
    let local = humantime::parse_rfc3339(&local.to_string()).ok()?;
    let local = local.duration_since(UNIX_EPOCH).ok()?;
    let offset = Duration::from_secs(minutes.unsigned_abs() * 60);
    if minutes < 0 {
        local.checked_add(offset)
    } else {
        local.checked_sub(offset)
    }
}

/// The revoked sessions.
#[derive(Debug, Clone, Default)]
pub struct RevokedSessions {
    ids: HashSet<String>,
    /// The latest time of each principal.
    principals: HashMap<String, Timestamp>,
}

impl RevokedSessions {
    /// Whether requests to the session are refused.
    pub fn contains(&self, session: &SessionInfo<'_>) -> bool {
        let is_of_revoked = || {
            let before = self.principals.get(session.principal?)?;
            Some(session.started < *before)
        };
        let is_revoked = || self.ids.contains(&session.id.abbreviated());
        is_of_revoked() == Some(true) || (!self.ids.is_empty() && is_revoked())
    }
}

impl FromIterator<RevokedSession> for RevokedSessions {
    fn from_iter<I: IntoIterator<Item = RevokedSession>>(rows: I) -> Self {
        let mut revoked = Self::default();
        for row in rows {
            match row {
                RevokedSession::Id(id) => {
                    revoked.ids.insert(id);
                }
                RevokedSession::Principal { principal, before } => {
                    let latest = revoked.principals.entry(principal).or_insert(before);
                    *latest = before.max(*latest);
                }
            }
        }
        revoked
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::SessionId;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Table {
        revoked: Vec<RevokedSession>,
    }

    fn parse(rows: &str) -> Result<RevokedSessions, String> {
        let table: Result<Table, _> = toml::from_str(rows);
        let table = table.map_err(|error| error.message().to_owned())?;
        Ok(table.revoked.into_iter().collect())
    }

    #[test]
    fn session_is_revoked_by_its_id_and_those_of_a_principal_by_their_time() {
        let id = SessionId::from_bytes([0xab; 32]);
        let text = format!(
            "[[revoked]]\nsession = '{}'\n\
             [[revoked]]\nprincipal = 'alice'\nbefore = 1970-01-01T00:00:02Z\n\
             [[revoked]]\nprincipal = 'alice'\nbefore = 1970-01-01T01:00:01+01:00\n",
            id.abbreviated()
        );
        let revoked = parse(&text).unwrap();
        let other = SessionId::from_bytes([0xcd; 32]);
        for (id, principal, started, expected) in [
            (id, None, 5000, true),
            (id, Some("bob"), 5000, true),
            (other, None, 0, false),
            (other, Some("bob"), 0, false),
            (other, Some("alice"), 1999, true),
            (other, Some("alice"), 2000, false),
        ] {
            let started = Timestamp::from_millis(started);
            let session = SessionInfo::new(id, principal, started);
            assert_eq!(revoked.contains(&session), expected, "{session:?}");
        }
    }

    #[test]
    fn rows_that_say_too_little_or_too_much_are_errors() {
        for (row, said) in [
            ("session = 'ABCDEF01'", "8 hexadecimal digits"),
            ("session = 'abc'", "8 hexadecimal digits"),
            (
                "principal = 'alice'",
                "either session, or principal and before",
            ),
            ("before = 1970-01-01T00:00:02Z", "either session, or"),
            ("", "either session, or"),
            (
                "principal = 'alice'\nbefore = 1970-01-01",
                "a time is written as",
            ),
            (
                "principal = 'alice'\nbefore = 1970-01-01T00:00:00",
                "a time is written as",
            ),
            ("principals = ['alice']", "unknown field"),
        ] {
            let error = parse(&format!("[[revoked]]\n{row}\n")).unwrap_err();
            assert!(error.contains(said), "{row}: {error}");
        }
    }
}
