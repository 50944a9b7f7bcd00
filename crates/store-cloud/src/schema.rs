//! The tables, and their version.
//!
//! # Why the tables are as they are
//!
//! * No index has a column that a commit of an offset changes, and pages of `tips` are half empty.
//!   PostgreSQL then writes the new version of a row into the same page, and no index. `sweep_hour`
//!   is the time of expiry in hours, so it changes seldom.
//! * `sessions` has what is written at the start and at the end of a session, such as its request of
//!   some kilobytes. A commit does not copy it.
//! * Texts are `bytea`: ids are compared bytewise, and may have any character.
//! * `media` counts the sessions and resources that reference a media. Two transactions that each
//!   remove one of the last two references take turns at this row, so one of them sees that it has
//!   removed the last one.
//! * `usage` has a row for each owner and replica, so that replicas do not wait for each other.
//!
//! # Versions
//!
//! The row of `store` has the version of the schema, and the version of the oldest server that can
//! use it. A release changes the schema so that the release before can still use it.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::open::OpenError;
use crate::sql;

/// The version of the schema that this release creates.
pub(crate) const VERSION: i32 = 1;

/// The tables and the indexes.
const TABLES: &str = "
CREATE TABLE store (
    one           boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    identity      bytea   NOT NULL,
    version       integer NOT NULL,
    oldest_reader integer NOT NULL
);

CREATE TABLE sessions (
    id      bytea  NOT NULL PRIMARY KEY,
    created bigint NOT NULL,
    owner   bytea,
    dialect bytea  NOT NULL,
    context bytea  NOT NULL,
    reply   bytea
);
ALTER TABLE sessions ALTER context SET STORAGE EXTERNAL, ALTER reply SET STORAGE EXTERNAL;
CREATE INDEX sessions_owner ON sessions (owner, id) WHERE owner IS NOT NULL;

CREATE TABLE tips (
    id               bytea       NOT NULL PRIMARY KEY,
    state            smallint    NOT NULL DEFAULT 0,
    epoch            bigint      NOT NULL DEFAULT 0,
    lease            bytea       NOT NULL,
    lease_until      timestamptz NOT NULL,
    holder           bigint,
    \"offset\"         bigint      NOT NULL DEFAULT 0,
    total            bigint,
    crc32c           bigint      NOT NULL DEFAULT 0,
    digests          bytea       NOT NULL DEFAULT '',
    expected_digests bytea       NOT NULL DEFAULT '',
    media            bytea,
    place            smallint,
    extent_start     bigint,
    extent_crc32c    bigint,
    expires          bigint      NOT NULL,
    sweep_hour       integer     NOT NULL,
    remembered       bigint      NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX tips_finishing ON tips (id) WHERE state = 1;
CREATE INDEX tips_sweep ON tips (sweep_hour);

CREATE TABLE extents (
    media  bytea  NOT NULL,
    number bigint NOT NULL,
    start  bigint NOT NULL,
    len    bigint NOT NULL,
    name   bytea  NOT NULL,
    PRIMARY KEY (media, number)
);

CREATE TABLE media (
    id     bytea    NOT NULL,
    place  smallint NOT NULL,
    refs   bigint   NOT NULL CHECK (refs > 0),
    handle bytea    NOT NULL DEFAULT '',
    PRIMARY KEY (id, place)
) WITH (fillfactor = 80);

CREATE TABLE small_media (
    id    bytea NOT NULL PRIMARY KEY,
    bytes bytea NOT NULL
);
ALTER TABLE small_media ALTER bytes SET STORAGE EXTERNAL;

CREATE TABLE resources (
    collection   bytea  NOT NULL,
    id           bytea  NOT NULL,
    version      bigint NOT NULL,
    body         bytea  NOT NULL,
    media        bytea,
    place        smallint,
    handle       bytea,
    length       bigint,
    content_type bytea,
    crc32c       bigint,
    md5          bytea,
    sha256       bytea,
    created      bigint NOT NULL,
    updated      bigint NOT NULL,
    owner        bytea,
    due          bigint,
    claimed_by   bigint,
    PRIMARY KEY (collection, id),
    CHECK (octet_length(collection) + octet_length(id) <= 2048)
) WITH (fillfactor = 85);
CREATE INDEX resources_due ON resources (collection, due) WHERE due IS NOT NULL;
CREATE INDEX resources_claimed ON resources (collection, due) WHERE claimed_by IS NOT NULL;

CREATE TABLE garbage (
    n          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    media      bytea       NOT NULL,
    handle     bytea       NOT NULL,
    not_before timestamptz NOT NULL,
    attempt    smallint    NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX garbage_name ON garbage (media, handle);
CREATE INDEX garbage_due ON garbage (not_before, n);

CREATE TABLE usage (
    owner    bytea    NOT NULL,
    slot     smallint NOT NULL,
    sessions bigint   NOT NULL,
    kib      bigint   NOT NULL,
    PRIMARY KEY (owner, slot)
) WITH (fillfactor = 50);

CREATE TABLE replicas (
    id      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot    smallint    NOT NULL,
    version text        NOT NULL,
    beat    timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE takeovers (
    session bytea       NOT NULL PRIMARY KEY,
    holder  bigint      NOT NULL,
    asked   timestamptz NOT NULL
);
CREATE INDEX takeovers_holder ON takeovers (holder);

CREATE TABLE tasks (
    name   bytea       NOT NULL PRIMARY KEY,
    holder bigint      NOT NULL,
    until  timestamptz NOT NULL
);
";

/// What the row of `store` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Store {
    pub(crate) identity: [u8; 16],
    pub(crate) version: i32,
    pub(crate) oldest_reader: i32,
}

impl Store {
    /// Refuses a schema that this release cannot use.
    pub(crate) fn check(self) -> Result<Self, OpenError> {
        if self.version < 1 {
            return Err(OpenError::NotAStore);
        }
        if self.oldest_reader > VERSION {
            return Err(OpenError::NewerSchema {
                found: self.version,
                known: VERSION,
            });
        }
        Ok(self)
    }
}

/// Reads the row of `store`, or returns `None` if the database has no such table.
pub(crate) async fn read(client: &Client) -> Result<Option<Store>, OpenError> {
    let row = match client.query_typed_opt(sql::STORE, &[]).await {
        Ok(Some(row)) => row,
        Ok(None) => return Err(OpenError::NotAStore),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => return Ok(None),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_COLUMN) => {
            return Err(OpenError::NotAStore);
        }
        Err(error) => return Err(OpenError::unreachable(error)),
    };
    let identity = row.try_get("identity").ok();
    let identity = identity.and_then(|bytes: &[u8]| bytes.try_into().ok());
    match (
        identity,
        row.try_get("version"),
        row.try_get("oldest_reader"),
    ) {
        (Some(identity), Ok(version), Ok(oldest_reader)) => Ok(Some(Store {
            identity,
            version,
            oldest_reader,
        })),
        _ => Err(OpenError::NotAStore),
    }
}

/// Reads the row of `store`. Creates the tables if the database has none.
pub(crate) async fn read_or_create(client: &Client) -> Result<Store, OpenError> {
    if let Some(store) = read(client).await? {
        return store.check();
    }
    match create(client).await {
        // Another replica has created them at the same time. Its transaction has ended, because
        // this one has waited for it.
        Err(error)
            if [SqlState::DUPLICATE_TABLE, SqlState::UNIQUE_VIOLATION]
                .iter()
                .any(|state| error.code() == Some(state)) => {}
        Err(error) => return Err(OpenError::Schema(error)),
        Ok(()) => {}
    }
    read(client).await?.ok_or(OpenError::NotAStore)?.check()
}

async fn create(client: &Client) -> Result<(), tokio_postgres::Error> {
    let mut identity = [0; 16];
    // A store without a random identity would be taken for another one.
    getrandom::fill(&mut identity).expect("the system has randomness");
    let identity = u128::from_be_bytes(identity);
    let all = format!(
        "BEGIN; {TABLES}
         INSERT INTO store (identity, version, oldest_reader)
         VALUES ('\\x{identity:032x}', {VERSION}, {VERSION}); COMMIT"
    );
    let created = client.batch_execute(&all).await;
    if created.is_err() {
        // The connection stays usable. If this fails, too, the next statement says so.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    created
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(version: i32, oldest_reader: i32) -> Store {
        Store {
            identity: [7; 16],
            version,
            oldest_reader,
        }
    }

    #[test]
    fn newer_schema_is_used_if_it_allows_this_release() {
        assert_eq!(store(VERSION + 1, VERSION).check().unwrap().version, 2);
        let refused = store(VERSION + 2, VERSION + 1).check().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the database has version 3 of the schema, and this release knows version 1: \
             start a newer release"
        );
    }

    #[test]
    fn table_of_another_application_is_no_store() {
        let refused = store(0, 0).check();
        assert!(matches!(refused, Err(OpenError::NotAStore)), "{refused:?}");
    }
}
