//! The usage of each principal: the table `usage`, which triggers maintain, and quotas.
//!
//! A row of `usage` is written in the same transaction as the counted row, whatever statement
//! writes that row. Rows without an owner cost nothing. `kib` is in units of 1 KiB, so it cannot
//! overflow, however many sessions declare a very long media.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension};
use windlass_store::{OwnerQuotas, Quota, SessionId, Usage};

use super::changes::{ChangeError, ChangeResult, Refusal, Tables};

/// Returns the usage of a principal.
pub(super) fn of_owner(connection: &Connection, owner: &str) -> rusqlite::Result<Usage> {
    let mut statement =
        connection.prepare_cached("SELECT sessions, kib FROM usage WHERE owner = ?1")?;
    let found = statement.query_row([owner], |row| {
        let (sessions, kib): (i64, i64) = (row.get("sessions")?, row.get("kib")?);
        Ok(Usage {
            sessions: u64::try_from(sessions).unwrap_or(0),
            bytes: u64::try_from(kib).unwrap_or(0).saturating_mul(1024),
        })
    });
    Ok(found.optional()?.unwrap_or_default())
}

impl Tables<'_> {
    /// Makes a change, and refuses it if one of these owners then occupies more than its quota.
    pub(super) fn within<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a str>,
        quotas: &OwnerQuotas,
        change: impl FnOnce() -> ChangeResult,
    ) -> ChangeResult {
        if quotas.is_unlimited() {
            return change();
        }
        let owners: BTreeSet<_> = owners.into_iter().collect();
        let usage = |owner: &&'a str| Ok((*owner, of_owner(self.connection, owner)?));
        let before: Vec<_> = owners.iter().map(usage).collect::<rusqlite::Result<_>>()?;
        change()?;
        for (owner, before) in before {
            if !quotas
                .of(owner)
                .admits(before, of_owner(self.connection, owner)?)
            {
                return Err(Refusal::OverQuota.into());
            }
        }
        Ok(())
    }

    /// Returns the owner of a session, if there is a quota.
    pub(super) fn owner_to_limit(
        &self,
        id: SessionId,
        quota: Quota,
    ) -> Result<Option<String>, ChangeError> {
        if quota.is_unlimited() {
            return Ok(None);
        }
        let mut statement = self
            .connection
            .prepare_cached("SELECT owner FROM sessions WHERE id = ?1")?;
        let found = statement.query_row([id.as_bytes()], |row| row.get(0));
        Ok(found.optional()?.flatten())
    }
}

/// The statements that remove the table and the triggers of an earlier version, if there are any.
pub(super) const REMOVE: &str = "
DROP TRIGGER IF EXISTS session_started;
DROP TRIGGER IF EXISTS session_changed;
DROP TRIGGER IF EXISTS session_deleted;
DROP TRIGGER IF EXISTS resource_inserted;
DROP TRIGGER IF EXISTS resource_changed;
DROP TRIGGER IF EXISTS resource_deleted;
DROP TABLE IF EXISTS usage;
";

/// The table, and the triggers that keep it.
pub(super) fn tables() -> String {
    let (new_count, new_kib) = of_session("NEW");
    let (old_count, old_kib) = of_session("OLD");
    let (new_resource, old_resource) = (of_resource("NEW"), of_resource("OLD"));
    format!(
        "
CREATE TABLE usage (
    owner    TEXT    NOT NULL PRIMARY KEY,
    sessions INTEGER NOT NULL,
    kib      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_started AFTER INSERT ON sessions WHEN NEW.owner IS NOT NULL
BEGIN
    INSERT INTO usage VALUES (NEW.owner, {new_count}, {new_kib})
    ON CONFLICT (owner) DO UPDATE SET sessions = sessions + excluded.sessions, kib = kib + excluded.kib;
END;

CREATE TRIGGER session_changed AFTER UPDATE OF context, context_len, state, offset, total, reply ON sessions
WHEN NEW.owner IS NOT NULL AND ({new_count} <> {old_count} OR {new_kib} <> {old_kib})
BEGIN
    UPDATE usage SET sessions = sessions + {new_count} - {old_count}, kib = kib + {new_kib} - {old_kib}
    WHERE owner = NEW.owner;
    DELETE FROM usage WHERE owner = NEW.owner AND sessions = 0 AND kib = 0;
END;

CREATE TRIGGER session_deleted AFTER DELETE ON sessions
WHEN OLD.owner IS NOT NULL AND {old_kib} <> 0
BEGIN
    UPDATE usage SET sessions = sessions - {old_count}, kib = kib - {old_kib} WHERE owner = OLD.owner;
    DELETE FROM usage WHERE owner = OLD.owner AND sessions = 0 AND kib = 0;
END;

CREATE TRIGGER resource_inserted AFTER INSERT ON resources WHEN NEW.owner IS NOT NULL
BEGIN
    INSERT INTO usage VALUES (NEW.owner, 0, {new_resource})
    ON CONFLICT (owner) DO UPDATE SET kib = kib + excluded.kib;
END;

CREATE TRIGGER resource_changed AFTER UPDATE OF body, length, owner ON resources
WHEN NEW.owner IS NOT OLD.owner OR (NEW.owner IS NOT NULL AND {new_resource} <> {old_resource})
BEGIN
    UPDATE usage SET kib = kib - {old_resource} WHERE owner = OLD.owner;
    INSERT INTO usage SELECT NEW.owner, 0, {new_resource} WHERE NEW.owner IS NOT NULL
    ON CONFLICT (owner) DO UPDATE SET kib = kib + excluded.kib;
    DELETE FROM usage WHERE owner = OLD.owner AND sessions = 0 AND kib = 0;
END;

CREATE TRIGGER resource_deleted AFTER DELETE ON resources WHEN OLD.owner IS NOT NULL
BEGIN
    UPDATE usage SET kib = kib - {old_resource} WHERE owner = OLD.owner;
    DELETE FROM usage WHERE owner = OLD.owner AND sessions = 0 AND kib = 0;
END;
"
    )
}

/// The statement that counts all rows, for a table that is new.
pub(super) fn count_all() -> String {
    let (count, kib) = of_session("sessions");
    let resource = of_resource("resources");
    format!(
        "
INSERT INTO usage
SELECT owner, sum(count), sum(kib) FROM (
    SELECT owner, {count} AS count, {kib} AS kib FROM sessions
    UNION ALL SELECT owner, 0, {resource} FROM resources
) WHERE owner IS NOT NULL GROUP BY owner HAVING sum(count) > 0 OR sum(kib) > 0;
"
    )
}

/// Returns the usage of a row of `sessions`: sessions, and KiB. States 0 and 1 are open. The media
/// of a finished session belongs to a resource, so only the context and the reply of such a session
/// count.
fn of_session(row: &str) -> (String, String) {
    let count = format!("({row}.state IN (0, 1))");
    let media = format!("{count} * max(coalesce({row}.total, 0), {row}.offset)");
    let rest =
        format!("length({row}.context) + {row}.context_len + coalesce(length({row}.reply), 0)");
    let kib = kib(&media, &rest);
    (count, kib)
}

/// The KiB that a row of `resources` counts.
fn of_resource(row: &str) -> String {
    kib(
        &format!("coalesce({row}.length, 0)"),
        &format!("length({row}.body)"),
    )
}

/// As [`Usage::bytes`] says: media of 16 TiB at most, and the row rounded up.
fn kib(media: &str, rest: &str) -> String {
    format!("((min(max({media}, 0), 17592186044416) + {rest} + 1023) / 1024)")
}
