//! Row by row: sessions, resources, small media and garbage.

use std::sync::Arc;

use windlass_store::{MediaId, SessionState};

use super::check::Expected;
use super::finding::{Fault, Subject};
use super::{Verifier, VerifyError};
use crate::filesystem;
use crate::ledger::{LedgerSnapshot, Page, ResourceRow, SessionRow, TableScan, is_unreadable};

impl Verifier<'_> {
    /// Looks at all rows that a table has now.
    pub(super) fn each<T>(
        &mut self,
        table: &'static str,
        page: fn(&LedgerSnapshot, i64) -> rusqlite::Result<Page<T>>,
        check: fn(&mut Self, i64, &T) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        let mut walk = TableScan::begin(&self.snapshot, table, page)?;
        while let Some(rows) = walk.next(&self.snapshot)? {
            for (row, read) in rows {
                match read {
                    Ok(found) => check(self, row, &found)?,
                    Err(error) => self.unreadable_row(table, row, error)?,
                }
            }
            self.progress();
        }
        Ok(())
    }

    /// What such a row names is not known, so that nothing can be called unnamed from here on.
    fn unreadable_row(
        &mut self,
        table: &'static str,
        row: i64,
        error: rusqlite::Error,
    ) -> Result<(), VerifyError> {
        if !is_unreadable(&error) {
            return Err(error.into());
        }
        self.repair = None;
        let fault = Fault::Row(Arc::new(error));
        self.report(Subject::Row { table, row }, fault, false);
        Ok(())
    }

    pub(super) fn check_session(
        &mut self,
        row: i64,
        session: &SessionRow,
    ) -> Result<(), VerifyError> {
        self.counts.sessions += 1;
        let id = session.id;
        let subject = Subject::Session { id, row };
        if let Some(reason) = contradiction(session) {
            // It may have named anything before it came to this.
            self.repair = None;
            self.report(subject, Fault::Contradiction(reason), false);
            return Ok(());
        }
        let Some(media) = session.media else {
            return Ok(());
        };
        let expected = Expected::of_session(session);
        let Some(fault) = self.fault_of(media, &expected)? else {
            return Ok(());
        };
        // Never continued on other bytes than were acknowledged, as when a server meets it. What cannot
        // be read may be readable another time.
        let is_loss = !matches!(fault, Fault::Unreadable { .. });
        let mended = match &self.repair {
            Some(repair) if is_loss => repair.fail_session(id, session.epoch)?,
            _ => false,
        };
        self.report(subject, fault, mended);
        Ok(())
    }

    pub(super) fn check_resource(
        &mut self,
        _row: i64,
        resource: &ResourceRow,
    ) -> Result<(), VerifyError> {
        self.counts.resources += 1;
        let Some((media, length, digests)) = resource.media else {
            return Ok(());
        };
        let expected = Expected::of_resource(length, digests);
        if let Some(fault) = self.fault_of(media, &expected)? {
            let ResourceRow { collection, id, .. } = resource.clone();
            self.report(Subject::Resource { collection, id }, fault, false);
        }
        Ok(())
    }

    pub(super) fn check_small(
        &mut self,
        _row: i64,
        &(id, is_named): &(MediaId, bool),
    ) -> Result<(), VerifyError> {
        if !is_named {
            let mended = match &self.repair {
                Some(repair) => repair.drop_small_media(id)?,
                None => false,
            };
            self.report(Subject::Media(id), Fault::UnnamedInLedger, mended);
        }
        Ok(())
    }

    /// Beside a server garbage is on its way out, and nothing to be told.
    pub(super) fn check_garbage(&mut self) -> Result<(), VerifyError> {
        let mut after = None;
        loop {
            let page = self.snapshot.garbage(after)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for (id, is_named) in page {
                let fault = match is_named {
                    true => Fault::NamedGarbage,
                    false if self.counts.beside_server => continue,
                    false => Fault::Garbage,
                };
                let mended = self.clear_garbage(id, is_named)?;
                self.report(Subject::Media(id), fault, mended);
            }
            self.progress();
        }
    }

    fn clear_garbage(&self, id: MediaId, is_named: bool) -> Result<bool, VerifyError> {
        let Some(repair) = &self.repair else {
            return Ok(false);
        };
        if !is_named {
            filesystem::remove(&self.path(id))?;
        }
        Ok(repair.forget_garbage(id)?)
    }
}

/// What cannot be true of a session, whatever its bytes are.
fn contradiction(session: &SessionRow) -> Option<&'static str> {
    use SessionState::{Active, Finished, Finishing};
    let is_open = matches!(session.state, Active | Finishing);
    match session {
        SessionRow {
            media: None,
            offset: 1..,
            ..
        } if is_open => Some("bytes are committed and no media is named"),
        SessionRow { media: Some(_), .. } if !is_open => Some("it has ended and still names media"),
        SessionRow {
            total: Some(total),
            offset,
            ..
        } if offset > total => Some("more is committed than the media is long"),
        SessionRow {
            state: Finished,
            has_reply: false,
            ..
        } => Some("it is finished and has no final reply"),
        SessionRow {
            extent: Some(extent),
            offset,
            ..
        } if extent.start > *offset => Some("its last extent begins behind the committed offset"),
        _ => None,
    }
}
