//! The files that a process leaves when it is killed between two steps.

use super::*;

/// Creates files without a lock, as a killed process leaves them.
fn left_behind(journal: &Journal, extensions: &[(&str, &str)]) -> RecordId {
    let id = RecordId::random().unwrap();
    for (extension, text) in extensions {
        fs::write(file(journal, &id, extension), text).unwrap();
    }
    id
}

const PROGRESS: &str = r#"{"committed":500,"touched":1700000000}"#;

#[test]
fn files_without_a_record_are_removed() {
    let (_directory, journal) = journal();
    let good = journal.create(new_record()).unwrap().record().clone();
    for left in [
        // Creating a record: locked; writing begun; written.
        &[("lock", "")][..],
        &[("lock", ""), ("new", "")],
        &[("lock", ""), ("new", "{\n  \"version\": 1,\n  \"url\"")],
        // Finishing: the record is removed; the progress is removed, too.
        &[("lock", ""), ("new", "{"), ("offset", PROGRESS)],
        &[("lock", ""), ("offset", PROGRESS)],
        // After a power failure: files that were not synced are damaged.
        &[("offset", ""), ("new", "\0\0\0\0\0\0\0\0")],
        &[("offset", "{\"comm\0\0\0"), ("new", "{\n  \"ver")],
        // From a journal that was restored from a backup.
        &[("offset", PROGRESS)],
        &[("new", PROGRESS)],
        // A newer windlass was killed.
        &[("new", "{\n  \"version\": 2,\n  \"more")],
    ] {
        let id = left_behind(&journal, left);
        assert_eq!(only_record(&journal), good);
        let error = journal.lock(&id).unwrap_err();
        assert!(matches!(error, JournalError::NotFound { .. }), "{error}");
        assert_eq!(files_of(&journal, &id).len(), left.len());
        Journal::open(journal.directory()).unwrap();
        assert!(files_of(&journal, &id).is_empty(), "{left:?}");
    }
    assert_eq!(only_record(&journal), good);
}

#[test]
fn files_of_other_programs_are_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    let files = [
        // A valid id, but another extension.
        ("composer.lock", "{}"),
        ("database.offset", "5000"),
        ("document.new", "Dear Jane,"),
        ("document.json", "{}"),
        ("composer.lock.upload", ""),
        ("composer.upload.lock.bak", ""),
        // Named like a file of the journal, but with other content.
        ("llamafur.upload.lock", "4711\n"),
        ("duckpond.upload.offset", "5000"),
        ("duckpond.upload.lock", ""),
        ("goatshed.upload.new", "{\"version\": 1}"),
    ];
    for (name, text) in files {
        fs::write(path(name), text).unwrap();
    }
    fs::create_dir(path("sheepfog.upload.new")).unwrap();
    std::os::unix::fs::symlink("composer.lock", path("linklink.upload.lock")).unwrap();

    let journal = Journal::open(directory.path()).unwrap();
    assert!(records(&journal).is_empty());
    journal.create(new_record()).unwrap().finish().unwrap();
    for (name, text) in files {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), text, "{name}");
    }
    assert!(path("sheepfog.upload.new").is_dir());
    assert!(path("linklink.upload.lock").is_symlink());
    let there = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(there, files.len() + 2);
}

#[test]
fn files_of_a_record_being_created_are_not_removed() {
    let (_directory, journal) = journal();
    let id = left_behind(&journal, &[("new", "{")]);
    let lock = journal.files(&id).take_lock().unwrap();
    Journal::open(journal.directory()).unwrap();
    assert_eq!(files_of(&journal, &id), ["lock", "new"]);
    drop(lock);
}

#[test]
fn upload_continues_whatever_other_files_are_left() {
    for left in [
        &[][..],
        &[("lock", "")],
        // Killed while writing a new session, or the progress.
        &[("lock", ""), ("new", r#"{"vers"#)],
        // Damaged by a power failure, because it was not synced.
        &[("lock", ""), ("offset", "")],
        &[("offset", "\0\0\0\0\0\0\0\0")],
        &[("offset", r#"{"committed": -1}"#)],
    ] {
        let (_directory, journal) = journal();
        let record = journal.create(new_record()).unwrap().record().clone();
        for extension in ["lock", "new", "offset"] {
            let _ = fs::remove_file(file(&journal, &record.id, extension));
        }
        for (extension, text) in left {
            fs::write(file(&journal, &record.id, extension), text).unwrap();
        }
        let journal = Journal::open(journal.directory()).unwrap();
        assert_eq!(only_record(&journal), record, "{left:?}");
        let mut locked = journal.lock(&record.id).unwrap();
        assert_eq!(*locked.record(), record);
        locked.set_committed(500).unwrap();
        assert_eq!(only_record(&journal).committed, 500);
        locked.new_session(SESSION.parse().unwrap()).unwrap();
        assert_eq!(only_record(&journal).committed, 0);
        locked.finish().unwrap();
        assert!(files_of(&journal, &record.id).is_empty());
    }
}

#[test]
fn progress_never_exceeds_the_total() {
    let (_directory, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    let text = r#"{"committed": 5000, "touched": 18446744073709551615}"#;
    fs::write(file(&journal, &id, "offset"), text).unwrap();
    assert_eq!(only_record(&journal).committed, 1000);
}

/// A child process inherits the descriptor for a moment.
#[test]
fn inherited_descriptor_does_not_hold_the_lock() {
    let (_directory, journal) = journal();
    let files = journal.files(&RecordId::random().unwrap());
    let lock = files.take_lock().unwrap().unwrap();
    let _copy = lock.file.try_clone().unwrap();
    assert!(files.take_lock().unwrap().is_none());
    drop(lock);
    assert!(files.take_lock().unwrap().is_some());
}

/// Another process's lock file may lose its name between open and lock.
#[test]
fn removed_lock_file_does_not_lock() {
    let (_directory, journal) = journal();
    let id = RecordId::random().unwrap();
    let files = journal.files(&id);
    let nameless = files.take_lock().unwrap().unwrap();
    fs::remove_file(file(&journal, &id, "lock")).unwrap();
    let lock = files.take_lock().unwrap();
    assert!(lock.is_some());
    assert!(files.take_lock().unwrap().is_none());
    drop(nameless);
    assert!(files.take_lock().unwrap().is_none());
}
