//! The journal of a command, the lookup of its uploads by id, and the commands about single uploads
//! or sessions: `windlass uploads` lists the uploads, `windlass status` asks the server for their
//! state, and `windlass cancel` cancels one.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use url::Url;
use windlass_client::{
    Client, Damage, Entry, Journal, Protocol, Record, RecordId, SessionUri, Status,
};

use super::Error;
use super::hints::{self, HintContext};
use crate::args::{CancelArgs, JournalArgs, ProtocolArg, StatusArgs, Target, UploadsArgs};
use crate::display::{self, Display};
use crate::exit::Code;
use crate::output;
use crate::settings::{JOURNAL_VARIABLE, client_variable};

mod finished;

/// Opens the journal of the flag. Without the flag, the variable names the journal; without both,
/// it is the default journal.
pub(super) fn open(args: &JournalArgs) -> Result<Journal, Error> {
    let directory = named_directory(args)
        .or_else(Journal::default_directory)
        .ok_or(Error::NoHome)?;
    Ok(Journal::open(directory)?)
}

/// Opens the journal. Continues without one if the default journal cannot be opened.
pub(super) fn open_if_possible(
    args: &JournalArgs,
    display: &Display,
) -> Result<Option<Journal>, Error> {
    match open(args) {
        Ok(journal) => Ok(Some(journal)),
        Err(error) if named_directory(args).is_some() => Err(error),
        Err(error) => {
            let what = format!(
                "unfinished uploads will not be recorded: {}",
                output::with_causes(&error)
            );
            display.warning(&what, error.hint().as_deref());
            Ok(None)
        }
    }
}

/// Returns the directory that the user has chosen.
pub(super) fn named_directory(args: &JournalArgs) -> Option<PathBuf> {
    let variable = || client_variable(JOURNAL_VARIABLE).map(PathBuf::from);
    args.journal.clone().or_else(variable)
}

/// The content of a journal.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// The uploads that can be continued, oldest first.
    pub(super) records: Vec<Record>,
    /// The records that cannot be used.
    pub(super) damaged: Vec<(RecordId, Damage)>,
}

/// Reads the journal.
pub(super) fn unfinished(journal: &Journal) -> Result<Unfinished, Error> {
    let mut found = Unfinished::default();
    for entry in journal.entries()? {
        match entry {
            Entry::Unfinished(record) => found.records.push(*record),
            Entry::Damaged { id, damage, .. } => found.damaged.push((id, damage)),
        }
    }
    Ok(found)
}

impl Unfinished {
    /// Prints a warning for each record that cannot be used.
    pub(super) fn warn(&self, warning: impl Fn(&str, Option<&str>)) {
        for (id, damage) in &self.damaged {
            let hint = damage_hint(id, damage);
            warning(
                &format!("the record of {id} cannot be used: {damage}"),
                hint.as_deref(),
            );
        }
    }

    /// Returns the minimum exit code of a command that was to process all records: damaged ones
    /// fail.
    pub(super) fn code(&self) -> Code {
        if self.damaged.is_empty() {
            Code::Success
        } else {
            Code::CannotBegin
        }
    }

    /// Whether the journal has no records.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.damaged.is_empty()
    }
}

/// Returns a hint that says how to remove a record that cannot be used. A record of another version
/// can still be used by the program that wrote it.
pub(super) fn damage_hint(id: &RecordId, damage: &Damage) -> Option<String> {
    match damage {
        Damage::Version { .. } => None,
        _ => Some(format!("`windlass cancel {id} --forget` removes it")),
    }
}

/// Returns the upload with an id that is the text or begins with it.
pub(super) fn named(journal: &Journal, text: &str) -> Result<Record, Error> {
    let id = id_of(journal, text)?;
    for entry in journal.entries()? {
        match entry {
            Entry::Unfinished(record) if record.id == id => return Ok(*record),
            Entry::Damaged {
                id: damaged,
                damage: source,
                ..
            } if damaged == id => return Err(Error::Damaged { id, source }),
            _ => {}
        }
    }
    // Finished in the meantime.
    Err(no_such(text))
}

/// Returns the id that is the text or begins with it, also of a damaged record.
pub(super) fn id_of(journal: &Journal, text: &str) -> Result<RecordId, Error> {
    let entries = journal.entries()?;
    let ids = entries.iter().map(|entry| match entry {
        Entry::Unfinished(record) => &record.id,
        Entry::Damaged { id, .. } => id,
    });
    let found: Vec<_> = ids.filter(|id| begins_with(id, text)).cloned().collect();
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(no_such(text)),
        _ => Err(Error::Ambiguous {
            text: text.to_owned(),
            found,
        }),
    }
}

fn begins_with(id: &RecordId, text: &str) -> bool {
    !text.is_empty() && id.to_string().starts_with(&text.to_ascii_lowercase())
}

fn no_such(text: &str) -> Error {
    Error::NoSuchUpload {
        text: text.to_owned(),
    }
}

/// Returns the file of an upload, for people.
pub(super) fn source_of(record: &Record) -> String {
    relative_to_cwd(record.source.path())
}

/// A path below the current directory is shown as it would be typed.
fn relative_to_cwd(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}

/// Lists the uploads in the journal.
pub(super) fn run_uploads(args: &UploadsArgs) -> Result<Code, Error> {
    let journal = open(&args.journal)?;
    if args.forget_finished {
        journal.forget_all_finished()?;
        output::note("no finished upload is recorded any more");
        return Ok(Code::Success);
    }
    let finished = finished::all(&journal)?;
    if args.finished {
        finished.list(args.json);
        return Ok(Code::Success);
    }
    let found = unfinished(&journal)?;
    found.warn(|what, hint| output::warning(what, hint));
    let records = &found.records;
    if args.json {
        for record in records {
            output::json(row(record));
        }
        return Ok(Code::Success);
    }
    if found.is_empty() {
        output::note("there is no unfinished upload");
    } else if !records.is_empty() {
        output::data(table(records, output::stdout_columns()));
    }
    finished.mention();
    Ok(Code::Success)
}

/// Returns the table of uploads for people, with a part for each URL. URLs are shown without their
/// queries, which may contain keys. Paths are shortened to fit into a terminal of `columns`
/// columns.
pub(super) fn table(records: &[Record], columns: Option<usize>) -> String {
    let head = ["ID", "COMMITTED", "", "AGE", "FILE"].map(str::to_owned);
    let row = |record: &Record| {
        [
            record.id.to_string(),
            display::bytes_of(record.committed, Some(record.total)),
            format!("{} %", output::percent(record.committed, record.total)),
            age(record),
            source_of(record),
        ]
    };
    by_url(
        records,
        |record| &record.url,
        |records| {
            let rows = records.iter().map(|record| row(record));
            let rows: Vec<_> = std::iter::once(head.clone()).chain(rows).collect();
            fitted(rows, columns)
        },
    )
}

/// Returns a table for each URL below a line with the URL. The URLs are in the order of their first
/// item.
fn by_url<T>(items: &[T], url: impl Fn(&T) -> &str, table: impl Fn(&[&T]) -> String) -> String {
    let mut parts = Vec::<(String, Vec<&T>)>::new();
    for item in items {
        let place = place(url(item));
        match parts.iter_mut().find(|(of, _)| *of == place) {
            Some((_, part)) => part.push(item),
            None => parts.push((place, vec![item])),
        }
    }
    let parts = parts.iter().map(|(place, part)| {
        let place = output::escaped(place);
        format!("to {place}\n{}", table(part))
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Aligns the columns of a table. Shortens the last cell of each row, which is a path, so that the
/// row fits.
fn fitted<const N: usize>(mut rows: Vec<[String; N]>, columns: Option<usize>) -> String {
    let widths = widths(&rows);
    let others: usize = widths[..N - 1].iter().map(|width| width + 2).sum();
    // A path that is shortened further would say nothing.
    let room = columns.map(|columns| columns.saturating_sub(others).max(MIN_PATH));
    for row in &mut rows {
        row[N - 1] = display::elided(&row[N - 1], room.unwrap_or(usize::MAX));
    }
    aligned(&rows)
}

/// The least width of a path in a table.
const MIN_PATH: usize = 12;

/// Returns an upload as JSON.
pub(super) fn row(record: &Record) -> Value {
    let seconds = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    json!({
        "id": record.id.to_string(),
        "source": record.source.path().display().to_string(),
        "url": place(&record.url),
        "protocol": record.session.protocol().as_str(),
        "method": record.http_method,
        "content_type": record.content_type,
        "committed": record.committed,
        "total": record.total,
        "started": seconds(record.started),
        "touched": seconds(record.updated),
    })
}

/// Returns a URL without the parts that may be secret.
pub(super) fn place(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return "..".to_owned();
    };
    url.set_query(None);
    url.set_fragment(None);
    // Neither can fail for a URL of a web server.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.to_string()
}

fn age(record: &Record) -> String {
    record
        .started
        .elapsed()
        .map(output::age)
        .unwrap_or_default()
}

/// Returns the width of the widest cell of each column.
fn widths<const N: usize>(rows: &[[String; N]]) -> Vec<usize> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    (0..N).map(|column| width(column).unwrap_or(0)).collect()
}

/// Aligns columns by their widest cell.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths = widths(rows);
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints the committed offsets of uploads, which it asks their servers for.
pub(super) async fn run_status(args: StatusArgs) -> Result<Code, Error> {
    super::print_warnings();
    check_protocol(args.target.as_ref(), args.protocol)?;
    let (client, has_token) = super::client(&args.credentials)?;
    let mut worst = Code::Success;
    let asked = match &args.target {
        Some(Target::Session(session)) => {
            vec![StatusQuery::of_session(&in_protocol(
                session,
                args.protocol,
            ))]
        }
        Some(Target::Id(id)) => {
            let journal = open(&args.journal)?;
            vec![StatusQuery::of_record(named(&journal, id)?)]
        }
        None => {
            let journal = open(&args.journal)?;
            let found = unfinished(&journal)?;
            found.warn(|what, hint| output::warning(what, hint));
            if found.is_empty() {
                output::note("there is no unfinished upload");
            }
            worst = found.code();
            found
                .records
                .into_iter()
                .map(StatusQuery::of_record)
                .collect()
        }
    };
    for asked in &asked {
        worst = worst.max(asked.ask(&client, has_token, args.json).await);
    }
    Ok(worst)
}

/// Returns a session on the command line with its protocol, by default Google's.
fn in_protocol(session: &SessionUri, protocol: Option<ProtocolArg>) -> SessionUri {
    let protocol = protocol.map(Protocol::from).unwrap_or_default();
    session.clone().with_protocol(protocol)
}

/// Refuses a protocol for an upload of the journal, which knows its own.
fn check_protocol(target: Option<&Target>, protocol: Option<ProtocolArg>) -> Result<(), Error> {
    match target {
        None | Some(Target::Id(_)) if protocol.is_some() => Err(Error::ProtocolOfRecord),
        None | Some(Target::Id(_) | Target::Session(_)) => Ok(()),
    }
}

/// A session, with its record in the journal if it has one.
struct StatusQuery {
    session: SessionUri,
    record: Option<Record>,
}

impl StatusQuery {
    fn of_session(session: &SessionUri) -> Self {
        Self {
            session: session.clone(),
            record: None,
        }
    }

    fn of_record(record: Record) -> Self {
        Self {
            session: record.session.clone(),
            record: Some(record),
        }
    }

    async fn ask(&self, client: &Client, has_token: bool, json: bool) -> Code {
        match client.status(&self.session).await {
            Ok(status) => {
                if json {
                    output::json(self.to_json(&status));
                } else {
                    output::data(output::escaped(&self.line(&status)));
                }
                match status {
                    Status::Active { .. } | Status::Finished { .. } => Code::Success,
                    Status::Lost | Status::Cancelled => Code::Failure,
                }
            }
            Err(error) => {
                let context = HintContext {
                    has_token,
                    ..HintContext::default()
                };
                let message = format!("{}: {}", self.name(), output::with_causes(&error));
                output::failure(&message, hints::hint(&error, context).as_deref());
                hints::exit_code(&error)
            }
        }
    }

    fn name(&self) -> String {
        match &self.record {
            Some(record) => format!("{}  {}", record.id, source_of(record)),
            None => "session".to_owned(),
        }
    }

    fn line(&self, status: &Status) -> String {
        let total = self.record.as_ref().map(|record| record.total);
        let state = match status {
            Status::Active { committed } => display::committed(*committed, total),
            Status::Finished { .. } => "finished".to_owned(),
            Status::Lost if self.record.is_some() => {
                "lost: the server does not know the session any more; `windlass resume` starts again"
                    .to_owned()
            }
            Status::Lost => {
                "lost: the server does not know it: it has expired, or never existed; upload again"
                    .to_owned()
            }
            Status::Cancelled => "cancelled".to_owned(),
        };
        format!("{}  {state}{}", self.name(), self.difference(status))
    }

    /// The server may have committed more than the journal knows.
    fn difference(&self, status: &Status) -> String {
        match (status, &self.record) {
            (Status::Active { committed }, Some(record)) if *committed != record.committed => {
                format!(" ({} of them known here)", output::size(record.committed))
            }
            _ => String::new(),
        }
    }

    fn to_json(&self, status: &Status) -> Value {
        let (state, committed, resource) = match status {
            Status::Active { committed } => ("active", Some(*committed), None),
            Status::Finished { resource } => ("finished", None, resource.as_ref()),
            Status::Lost => ("lost", None, None),
            Status::Cancelled => ("cancelled", None, None),
        };
        let mut value = json!({"state": state, "committed": committed, "resource": resource});
        if let Some(record) = &self.record {
            value["upload"] = row(record);
        }
        value
    }
}

/// Cancels an upload.
pub(super) async fn run_cancel(args: CancelArgs) -> Result<Code, Error> {
    super::print_warnings();
    check_protocol(args.target.as_ref(), args.protocol)?;
    let journal = open(&args.journal)?;
    let target = match args.target {
        Some(target) => Some(target),
        None => only(&journal)?,
    };
    let Some(target) = target else {
        output::note("there is no unfinished upload");
        return Ok(Code::Success);
    };
    if args.forget {
        return forget(&journal, &target);
    }
    let (client, _) = super::client(&args.credentials)?;
    match &target {
        Target::Id(id) => {
            let record = named(&journal, id)?;
            let status = cancel(&client, &journal, &record).await?;
            let what = format!("{} ({})", record.id, source_of(&record));
            output::note(outcome(&what, &status));
        }
        Target::Session(session) => {
            let status = match of_session(&journal, session)? {
                Some(record) => cancel(&client, &journal, &record).await?,
                None => client.cancel(&in_protocol(session, args.protocol)).await?,
            };
            output::note(outcome("the session", &status));
        }
    }
    Ok(Code::Success)
}

/// Returns the only upload of the journal, also if its record is damaged.
fn only(journal: &Journal) -> Result<Option<Target>, Error> {
    let found = unfinished(journal)?;
    let ids = found.records.iter().map(|record| &record.id);
    let mut ids = ids.chain(found.damaged.iter().map(|(id, _)| id));
    let only = ids.next().map(|id| Target::Id(id.to_string()));
    let others = ids.count();
    if others == 0 {
        return Ok(only);
    }
    list(&found);
    Err(Error::WhichToCancel { count: others + 1 })
}

/// Prints the uploads among which the user has to choose.
pub(super) fn list(found: &Unfinished) {
    found.warn(|what, hint| output::warning(what, hint));
    let columns = std::io::stderr().is_terminal().then(display::columns);
    for line in table(&found.records, columns).lines() {
        output::note(line);
    }
}

/// Describes the outcome. In each case the server no longer has the upload.
fn outcome(what: &str, status: &Status) -> String {
    match status {
        Status::Lost => format!("the server does not know {what} any more"),
        _ => format!("{what} is cancelled"),
    }
}

/// Cancels a session while its record is locked. The record is removed only after the server has
/// deleted the session.
async fn cancel(client: &Client, journal: &Journal, record: &Record) -> Result<Status, Error> {
    let held = journal.lock(&record.id)?;
    let status = client.cancel(&record.session).await?;
    held.finish()?;
    Ok(status)
}

fn forget(journal: &Journal, target: &Target) -> Result<Code, Error> {
    let id = match target {
        Target::Id(id) => id_of(journal, id)?,
        Target::Session(session) => {
            let record = of_session(journal, session)?;
            let unknown = || Error::NoSuchUpload {
                text: session.to_string(),
            };
            record.ok_or_else(unknown)?.id
        }
    };
    journal.remove(&id)?;
    output::note(format_args!("{id} is forgotten"));
    Ok(Code::Success)
}

fn of_session(journal: &Journal, session: &SessionUri) -> Result<Option<Record>, Error> {
    let mut records = unfinished(journal)?.records.into_iter();
    Ok(records.find(|record| record.session == *session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_secrets() {
        let cases = [
            (
                "https://up.example.com/upload/a?key=1&x=2#f",
                "https://up.example.com/upload/a",
            ),
            ("http://me:pass@localhost:8080/a", "http://localhost:8080/a"),
            ("no url", ".."),
        ];
        for (url, shown) in cases {
            assert_eq!(place(url), shown);
        }
    }

    #[test]
    fn tables_fit_into_the_terminal_and_have_a_part_for_each_url() {
        let uploads = [("http://x/a?key=1", "a.jpg"), ("http://x/b", "b.jpg")];
        let uploads = [
            uploads[0],
            uploads[1],
            ("http://x/a", "herd/of/many/cows.jpg"),
        ];
        let table = |columns| {
            by_url(
                &uploads,
                |(url, _)| url,
                |of_url| {
                    let rows = of_url
                        .iter()
                        .map(|(_, path)| ["id".to_owned(), (*path).to_owned()]);
                    fitted(rows.collect(), columns)
                },
            )
        };
        let whole =
            "to http://x/a\nid  a.jpg\nid  herd/of/many/cows.jpg\n\nto http://x/b\nid  b.jpg";
        assert_eq!(table(None), whole);
        let cut = whole.replace("herd/of/many/cows.jpg", "..ny/cows.jpg");
        assert_eq!(table(Some(17)), cut);
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [["a", "bb", ""], ["ccc", "d", "e"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "a    bb\nccc  d   e");
    }
}
