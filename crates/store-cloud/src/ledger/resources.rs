//! Resources: reads, claims, and their rows as parallel arrays.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windlass_store::{LedgerError, MediaId, Resource, Timestamp};

use bytes::Bytes;

use crate::failure::Failure;
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::transaction::{Database, Statement};

/// Resources to be written, as parallel arrays.
#[derive(Debug, Default)]
pub(super) struct ResourceArrays<'a> {
    collections: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
    versions: Vec<i64>,
    bodies: Vec<&'a [u8]>,
    media: Vec<Option<&'a [u8]>>,
    places: Vec<Option<i16>>,
    handles: Vec<Option<&'a [u8]>>,
    lengths: Vec<Option<i64>>,
    content_types: Vec<Option<&'a [u8]>>,
    crc32c: Vec<Option<i64>>,
    md5: Vec<Option<&'a [u8]>>,
    sha256: Vec<Option<&'a [u8]>>,
    created: Vec<i64>,
    updated: Vec<i64>,
    owners: Vec<Option<&'a [u8]>>,
    due: Vec<Option<i64>>,
    claimed_by: Vec<Option<i64>>,
}

impl<'a> ResourceArrays<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a resource.
    pub(super) fn add(&mut self, resource: &'a Resource) {
        self.collections.push(resource.collection.as_bytes());
        self.ids.push(resource.id.as_bytes());
        self.versions.push(resource.version.cast_signed());
        self.bodies.push(&resource.body);
        let media = resource.media.as_ref();
        self.media.push(media.map(|it| &it.at.id.as_bytes()[..]));
        self.places
            .push(media.map(|it| rows::sql_location(it.at.location)));
        self.handles.push(media.map(|it| &it.handle[..]));
        self.lengths.push(media.map(|it| it.length.cast_signed()));
        self.content_types
            .push(media.map(|it| it.content_type.as_bytes()));
        let digests = media.map(|it| &it.digests);
        self.crc32c.push(digests.map(|it| it.crc32c.0.into()));
        let md5 = digests.and_then(|it| it.md5.as_ref());
        self.md5.push(md5.map(|md5| &md5.0[..]));
        let sha256 = digests.and_then(|it| it.sha256.as_ref());
        self.sha256.push(sha256.map(|sha256| &sha256.0[..]));
        self.created.push(rows::sql_time(resource.created));
        self.updated.push(rows::sql_time(resource.updated));
        self.owners
            .push(rows::sql_optional(resource.owner.as_ref()));
        self.due.push(resource.due.map(rows::sql_time));
        let claimed_by = resource.claimed_by.map(u64::cast_signed);
        self.claimed_by.push(claimed_by);
    }

    /// Adds a row without content, which keeps others from inserting a row with this key.
    pub(super) fn add_empty(&mut self, (collection, id): (&'a str, &'a str)) {
        self.collections.push(collection.as_bytes());
        self.ids.push(id.as_bytes());
        self.versions.push(0);
        self.bodies.push(&[]);
        self.media.push(None);
        self.places.push(None);
        self.handles.push(None);
        self.lengths.push(None);
        self.content_types.push(None);
        self.crc32c.push(None);
        self.md5.push(None);
        self.sha256.push(None);
        self.created.push(0);
        self.updated.push(0);
        self.owners.push(None);
        self.due.push(None);
        self.claimed_by.push(None);
    }

    /// Returns a statement that has them as its parameters.
    pub(super) fn statement(self, sql: &'static str) -> Statement<'a> {
        Statement::new(sql)
            .with(self.collections, Type::BYTEA_ARRAY)
            .with(self.ids, Type::BYTEA_ARRAY)
            .with(self.versions, Type::INT8_ARRAY)
            .with(self.bodies, Type::BYTEA_ARRAY)
            .with(self.media, Type::BYTEA_ARRAY)
            .with(self.places, Type::INT2_ARRAY)
            .with(self.handles, Type::BYTEA_ARRAY)
            .with(self.lengths, Type::INT8_ARRAY)
            .with(self.content_types, Type::BYTEA_ARRAY)
            .with(self.crc32c, Type::INT8_ARRAY)
            .with(self.md5, Type::BYTEA_ARRAY)
            .with(self.sha256, Type::BYTEA_ARRAY)
            .with(self.created, Type::INT8_ARRAY)
            .with(self.updated, Type::INT8_ARRAY)
            .with(self.owners, Type::BYTEA_ARRAY)
            .with(self.due, Type::INT8_ARRAY)
            .with(self.claimed_by, Type::INT8_ARRAY)
    }
}

impl Database {
    pub(super) async fn resource(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<Resource>, Failure> {
        let statement = Statement::new(sql::RESOURCE)
            .with(collection.as_bytes(), Type::BYTEA)
            .with(id.as_bytes(), Type::BYTEA);
        let found = self.read(statement).await?;
        let resource = found.first().map(|row| Columns(row).resource());
        Ok(resource.transpose()?)
    }

    pub(super) async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, Failure> {
        let (sql, from) = match after {
            Some(after) => (sql::RESOURCES_AFTER, after),
            None => (sql::RESOURCES, ""),
        };
        let statement = Statement::new(sql)
            .with(collection.as_bytes(), Type::BYTEA)
            .with(from.as_bytes(), Type::BYTEA)
            .with(rows::sql_limit(limit), Type::INT8);
        let found = self.read(statement).await?;
        Ok(rows::all(&found, rows::resource)?)
    }

    pub(super) async fn fetch(
        &self,
        keys: &[(&str, &str)],
    ) -> Result<Vec<Option<Resource>>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (collections, ids): (Vec<_>, Vec<_>) = keys
            .iter()
            .map(|(collection, id)| (collection.as_bytes(), id.as_bytes()))
            .unzip();
        let statement = Statement::new(sql::FETCH)
            .with(collections, Type::BYTEA_ARRAY)
            .with(ids, Type::BYTEA_ARRAY);
        let found = self.read(statement).await?;
        let mut fetched = vec![None; keys.len()];
        for (n, resource) in rows::all(&found, |row| Ok((row.unsigned("n")?, row.resource()?)))? {
            fetched[position(n, keys.len())?] = Some(resource);
        }
        Ok(fetched)
    }

    pub(super) async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, Failure> {
        let statement = Statement::new(sql::SMALL_MEDIA).with(id.as_bytes().to_vec(), Type::BYTEA);
        let found = self.read(statement).await?;
        let bytes = found.first().map(|row| Columns(row).bytes("bytes"));
        Ok(bytes.transpose()?)
    }

    /// Claims rows for a replica: first those that are due, then those of replicas that have ended.
    pub(super) async fn claim(
        &self,
        collection: &str,
        [now, until]: [Timestamp; 2],
        limit: usize,
        replica: i64,
    ) -> Result<Vec<Resource>, LedgerError> {
        let claims = async |sql, limit| {
            let statement = Statement::new(sql)
                .with(collection.as_bytes(), Type::BYTEA)
                .with(rows::sql_time(now), Type::INT8)
                .with(rows::sql_limit(limit), Type::INT8)
                .with(rows::sql_time(until), Type::INT8)
                .with(replica, Type::INT8);
            self.change(statement).await
        };
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut claimed: Vec<Row> = claims(sql::CLAIM_DUE, limit).await?;
        if claimed.len() < limit {
            match claims(sql::CLAIM_ABANDONED, limit - claimed.len()).await {
                Ok(more) => claimed.extend(more),
                // The rows that are claimed already would wait for the end of their claims.
                Err(_) if !claimed.is_empty() => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        let readable = claimed
            .iter()
            .filter_map(|row| Columns(row).resource().ok());
        Ok(readable.collect())
    }

    pub(super) async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, Failure> {
        let statement = Statement::new(sql::NEXT_DUE).with(collection.as_bytes(), Type::BYTEA);
        let found = self.read(statement).await?;
        let due = found.first().map(|row| Columns(row).time("due"));
        Ok(due.transpose()?)
    }

    pub(super) async fn count_due(&self, collection: &str) -> Result<u64, Failure> {
        let statement = Statement::new(sql::COUNT_DUE).with(collection.as_bytes(), Type::BYTEA);
        let found = self.read(statement).await?;
        let count = found.first().map(|row| Columns(row).unsigned("rows"));
        Ok(count.unwrap_or(Ok(0))?)
    }
}

/// Returns the index of an ordinal number, which begins at 1.
pub(super) fn position(ordinal: u64, len: usize) -> Result<usize, Unreadable> {
    let index = ordinal.checked_sub(1).ok_or(Unreadable)?;
    let index = usize::try_from(index).map_err(|_| Unreadable)?;
    if index < len {
        Ok(index)
    } else {
        Err(Unreadable)
    }
}
