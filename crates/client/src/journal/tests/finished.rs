use super::*;
use crate::Upload;

const OTHER_URL: &str = "https://farm.example.com/upload/farm/v1/animals?key=another-key";

/// A file with these bytes, and its identity.
async fn file(directory: &TempDir, name: &str, bytes: &[u8]) -> SourceIdentity {
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    SourceIdentity::of(path).await.unwrap()
}

fn key(source: &SourceIdentity) -> UploadKey {
    key_at(URL, source)
}

fn key_at(url: &str, source: &SourceIdentity) -> UploadKey {
    let metadata = json!({"name": "Llama", "legs": 4});
    UploadKey::new(source, url, "POST", Some("image/jpeg"), Some(&metadata))
}

fn add(journal: &Journal, key: &UploadKey, source: &SourceIdentity) {
    let id = Some("17".to_owned());
    journal.add_finished(key, source.clone(), id, None).unwrap();
}

/// Returns the number of the finished uploads to `URL`.
fn count(journal: &Journal) -> usize {
    journal.finished_at(URL, "POST").unwrap().uploads.len()
}

/// Returns the only file of finished uploads.
fn only_file(journal: &Journal) -> PathBuf {
    let files = fs::read_dir(journal.directory()).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let [only] = files.collect::<Vec<_>>().try_into().unwrap();
    only
}

#[tokio::test]
async fn finished_uploads_are_found_by_their_key_alone() {
    let (directory, journal) = journal();
    let source = file(&directory, "llama.jpg", b"a llama").await;
    add(&journal, &key(&source), &source);
    let later = Journal::open(journal.directory()).unwrap();
    let finished = later.finished_at(URL, "POST").unwrap();
    let found = finished.find(&key(&source), &source).unwrap();
    assert_eq!(found.source, source);
    assert_eq!(found.resource_id.as_deref(), Some("17"));

    let metadata = json!({"legs": 4, "name": "Llama"});
    let same = UploadKey::new(&source, URL, "POST", Some("image/jpeg"), Some(&metadata));
    assert!(finished.find(&same, &source).is_some());
    for (content_type, metadata) in [(None, Some(&metadata)), (Some("image/jpeg"), None)] {
        let other = UploadKey::new(&source, URL, "POST", content_type, metadata);
        assert!(finished.find(&other, &source).is_none(), "{other:?}");
    }
    for (url, http_method) in [(OTHER_URL, "POST"), (URL, "PUT")] {
        let others = later.finished_at(url, http_method).unwrap();
        assert_eq!(others.uploads, []);
    }
}

#[tokio::test]
async fn file_that_has_changed_is_not_finished() {
    let (directory, journal) = journal();
    let source = file(&directory, "llama.jpg", b"a llama").await;
    add(&journal, &key(&source), &source);
    let changed = file(&directory, "llama.jpg", b"another llama").await;
    let finished = journal.finished_at(URL, "POST").unwrap();
    assert!(finished.find(&key(&changed), &changed).is_none());
    add(&journal, &key(&changed), &changed);
    let finished = journal.finished_at(URL, "POST").unwrap();
    assert!(finished.find(&key(&changed), &changed).is_some());
}

#[tokio::test]
async fn finished_uploads_are_forgotten_by_key_and_without_a_file() {
    let (directory, journal) = journal();
    let mut sources = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let source = file(&directory, name, name.as_bytes()).await;
        add(&journal, &key(&source), &source);
        sources.push(source);
    }
    add(&journal, &key_at(OTHER_URL, &sources[0]), &sources[0]);
    fs::remove_file(sources[3].path()).unwrap();
    journal
        .forget_finished(&[key(&sources[0]), key(&sources[1])])
        .unwrap();
    let finished = journal.finished_at(URL, "POST").unwrap();
    let [left] = finished.uploads.try_into().unwrap();
    assert_eq!(left.source, sources[2], "it is of another run");
    assert_eq!(
        journal
            .finished_at(OTHER_URL, "POST")
            .unwrap()
            .uploads
            .len(),
        1
    );
    // Later records are found as well.
    add(&journal, &key(&sources[0]), &sources[0]);
    assert_eq!(count(&journal), 2);
    let keys: Vec<_> = sources
        .iter()
        .flat_map(|source| [key(source), key_at(OTHER_URL, source)])
        .collect();
    journal.forget_finished(&keys).unwrap();
    assert_eq!(fs::read_dir(journal.directory()).unwrap().count(), 0);
}

#[tokio::test]
async fn run_does_not_forget_what_a_larger_run_has_finished() {
    let (directory, journal) = journal();
    let [larger, other] = [RunId::random().unwrap(), RunId::random().unwrap()];
    let mut sources = Vec::new();
    for (name, run) in [("a", larger), ("b", larger), ("c", other)] {
        let source = file(&directory, name, name.as_bytes()).await;
        let added = journal.add_finished(&key(&source), source.clone(), None, Some(run));
        added.unwrap();
        sources.push(source);
    }
    let [a, b, c] = [0, 1, 2].map(|index| key(&sources[index]));
    journal.forget_finished_run(&[a.clone(), c]).unwrap();
    assert_eq!(count(&journal), 2, "the run of c has ended whole");
    journal.forget_finished_run(&[a.clone(), b]).unwrap();
    assert_eq!(count(&journal), 0, "all of the larger run is named");
    // A file that is gone is not awaited.
    for source in &sources[..2] {
        let added = journal.add_finished(&key(source), source.clone(), None, Some(larger));
        added.unwrap();
    }
    fs::remove_file(sources[1].path()).unwrap();
    journal.forget_finished_run(&[a]).unwrap();
    assert_eq!(count(&journal), 0);
}

#[tokio::test]
async fn line_that_a_kill_has_torn_does_not_hide_others() {
    let (directory, journal) = journal();
    let first = file(&directory, "first", b"1").await;
    let second = file(&directory, "second", b"2").await;
    add(&journal, &key(&first), &first);
    let whole = fs::read(only_file(&journal)).unwrap();
    add(&journal, &key(&second), &second);
    let both = fs::read(only_file(&journal)).unwrap();
    let header = both.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for torn in 0..both.len() {
        fs::write(only_file(&journal), &both[..torn]).unwrap();
        let left = usize::from(torn >= whole.len());
        assert_eq!(count(&journal), left, "{torn}");
        add(&journal, &key(&second), &second);
        assert_eq!(count(&journal), left + 1, "{torn}");
    }
    // A line that is damaged otherwise counts as not there.
    let mut damaged = both.clone();
    damaged[header + 10] = 0;
    fs::write(only_file(&journal), damaged).unwrap();
    assert_eq!(count(&journal), 1);
}

#[tokio::test]
async fn file_of_finished_uploads_is_read_with_bounds() {
    let (directory, journal) = journal();
    let source = file(&directory, "llama.jpg", b"a llama").await;
    add(&journal, &key(&source), &source);
    let path = only_file(&journal);
    let good = fs::read(&path).unwrap();
    let damage = |content: &[u8], len: Option<u64>| {
        fs::write(&path, content).unwrap();
        if let Some(len) = len {
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(len)
                .unwrap();
        }
        match journal.finished_at(URL, "POST") {
            Err(JournalError::DamagedFinished { damage, .. }) => damage.to_string(),
            other => panic!("{other:?}"),
        }
    };
    // Holes take no room.
    assert!(damage(&good, Some(5 << 30)).contains("too long"));
    assert!(
        damage(b"", Some(1 << 20)).contains("too long"),
        "a line of zeros"
    );
    assert!(damage(b"{\"version\":2}\n", None).contains("version 2"));
    assert!(damage(b"nothing of ours\n", None).contains("line 1"));
    let other = good.clone();
    let other = String::from_utf8(other).unwrap().replace("a-key", "b-key");
    assert!(damage(other.as_bytes(), None).contains("another upload URL"));
    let (found, damaged) = journal.finished().unwrap();
    assert_eq!(
        (found.len(), damaged.len()),
        (1, 0),
        "it is good for the other URL"
    );
    journal.forget_all_finished().unwrap();
    assert_eq!(fs::read_dir(journal.directory()).unwrap().count(), 0);
}

#[tokio::test]
async fn file_of_finished_uploads_is_readable_by_its_owner_alone() {
    let (directory, journal) = journal();
    let source = file(&directory, "llama.jpg", b"a llama").await;
    add(&journal, &key(&source), &source);
    let path = only_file(&journal);
    let mode = || path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    add(&journal, &key(&source), &source);
    assert_eq!(mode(), 0o600);

    let another = Journal {
        user: journal.user + 1,
        ..journal.clone()
    };
    let error = another.finished_at(URL, "POST").unwrap_err();
    assert!(error.to_string().contains("another user"), "{error}");
    let added = another.add_finished(&key(&source), source.clone(), None, None);
    assert!(added.unwrap_err().to_string().contains("another user"));
}

#[test]
fn record_is_read_up_to_its_maximum_length() {
    let (_directory, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    let path = super::file(&journal, &id, "json");
    // Holes take no room.
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5 << 30)
        .unwrap();
    let entries = journal.entries().unwrap();
    let [Entry::Damaged { damage, .. }] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert!(matches!(damage, Damage::TooLong { .. }), "{damage:?}");
}

#[test]
fn record_that_could_not_be_read_is_not_written() {
    let (_directory, journal) = journal();
    let long = "x".repeat(5 << 20);
    let upload = Upload::new(URL.parse().unwrap()).unwrap();
    let upload = upload.metadata(&json!({"name": long})).unwrap();
    let new = upload.new_record(SESSION.parse().unwrap(), source("/home/jane/llama.jpg"));
    let error = journal.create(new).unwrap_err();
    assert!(
        matches!(error, JournalError::RecordTooLong { .. }),
        "{error:?}"
    );
}
