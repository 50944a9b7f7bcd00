//! Every statement of the ledger.
//!
//! They are portable SQL without triggers, notifications, advisory locks and stored procedures, and
//! none is prepared under a name, so that a pooler may stand between. Deadlines are compared with
//! `clock_timestamp()`: `now()` is the time at which the transaction began, which may be long before
//! a lock was granted.
//!
//! A statement that must find its rows as they were read divides by the truth of that: `1 / 0` ends
//! the transaction before its `COMMIT`, which is sent at the same time.

/// Begins a transaction. A lock that is not granted in time, or a client that has stopped, must not
/// keep other replicas waiting.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SET LOCAL lock_timeout = '10s'; \
     SET LOCAL idle_in_transaction_session_timeout = '30s'";

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* pub(crate) const $name: &str = $sql;)*

        /// All of them, with their names, for tests.
        #[cfg(any(test, feature = "postgres-tests"))]
        pub(crate) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

/// Whether the replica in column `holder` of `t` has given a sign of life lately.
macro_rules! holder_is_alive {
    () => {
        "EXISTS (SELECT 1 FROM replicas r WHERE r.id = t.holder
             AND r.beat > clock_timestamp() - interval '6 seconds')"
    };
}

macro_rules! session_columns {
    () => {
        "t.id, s.context, s.created, t.expires, t.state, t.epoch, t.\"offset\", t.total, t.crc32c,
         t.digests, t.expected_digests, t.media, t.place, t.extent_start, t.extent_crc32c, s.reply,
         s.owner, s.dialect"
    };
}

macro_rules! summary {
    ($condition:literal) => {
        concat!(
            "SELECT t.id, s.owner, t.state, s.created, t.expires, t.\"offset\", t.total, s.dialect
             FROM sessions s JOIN tips t USING (id) WHERE ",
            $condition
        )
    };
}

macro_rules! resource_columns {
    () => {
        "r.collection, r.id, r.version, r.body, r.media, r.place, r.handle, r.length,
         r.content_type, r.crc32c, r.md5, r.sha256, r.created, r.updated, r.owner, r.due,
         r.claimed_by"
    };
}

/// The columns of a resource as parallel arrays, `$1` to `$17`.
macro_rules! resource_arrays {
    () => {
        "unnest($1::bytea[], $2::bytea[], $3::int8[], $4::bytea[], $5::bytea[], $6::int2[],
             $7::bytea[], $8::int8[], $9::bytea[], $10::int8[], $11::bytea[], $12::bytea[],
             $13::int8[], $14::int8[], $15::bytea[], $16::int8[], $17::int8[])
         AS n (collection, id, version, body, media, place, handle, length, content_type, crc32c,
             md5, sha256, created, updated, owner, due, claimed_by)"
    };
}

/// What the changes of a resource need to know of its row.
macro_rules! lock_resources {
    ($strength:literal) => {
        concat!(
            "SELECT r.collection, r.id, r.version, r.media, r.place, r.length, r.owner,
                 octet_length(r.body)::int8 AS body_len
             FROM resources r
             JOIN unnest($1::bytea[], $2::bytea[]) AS k (collection, id)
                 ON r.collection = k.collection AND r.id = k.id
             ORDER BY r.collection, r.id FOR ",
            $strength,
            " OF r"
        )
    };
}

/// Claims the rows of a condition, of the columns of `resources`.
macro_rules! claim {
    ($condition:literal) => {
        concat!(
            "WITH found AS MATERIALIZED (
                 SELECT t.collection, t.id, t.due FROM resources t
                 WHERE t.collection = $1 AND ",
            $condition,
            " ORDER BY t.due, t.id LIMIT $3 FOR UPDATE SKIP LOCKED
             ), claimed AS (
                 UPDATE resources r SET due = $4, claimed_by = $5, version = r.version + 1
                 FROM found f WHERE r.collection = f.collection AND r.id = f.id
                 RETURNING r.*, f.due AS due_before
             )
             SELECT ",
            resource_columns!(),
            " FROM claimed r ORDER BY r.due_before, r.id"
        )
    };
}

statements! {
    /// What a new connection must show before it is used.
    SETTINGS = "SELECT current_setting('fsync') AS fsync,
         current_setting('full_page_writes') AS full_page_writes,
         current_setting('synchronous_commit') AS synchronous_commit,
         current_setting('synchronous_standby_names') AS synchronous_standby_names,
         current_setting('transaction_read_only') AS transaction_read_only,
         current_setting('server_version_num')::int4 AS server_version";

    /// The version of the schema. No row is returned by a database without a store.
    STORE = "SELECT identity, version, oldest_reader FROM store";

    /// Creates the record of a replica, with the least slot that no living replica has.
    REGISTER = "INSERT INTO replicas (slot, version, beat)
         SELECT min(n)::int2, $1, clock_timestamp() FROM generate_series(1, 255) AS n
         WHERE NOT EXISTS (SELECT 1 FROM replicas r
             WHERE r.slot = n AND r.beat > clock_timestamp() - interval '1 minute')
         RETURNING id, slot, floor(extract(epoch FROM beat) * 1000)::int8 AS clock";

    /// A sign of life of a replica, which may have been forgotten meanwhile.
    BEAT = "INSERT INTO replicas (id, slot, version, beat) OVERRIDING SYSTEM VALUE
         VALUES ($1, $2, $3, clock_timestamp())
         ON CONFLICT (id) DO UPDATE SET beat = excluded.beat
         RETURNING floor(extract(epoch FROM beat) * 1000)::int8 AS clock";

    /// The end of a replica.
    DEREGISTER = "DELETE FROM replicas WHERE id = $1";

    /// Forgets replicas that ended long ago.
    FORGET_REPLICAS = "DELETE FROM replicas
         WHERE beat < clock_timestamp() - interval '1 day'";

    /// Forgets requests that nobody has answered.
    FORGET_TAKEOVERS = "DELETE FROM takeovers
         WHERE asked < clock_timestamp() - interval '1 minute'";

    /// Takes the requests for sessions of this replica. Some may have been answered already.
    TAKE_REQUESTS = "DELETE FROM takeovers k WHERE k.holder = $1
         RETURNING k.session, EXISTS (SELECT 1 FROM tips t
             WHERE t.id = k.session AND t.holder = $1 AND t.state IN (0, 1)) AS is_held";

    /// Asks the replica that works on a session for it.
    ASK = "INSERT INTO takeovers (session, holder, asked)
         SELECT t.id, t.holder, clock_timestamp() FROM tips t
         WHERE t.id = $1 AND t.holder IS NOT NULL AND t.state IN (0, 1)
         ON CONFLICT (session) DO UPDATE SET holder = excluded.holder, asked = excluded.asked";

    /// Inserts the part of a session that is written at its start and at its end.
    START_SESSION = "INSERT INTO sessions (id, created, owner, dialect, context)
         VALUES ($1, $2, $3, $4, $5)";

    /// Inserts the part of a session that each commit writes.
    START_TIP = "INSERT INTO tips (id, lease, lease_until, total, expires, sweep_hour, remembered)
         VALUES ($1, $2, clock_timestamp() + interval '6 hours', $3, $4, $5, $6)";

    SESSION_EXISTS = "SELECT 1 AS found FROM sessions WHERE id = $1";

    SESSION = concat!(
        "SELECT ", session_columns!(), " FROM tips t JOIN sessions s USING (id) WHERE t.id = $1"
    );

    SESSIONS_OLDEST_FIRST = summary!("s.id > $1 ORDER BY s.id LIMIT $2");
    SESSIONS_NEWEST_FIRST = summary!("s.id < $1 ORDER BY s.id DESC LIMIT $2");
    SESSIONS_OF_OWNER_OLDEST_FIRST =
        summary!("s.id > $1 AND s.owner = $3 ORDER BY s.id LIMIT $2");
    SESSIONS_OF_OWNER_NEWEST_FIRST =
        summary!("s.id < $1 AND s.owner = $3 ORDER BY s.id DESC LIMIT $2");

    /// Gives out a lease of an open session. `$4` is the idle time in seconds that is enough, and
    /// `$5` whether it is taken in any case.
    LEASE = concat!(
        "WITH taken AS (
             UPDATE tips t SET epoch = t.epoch + 1, lease = $2, holder = $3,
                 lease_until = clock_timestamp() + interval '6 hours'
             WHERE t.id = $1 AND t.state IN (0, 1)
                 AND ($5 OR t.holder IS NULL OR t.holder = $3
                     OR t.lease_until <= clock_timestamp()
                     OR t.lease_until <= clock_timestamp() + interval '6 hours'
                         - make_interval(secs => $4)
                     OR NOT ", holder_is_alive!(), ")
             RETURNING t.*
         )
         SELECT ", session_columns!(), " FROM taken t JOIN sessions s USING (id)"
    );

    EXTENTS_OF_SESSION = "SELECT number, start, len, name FROM extents
         WHERE media = (SELECT media FROM tips WHERE id = $1 AND state IN (0, 1))
         ORDER BY start, number";

    /// Prolongs leases that are in force. The replica works on their sessions.
    RENEW = "WITH held AS MATERIALIZED (
             SELECT t.id FROM tips t
             JOIN unnest($1::bytea[], $2::bytea[]) AS k (id, lease)
                 ON t.id = k.id AND t.lease = k.lease
             WHERE t.state IN (0, 1) AND t.lease_until > clock_timestamp()
             ORDER BY t.id FOR NO KEY UPDATE OF t
         )
         UPDATE tips t SET holder = $3, lease_until = clock_timestamp() + interval '6 hours'
         FROM held WHERE t.id = held.id";

    /// The replica works no longer on the sessions of these leases.
    RELEASE = "WITH held AS MATERIALIZED (
             SELECT t.id FROM tips t
             JOIN unnest($1::bytea[], $2::bytea[]) AS k (id, lease)
                 ON t.id = k.id AND t.lease = k.lease
             WHERE t.holder = $3
             ORDER BY t.id FOR NO KEY UPDATE OF t
         )
         UPDATE tips t SET holder = NULL FROM held WHERE t.id = held.id";

    /// Locks sessions that are to be changed.
    LOCK_TIPS = "SELECT t.id, t.state, t.lease, t.\"offset\", t.total, t.media, t.place,
             t.remembered, s.owner
         FROM tips t JOIN sessions s USING (id)
         WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE OF t";

    /// Writes the progress of sessions, if their leases have not run out.
    WRITE_TIPS = "WITH written AS (
             UPDATE tips t SET state = n.state, \"offset\" = n.new_offset, total = n.total,
                 crc32c = n.crc32c, digests = n.digests, expected_digests = n.expected_digests,
                 media = n.media, place = n.place, extent_start = n.extent_start,
                 extent_crc32c = n.extent_crc32c, expires = coalesce(n.expires, t.expires),
                 sweep_hour = coalesce(n.sweep_hour, t.sweep_hour),
                 remembered = n.remembered, holder = n.holder,
                 lease_until = clock_timestamp() + interval '6 hours'
             FROM unnest($1::bytea[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::bytea[],
                 $7::bytea[], $8::bytea[], $9::int2[], $10::int8[], $11::int8[], $12::int8[],
                 $13::int4[], $14::int8[], $15::int8[])
             AS n (id, state, new_offset, total, crc32c, digests, expected_digests, media, place,
                 extent_start, extent_crc32c, expires, sweep_hour, remembered, holder)
             WHERE t.id = n.id AND t.lease_until > clock_timestamp()
             RETURNING 1
         )
         SELECT 1 / (count(*) = $16)::int4 AS guard FROM written";

    /// Ends a session without a resource, if its lease has not run out.
    END_TIP = "WITH written AS (
             UPDATE tips SET state = $2, media = NULL, place = NULL, extent_start = NULL,
                 extent_crc32c = NULL, expected_digests = '', remembered = 0, holder = NULL
             WHERE id = $1 AND lease_until > clock_timestamp()
             RETURNING 1
         )
         SELECT 1 / (count(*) = 1)::int4 AS guard FROM written";

    /// Writes the reply of a finished session.
    WRITE_REPLY = "UPDATE sessions SET reply = $2 WHERE id = $1";

    /// Deletes the request of a session that ends without a resource.
    FORGET_CONTEXT = "UPDATE sessions SET context = '' WHERE id = $1";

    ADD_EXTENTS = "INSERT INTO extents (media, number, start, len, name)
         SELECT * FROM unnest($1::bytea[], $2::int8[], $3::int8[], $4::int8[], $5::bytea[])";

    /// Drops extents. A name that no other extent of the media has becomes garbage.
    DROP_EXTENTS = "WITH gone AS (
             DELETE FROM extents e USING unnest($1::bytea[], $2::int8[]) AS d (media, number)
             WHERE e.media = d.media AND e.number = d.number
             RETURNING e.media, e.number, e.name
         )
         INSERT INTO garbage (media, handle, not_before)
         SELECT DISTINCT g.media, g.name, clock_timestamp() + make_interval(secs => $3)
         FROM gone g
         WHERE NOT EXISTS (SELECT 1 FROM extents e WHERE e.media = g.media AND e.name = g.name
             AND NOT EXISTS (SELECT 1 FROM gone h WHERE h.media = e.media AND h.number = e.number))
         ON CONFLICT (media, handle) DO NOTHING";

    /// Forgets the extents of media that is sealed. Those that are no part of it are garbage.
    SEAL_EXTENTS = "WITH gone AS (
             DELETE FROM extents WHERE media = $1 RETURNING number, name
         )
         INSERT INTO garbage (media, handle, not_before)
         SELECT DISTINCT $1, g.name, clock_timestamp() + make_interval(secs => $3) FROM gone g
         WHERE g.number = ANY ($2) AND NOT EXISTS (
             SELECT 1 FROM gone h WHERE h.name = g.name AND h.number <> ALL ($2))
         ON CONFLICT (media, handle) DO NOTHING";

    /// Puts the names of media that is not sealed on the garbage list: its extents, or else its id.
    RELEASE_UNSEALED = "WITH gone AS (
             DELETE FROM extents e WHERE e.media = ANY ($1) RETURNING e.media, e.name
         )
         INSERT INTO garbage (media, handle, not_before)
         SELECT media, name, clock_timestamp() + make_interval(secs => $2) FROM gone
         UNION
         SELECT m, ''::bytea, clock_timestamp() + make_interval(secs => $2)
         FROM unnest($1::bytea[]) AS m WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.media = m)
         ON CONFLICT (media, handle) DO NOTHING";

    /// Puts handles of sealed media on the garbage list.
    RELEASE_SEALED = "INSERT INTO garbage (media, handle, not_before)
         SELECT m, handle, clock_timestamp() + make_interval(secs => $3)
         FROM unnest($1::bytea[], $2::bytea[]) AS n (m, handle)
         ON CONFLICT (media, handle) DO NOTHING";

    /// Locks the counts of references to media.
    LOCK_MEDIA = "SELECT m.id, m.place, m.refs, m.handle FROM media m
         JOIN unnest($1::bytea[], $2::int2[]) AS k (id, place) ON m.id = k.id AND m.place = k.place
         ORDER BY m.id, m.place FOR UPDATE OF m";

    /// Adds references to media. Media without a count gets one.
    ADD_REFERENCES = "INSERT INTO media (id, place, refs, handle)
         SELECT id, place, refs, handle
         FROM unnest($1::bytea[], $2::int2[], $3::int8[], $4::bytea[]) AS n (id, place, refs, handle)
         ORDER BY id, place
         ON CONFLICT (id, place) DO UPDATE SET refs = media.refs + excluded.refs,
             handle = CASE WHEN excluded.handle = '' THEN media.handle ELSE excluded.handle END";

    /// Changes the counts of references to media that were locked.
    CHANGE_REFERENCES = "UPDATE media m SET refs = m.refs + n.refs,
             handle = CASE WHEN n.handle = '' THEN m.handle ELSE n.handle END
         FROM unnest($1::bytea[], $2::int2[], $3::int8[], $4::bytea[]) AS n (id, place, refs, handle)
         WHERE m.id = n.id AND m.place = n.place";

    DELETE_COUNTS = "DELETE FROM media m USING unnest($1::bytea[], $2::int2[]) AS n (id, place)
         WHERE m.id = n.id AND m.place = n.place";

    PUT_SMALL_MEDIA = "INSERT INTO small_media (id, bytes)
         SELECT id, bytes FROM unnest($1::bytea[], $2::bytea[]) AS n (id, bytes) ORDER BY id
         ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes";

    DELETE_SMALL_MEDIA = "DELETE FROM small_media WHERE id = ANY ($1)";

    SMALL_MEDIA = "SELECT bytes FROM small_media WHERE id = $1";

    USAGE = "SELECT coalesce(sum(sessions), 0)::int8 AS sessions, coalesce(sum(kib), 0)::int8 AS kib
         FROM usage WHERE owner = $1";

    USAGE_OF_OWNERS = "SELECT owner, sum(sessions)::int8 AS sessions, sum(kib)::int8 AS kib
         FROM usage WHERE owner = ANY ($1) GROUP BY owner";

    USAGE_OF_SESSIONS = "SELECT owner, sum(sessions)::int8 AS sessions, sum(kib)::int8 AS kib
         FROM usage WHERE owner IN (SELECT owner FROM sessions WHERE id = ANY ($1)) GROUP BY owner";

    /// Lets one transaction at a time decide about the quotas of these owners.
    LOCK_USAGE = "INSERT INTO usage (owner, slot, sessions, kib)
         SELECT o, 0, 0, 0 FROM unnest($1::bytea[]) AS o ORDER BY o
         ON CONFLICT (owner, slot) DO UPDATE SET kib = usage.kib";

    ADD_USAGE = "INSERT INTO usage (owner, slot, sessions, kib)
         SELECT owner, $4, sessions, kib
         FROM unnest($1::bytea[], $2::int8[], $3::int8[]) AS n (owner, sessions, kib) ORDER BY owner
         ON CONFLICT (owner, slot) DO UPDATE
             SET sessions = usage.sessions + excluded.sessions, kib = usage.kib + excluded.kib";

    RESOURCE = concat!(
        "SELECT ", resource_columns!(), " FROM resources r WHERE r.collection = $1 AND r.id = $2"
    );

    RESOURCES = concat!(
        "SELECT ", resource_columns!(), " FROM resources r
         WHERE r.collection = $1 AND r.id >= $2 ORDER BY r.id LIMIT $3"
    );

    RESOURCES_AFTER = concat!(
        "SELECT ", resource_columns!(), " FROM resources r
         WHERE r.collection = $1 AND r.id > $2 ORDER BY r.id LIMIT $3"
    );

    FETCH = concat!(
        "SELECT k.n, ", resource_columns!(), "
         FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (collection, id, n)
         JOIN resources r ON r.collection = k.collection AND r.id = k.id"
    );

    LOCK_CHANGED = lock_resources!("NO KEY UPDATE");
    LOCK_EXPECTED = lock_resources!("SHARE");

    INSERT_RESOURCES = concat!(
        "INSERT INTO resources (collection, id, version, body, media, place, handle, length,
             content_type, crc32c, md5, sha256, created, updated, owner, due, claimed_by)
         SELECT * FROM ", resource_arrays!(), " ORDER BY n.collection, n.id"
    );

    REPLACE_RESOURCES = concat!(
        "UPDATE resources r SET version = n.version, body = n.body, media = n.media,
             place = n.place, handle = n.handle, length = n.length, content_type = n.content_type,
             crc32c = n.crc32c, md5 = n.md5, sha256 = n.sha256, created = n.created,
             updated = n.updated, owner = n.owner, due = n.due, claimed_by = n.claimed_by
         FROM ", resource_arrays!(), " WHERE r.collection = n.collection AND r.id = n.id"
    );

    DELETE_RESOURCES = "DELETE FROM resources r
         USING unnest($1::bytea[], $2::bytea[]) AS k (collection, id)
         WHERE r.collection = k.collection AND r.id = k.id";

    /// Ends the transaction if a time in milliseconds has passed.
    EXPECT_IN_TIME = "SELECT 1 / (clock_timestamp()
             <= 'epoch'::timestamptz + $1 * interval '1 millisecond')::int4 AS guard";

    /// Ends the transaction if one of these collections has a resource.
    EXPECT_EMPTY = "SELECT 1 / (NOT EXISTS (
             SELECT 1 FROM resources WHERE collection = ANY ($1)))::int4 AS guard";

    CLAIM_DUE = claim!("t.due <= $2");
    CLAIM_ABANDONED = claim!(
        "t.claimed_by IS NOT NULL AND t.due > $2 AND NOT EXISTS (
             SELECT 1 FROM replicas r WHERE r.id = t.claimed_by
                 AND r.beat > clock_timestamp() - interval '6 seconds')"
    );

    NEXT_DUE = "SELECT due FROM resources
         WHERE collection = $1 AND due IS NOT NULL ORDER BY due LIMIT 1";

    COUNT_DUE = "SELECT count(*) AS rows FROM resources WHERE collection = $1 AND due IS NOT NULL";

    /// `$4` is the time in seconds for which another replica has been idle at least.
    FINISHING = concat!(
        "SELECT t.id FROM tips t
         WHERE t.state = 1 AND t.id > $1
             AND (t.holder IS NULL OR t.holder = $3
                 OR t.lease_until <= clock_timestamp() + interval '6 hours'
                     - make_interval(secs => $4)
                 OR NOT ", holder_is_alive!(), ")
         ORDER BY t.id LIMIT $2"
    );

    /// Locks expired sessions that nobody else deletes.
    LOCK_EXPIRED = "SELECT t.id, t.state, t.lease, t.\"offset\", t.total, t.media, t.place,
             t.remembered, s.owner
         FROM tips t JOIN sessions s USING (id)
         WHERE t.sweep_hour <= $1 AND t.expires < $2 AND t.state <> 1
         ORDER BY t.sweep_hour LIMIT $3 FOR UPDATE OF t SKIP LOCKED";

    DELETE_TIPS = "DELETE FROM tips WHERE id = ANY ($1)";
    DELETE_SESSIONS = "DELETE FROM sessions WHERE id = ANY ($1)";

    /// The garbage that is due, behind the entry with the time `$1` and the number `$2`.
    GARBAGE = "SELECT n, (extract(epoch FROM not_before) * 1000000)::int8 AS due, media, handle,
             attempt
         FROM garbage
         WHERE (not_before, n) > ('epoch'::timestamptz + $1 * interval '1 microsecond', $2)
             AND not_before <= clock_timestamp()
         ORDER BY not_before, n LIMIT $3";

    FORGET_GARBAGE = "DELETE FROM garbage WHERE n = ANY ($1) AND ($2 OR attempt > 0)";

    /// The entries are due again after `$2` seconds, under other numbers.
    DELETE_AGAIN = "UPDATE garbage SET n = DEFAULT, attempt = 1,
             not_before = clock_timestamp() + make_interval(secs => $2)
         WHERE n = ANY ($1) AND attempt = 0";

    /// The positions of names that nothing has.
    UNKNOWN_NAMES = "SELECT k.n FROM unnest($1::bytea[], $2::bytea[])
             WITH ORDINALITY AS k (media, handle, n)
         WHERE NOT EXISTS (SELECT 1 FROM media m WHERE m.id = k.media AND m.handle = k.handle)
             AND NOT EXISTS (SELECT 1 FROM extents e WHERE e.media = k.media AND e.name = k.handle)
             AND NOT EXISTS (SELECT 1 FROM garbage g
                 WHERE g.media = k.media AND g.handle = k.handle)
         ORDER BY k.n";

    /// Takes a task that no living replica does, or goes on with it.
    ACQUIRE_TASK = "INSERT INTO tasks AS t (name, holder, until)
         VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
         WHERE t.holder = $2 OR t.until <= clock_timestamp()
             OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = t.holder
                 AND r.beat > clock_timestamp() - interval '6 seconds')
         RETURNING 1 AS acquired";

    CHECK = "SELECT 1 AS alive";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_portable() {
        let forbidden = [
            "now()",
            "current_timestamp",
            "listen",
            "notify",
            "advisory",
            "trigger",
            "plpgsql",
            "prepare",
            "do $$",
        ];
        for (name, sql) in ALL.iter().chain(&[("BEGIN", BEGIN)]) {
            let sql = sql.to_lowercase();
            for word in forbidden {
                assert!(!sql.contains(word), "{name}: {word}");
            }
        }
    }

    #[test]
    fn parameters_are_numbered_without_gaps() {
        for (name, sql) in ALL {
            let numbers = sql.split('$').skip(1).map(|rest| {
                let digits = rest.chars().take_while(char::is_ascii_digit);
                digits.collect::<String>().parse::<usize>().expect(name)
            });
            let mut numbers: Vec<_> = numbers.collect();
            numbers.sort_unstable();
            numbers.dedup();
            let count = numbers.len();
            assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{name}");
        }
    }
}
