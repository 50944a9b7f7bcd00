//! Checks after faults and at the end of a run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_RANGE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rusqlite::Connection;
use serde_json::Value;
use tokio::time::sleep;
use url::Url;
use windlass_client::transport::{Body, Reply, Request, Transport as _};
use windlass_store::sweep::{Sweep, SweepOptions};
use windlass_store::{MediaId, Timestamp};
use windlass_store_local::LocalStore;
use windlass_testkit::oracle::{End, Rule, judge_resources};

use crate::oracle::{Oracle, now};
use crate::os::trace::note;
use crate::server;
use crate::uploads::{Outcome, Plan, UploadStyle};
use crate::wire::Wire;

const PAUSE: Duration = Duration::from_millis(10);

/// A client that asks the server for everything that was promised.
#[derive(Debug, Clone)]
pub(crate) struct InvariantChecker(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    oracle: Oracle,
    sessions: Cell<bool>,
    everything: RefCell<Option<Everything>>,
    is_done: Cell<bool>,
}

#[derive(Debug, Clone)]
struct Everything {
    uploads: Vec<(Plan, Outcome)>,
    /// Sessions may have expired, and their uploads may have been started again.
    has_aged: bool,
}

/// The reply does not allow a check now.
#[derive(Debug)]
struct NotNow;

impl InvariantChecker {
    pub(crate) fn new(oracle: Oracle) -> Self {
        Self(Rc::new(Inner {
            oracle,
            sessions: Cell::new(false),
            everything: RefCell::new(None),
            is_done: Cell::new(false),
        }))
    }

    /// Orders one query of every session.
    pub(crate) fn order_sessions(&self) {
        self.0.sessions.set(true);
    }

    /// Orders a check of everything, which is repeated until it succeeds.
    pub(crate) fn order_everything(&self, uploads: Vec<(Plan, Outcome)>, has_aged: bool) {
        let everything = Everything { uploads, has_aged };
        self.0.everything.replace(Some(everything));
    }

    /// Whether everything was looked into.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done.get()
    }

    pub(crate) async fn run(self) -> turmoil::Result {
        let wire = Wire::new("checker", self.0.oracle.clone());
        loop {
            sleep(PAUSE).await;
            let everything = self.0.everything.borrow().clone();
            if self.0.sessions.take() || everything.is_some() {
                self.ask_sessions(&wire).await;
            }
            if let Some(everything) = everything
                && !self.is_done()
                && self.look_into(&wire, &everything).await.is_ok()
            {
                self.0.is_done.set(true);
            }
        }
    }

    /// Queries every session; the oracle takes the replies in.
    async fn ask_sessions(&self, wire: &Wire) {
        for session in self.0.oracle.sessions() {
            let query = HeaderValue::from_static("bytes */*");
            let headers = HeaderMap::from_iter([(CONTENT_RANGE, query)]);
            send(wire, Method::PUT, &session, headers).await.ok();
        }
    }

    async fn look_into(&self, wire: &Wire, everything: &Everything) -> Result<(), NotNow> {
        let list = get(wire, "http://server/farm/v1/animals?maxResults=1000").await?;
        let list: Value = serde_json::from_slice(&list).map_err(|_| NotNow)?;
        let animals = list["items"].as_array().cloned().unwrap_or_default();
        for (plan, outcome) in &everything.uploads {
            let mine = animals.iter().filter(|animal| animal["name"] == *plan.name);
            let ids: Vec<&str> = mine.filter_map(|animal| animal["id"].as_str()).collect();
            self.count(plan, *outcome, ids.len(), everything.has_aged);
            for id in ids {
                self.compare(wire, plan, id).await?;
            }
        }
        Ok(())
    }

    /// Checks rules 3 and 4: one resource of each finished session, none of others.
    fn count(&self, plan: &Plan, outcome: Outcome, found: usize, has_aged: bool) {
        let is_unknown = has_aged || plan.style == UploadStyle::OneRequest;
        let (end, may_repeat) = match outcome {
            Outcome::Finished => (End::Finished, is_unknown),
            Outcome::Cancelled => (End::Cancelled, has_aged),
            // Its client may have begun again with another session.
            Outcome::Open => (End::Open, true),
        };
        if let Some(rule) = judge_resources(end, found, may_repeat) {
            self.0.oracle.violate(format!("{}: {rule}", plan.name));
        }
    }

    /// Checks rule 2.
    async fn compare(&self, wire: &Wire, plan: &Plan, id: &str) -> Result<(), NotNow> {
        let url = format!("http://server/farm/v1/animals/{id}?alt=media");
        let reply = send(wire, Method::GET, &url, HeaderMap::new()).await?;
        let sent = std::fs::read(&plan.file).expect("it is where it was planned");
        if reply.status != StatusCode::OK || reply.body != sent {
            let (name, sent, status, got) =
                (&plan.name, sent.len(), reply.status, reply.body.len());
            let rule = Rule::MediaDiffers(format!(
                "{sent} bytes were sent, the download answers {status} with {got} bytes"
            ));
            self.0.oracle.violate(format!("{name}: {rule}"));
        }
        Ok(())
    }
}

async fn get(wire: &Wire, url: &str) -> Result<Bytes, NotNow> {
    let reply = send(wire, Method::GET, url, HeaderMap::new()).await?;
    match reply.status {
        StatusCode::OK => Ok(reply.body),
        _ => Err(NotNow),
    }
}

async fn send(wire: &Wire, method: Method, url: &str, headers: HeaderMap) -> Result<Reply, NotNow> {
    let request = Request {
        method,
        url: Url::parse(url).expect("the server's URLs are URLs"),
        headers,
        body: Body::Empty,
        may_receive_credentials: true,
    };
    wire.send(request).await.map_err(|_| NotNow)
}

/// Checks rule 5 without clients. Two days later, sweeps until nothing is left to do, and compares
/// the counts.
pub(crate) fn sweep_and_count(directory: &Path, oracle: &Oracle) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("the system has what it takes");
    let store = match server::open(directory) {
        Ok(store) => store,
        Err(error) => return oracle.violate(format!("the store does not open: {error}")),
    };
    runtime.block_on(sweep(&store, oracle));
    drop((store, runtime));
    match count(directory) {
        Ok(findings) => findings
            .into_iter()
            .for_each(|what| oracle.violate(Rule::Store(what))),
        Err(error) => oracle.violate(format!("the ledger cannot be read: {error}")),
    }
}

async fn sweep(store: &LocalStore, oracle: &Oracle) {
    let since_epoch = now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let in_two_days = since_epoch + Duration::from_secs(2 * 24 * 60 * 60);
    let now = Timestamp::from_millis(0).saturating_add(in_two_days);
    let mut sweep = Sweep::new(SweepOptions::default());
    loop {
        match sweep.step(&store.ledger, &store.vault, now).await {
            Ok(swept) if swept.is_done => return,
            Ok(_) => {}
            Err(error) => return oracle.violate(format!("the sweep fails: {error}")),
        }
    }
}

/// Compares the rows of the ledger with the files of the vault.
fn count(directory: &Path) -> rusqlite::Result<Vec<String>> {
    let ledger = Connection::open(directory.join("ledger.sqlite"))?;
    let named = "SELECT media, offset FROM sessions WHERE place = 1
                 UNION ALL SELECT media, length FROM resources WHERE place = 1";
    let mut statement = ledger.prepare(named)?;
    let rows = statement.query_map([], |row| {
        Ok((
            MediaId::from_bytes(row.get(0)?).to_string(),
            row.get::<_, i64>(1)?,
        ))
    })?;
    let rows: Vec<(String, i64)> = rows.collect::<Result<_, _>>()?;
    let vault = directory.join("vault");
    let mut findings = Vec::new();
    for (id, len) in &rows {
        let path = vault.join(&id[..2]).join(&id[2..4]).join(id);
        let there = std::fs::metadata(path).map(|metadata| metadata.len());
        if there.is_ok_and(|there| there.cast_signed() >= *len) {
            continue;
        }
        findings.push(format!(
            "a row names media {id} of {len} bytes, which are not there"
        ));
    }
    let named: BTreeSet<&String> = rows.iter().map(|(id, _)| id).collect();
    let files = media_files(&vault).into_iter();
    for id in files.filter(|name| name != "identity") {
        if !named.contains(&id) {
            findings.push(format!("no row names media {id}"));
        }
    }
    note!("check    {} media", named.len());
    Ok(findings)
}

fn media_files(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found = BTreeSet::new();
    for entry in entries {
        if entry.path().is_dir() {
            found.extend(media_files(&entry.path()));
        } else {
            found.extend(entry.file_name().into_string().ok());
        }
    }
    found
}
