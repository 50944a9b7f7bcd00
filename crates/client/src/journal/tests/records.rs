use super::*;
use crate::{HttpMethod, Kind, Protocol, Upload};

#[test]
fn record_survives_the_process() {
    let (_directory, journal) = journal();
    let locked = journal.create(new_record()).unwrap();
    let record = locked.record().clone();
    drop(locked);

    let later = Journal::open(journal.directory()).unwrap();
    assert_eq!(only_record(&later), record);
    assert_eq!(record.url, URL);
    assert_eq!(record.session.reveal(), SESSION);
    assert_eq!(record.metadata, new_record().metadata);
    assert_eq!(record.source, new_record().source);
    assert_eq!((record.total, record.committed), (1000, 0));
    assert_eq!(later.lock(&record.id).unwrap().record(), &record);
}

#[test]
fn absent_fields_stay_absent() {
    let (_directory, journal) = journal();
    let new = NewRecord {
        content_type: None,
        metadata: None,
        chunk_size: Some(262_144),
        ..new_record()
    };
    let id = journal.create(new).unwrap().record().id.clone();
    let record = only_record(&journal);
    assert_eq!(record.id, id);
    assert_eq!(record.content_type, None);
    assert_eq!(record.metadata, None);
    assert_eq!(record.chunk_size, Some(262_144));
}

#[tokio::test(start_paused = true)]
async fn progress_is_written_at_most_once_per_second() {
    let (_directory, journal) = journal();
    let mut locked = journal.create(new_record()).unwrap();
    let written = || only_record(&journal).committed;

    locked.set_committed(100).unwrap();
    assert_eq!(written(), 100);
    locked.set_committed(200).unwrap();
    assert_eq!((locked.record().committed, written()), (200, 100));
    tokio::time::advance(Duration::from_secs(1)).await;
    locked.set_committed(300).unwrap();
    assert_eq!(written(), 300);
    locked.set_committed(400).unwrap();
    locked.write_progress().unwrap();
    assert_eq!(written(), 400);
    locked.new_session(SESSION.parse().unwrap()).unwrap();
    assert_eq!(written(), 0);
    locked.set_committed(100).unwrap();
    assert_eq!(written(), 0);
    tokio::time::advance(Duration::from_secs(1)).await;
    locked.set_committed(200).unwrap();
    assert_eq!(written(), 200);
    assert_eq!(
        journal
            .lock(&locked.record().id.clone())
            .unwrap_err()
            .to_string(),
        format!(
            "another process is working on the upload {}",
            locked.record().id
        )
    );
}

#[test]
fn new_session_starts_at_zero_bytes() {
    let (_directory, journal) = journal();
    let locked = journal.create(new_record()).unwrap();
    let id = locked.record().id.clone();
    drop(locked);
    edit(&journal, &id, |record| {
        record["started"] = json!(1_700_000_000);
    });
    let mut locked = journal.lock(&id).unwrap();
    locked.set_committed(700).unwrap();
    let another: SessionUri = "http://127.0.0.1:8080/up?upload_id=2".parse().unwrap();
    locked.new_session(another.clone()).unwrap();
    let record = only_record(&journal);
    assert_eq!(record, *locked.record());
    assert_eq!((record.session, record.committed), (another, 0));
}

#[test]
fn finished_upload_leaves_no_files() {
    let (_directory, journal) = journal();
    let mut locked = journal.create(new_record()).unwrap();
    locked.set_committed(1000).unwrap();
    locked.finish().unwrap();
    assert_eq!(fs::read_dir(journal.directory()).unwrap().count(), 0);
}

#[test]
fn entries_are_sorted_by_start() {
    let (_directory, journal) = journal();
    let ids = [30_u64, 10, 20].map(|started| {
        let id = journal.create(new_record()).unwrap().record().id.clone();
        edit(&journal, &id, |record| record["started"] = started.into());
        id
    });
    let found: Vec<_> = records(&journal)
        .into_iter()
        .map(|record| record.id)
        .collect();
    assert_eq!(found, [&ids[1], &ids[2], &ids[0]].map(Clone::clone));
}

#[test]
fn unreadable_record_does_not_hide_others() {
    let (_directory, journal) = journal();
    let good = journal.create(new_record()).unwrap().record().clone();
    let write_file =
        |name: &str, text: &str| fs::write(journal.directory().join(name), text).unwrap();
    // Files that do not belong to the journal.
    for name in [
        "README",
        "notes.json",
        "mzxw6ytb.json",
        "mzxw6ytb.upload.txt",
        "MZXW6YTB.upload.json",
        "mzxw6ytb.upload.json.bak",
    ] {
        write_file(name, "{");
    }
    for (name, text, damage) in [
        (
            "aaaaaaaa",
            "",
            "it is not the record of an upload (line 1, column 0)",
        ),
        (
            "aaaaaaab",
            "{}",
            "it is not the record of an upload (line 1, column 2)",
        ),
        (
            "aaaaaaac",
            r#"{"version": 1, "url": 7}"#,
            "it is not the record of an upload (line 1, column 23)",
        ),
        (
            "aaaaaaad",
            r#"{"version": 3, "anything": ["else"]}"#,
            "it has version 3, but this windlass supports versions up to 2; use the windlass that wrote it",
        ),
    ] {
        write_file(&format!("{name}.upload.json"), text);
        let entries = journal.entries().unwrap();
        let [
            Entry::Unfinished(record),
            Entry::Damaged {
                id,
                path,
                damage: found,
            },
        ] = &entries[..]
        else {
            panic!("{entries:?}");
        };
        assert_eq!(**record, good);
        assert_eq!(id.to_string(), name);
        assert_eq!(*path, file(&journal, id, "json"));
        assert_eq!(found.to_string(), damage);
        let error = journal.lock(id).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} cannot be used: {damage}", path.display())
        );
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn session_with_another_scheme_is_refused() {
    let (_directory, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    edit(&journal, &id, |record| {
        record["session"] = "file:///etc/passwd".into();
    });
    let error = journal.lock(&id).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a session URI must begin with http:// or https://")
    );
}

#[test]
fn unknown_fields_are_ignored() {
    let (_directory, journal) = journal();
    let record = journal.create(new_record()).unwrap().record().clone();
    edit(&journal, &record.id, |written| {
        written["later"] = json!([1, 2]);
    });
    assert_eq!(only_record(&journal), record);
}

#[test]
fn record_of_another_protocol_states_it_in_its_own_version() {
    let (_directory, journal) = journal();
    let text = |id: &RecordId| -> Value {
        serde_json::from_slice(&fs::read(file(&journal, id, "json")).unwrap()).unwrap()
    };
    let google = journal.create(new_record()).unwrap().record().id.clone();
    let record = text(&google);
    // An older windlass reads it as well.
    assert_eq!(
        (&record["version"], record.get("protocol")),
        (&json!(1), None)
    );
    journal.remove(&google).unwrap();
    for protocol in [Protocol::XGoogUpload, Protocol::Tus, Protocol::Ietf] {
        let mut new = new_record();
        new.session = new.session.with_protocol(protocol);
        let id = journal.create(new).unwrap().record().id.clone();
        let record = text(&id);
        assert_eq!(record["version"], 2);
        assert_eq!(record["protocol"], protocol.as_str());
        assert_eq!(only_record(&journal).session.protocol(), protocol);
        edit(&journal, &id, |record| {
            record["protocol"] = json!("carrier-pigeon");
        });
        let entries = journal.entries().unwrap();
        assert!(matches!(
            entries[..],
            [Entry::Damaged {
                damage: Damage::Format { .. },
                ..
            }]
        ));
        journal.remove(&id).unwrap();
    }
}

#[test]
fn damaged_record_can_be_removed_unless_of_another_version() {
    let (_directory, journal) = journal();
    let [damaged, newer] = [json!({}), json!({"version": 3})].map(|text| {
        let id = journal.create(new_record()).unwrap().record().id.clone();
        edit(&journal, &id, |record| *record = text);
        id
    });
    journal.remove(&damaged).unwrap();
    assert!(files_of(&journal, &damaged).is_empty());
    let error = journal.remove(&newer).unwrap_err();
    assert!(matches!(
        error,
        JournalError::Damaged {
            damage: Damage::Version { found: 3, known: 2 },
            ..
        }
    ));
    Journal::open(journal.directory()).unwrap();
    assert_eq!(files_of(&journal, &newer), ["json", "lock"]);
}

#[test]
fn written_id_parses_to_itself() {
    for _ in 0..100 {
        let id = RecordId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    for text in [
        "",
        "mzxw6yt",
        "mzxw6ytbb",
        "MZXW6YTB",
        "mzxw6yt1",
        "../../ab",
        "mzxw6yt\u{e4}",
    ] {
        assert_eq!(text.parse::<RecordId>(), Err(InvalidRecordId), "{text}");
    }
}

#[test]
fn default_directory_belongs_to_the_user() {
    for (xdg, home, expected) in [
        (Some("/state"), Some("/home/jane"), Some("/state")),
        (
            Some("relative"),
            Some("/home/jane"),
            Some("/home/jane/.local/state"),
        ),
        (
            Some(""),
            Some("/home/jane"),
            Some("/home/jane/.local/state"),
        ),
        (None, Some("/home/jane"), Some("/home/jane/.local/state")),
        (None, Some(""), None),
        (None, None, None),
    ] {
        let found = state_directory(xdg.map(OsString::from), home.map(PathBuf::from));
        assert_eq!(found, expected.map(PathBuf::from));
    }
}

#[test]
fn record_with_an_invalid_http_method_describes_no_upload() {
    let (_directory, journal) = journal();
    let table = [
        ("POST", Some(HttpMethod::Post)),
        ("patch", Some(HttpMethod::Patch)),
        ("DELETE", None),
        ("", None),
    ];
    for (http_method, expected) in table {
        let mut new = new_record();
        new.http_method = http_method.to_owned();
        let locked = journal.create(new).unwrap();
        let described = Upload::of_record(locked.record());
        match expected {
            Some(expected) => assert_eq!(described.unwrap().http_method, expected),
            None => assert_eq!(described.unwrap_err().kind(), Kind::Usage, "{http_method}"),
        }
    }
}
