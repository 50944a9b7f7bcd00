use super::*;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn files_are_readable_by_their_owner_only() {
    let (directory, journal) = journal();
    let mut locked = journal.create(new_record()).unwrap();
    locked.set_committed(1).unwrap();
    let id = locked.record().id.clone();
    assert_eq!(mode(&directory.path().join("state")), 0o700);
    assert_eq!(mode(journal.directory()), 0o700);
    for extension in ["json", "lock", "offset"] {
        assert_eq!(mode(&file(&journal, &id, extension)), 0o600, "{extension}");
    }
}

#[test]
fn locking_makes_a_readable_record_private() {
    let (_directory, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    let path = file(&journal, &id, "json");
    set_mode(&path, 0o644);
    let _held = journal.lock(&id).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn directory_writable_by_others_is_refused_and_unchanged() {
    for (bits, refused) in [
        (0o700, false),
        (0o755, false),
        (0o775, true),
        (0o1777, true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        set_mode(directory.path(), bits);
        let opened = Journal::open(directory.path());
        assert_eq!(opened.is_err(), refused, "{bits:o}");
        if let Err(error) = opened {
            assert!(matches!(error, JournalError::WritableByOthers { mode, .. } if mode == bits));
        }
        assert_eq!(mode(directory.path()), bits);
    }
}

/// Returns another user than the user of the tests.
fn somebody_else() -> u32 {
    files::this_user() + 1
}

#[test]
fn directory_of_another_user_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = Journal::open_as(somebody_else(), directory.path().to_owned()).unwrap_err();
    let owner = files::this_user();
    assert_eq!(
        error.to_string(),
        format!(
            "the journal {} belongs to another user (uid {owner})",
            directory.path().display()
        )
    );
}

#[test]
fn record_of_another_user_is_not_used_and_can_be_removed() {
    let (_directory, ours) = journal();
    let record = ours.create(new_record()).unwrap().record().clone();
    let theirs = Journal {
        user: somebody_else(),
        ..ours
    };
    let owner = files::this_user();
    let entries = theirs.entries().unwrap();
    assert!(
        matches!(&entries[..], [Entry::Damaged { damage: Damage::OwnedByAnother { owner: found }, .. }] if *found == owner),
        "{entries:?}"
    );
    assert!(theirs.find(&record.key()).unwrap().is_empty());
    let error = theirs.lock(&record.id).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} cannot be used: it belongs to another user (uid {owner})",
            file(&theirs, &record.id, "json").display()
        )
    );
    theirs.remove(&record.id).unwrap();
    assert!(files_of(&theirs, &record.id).is_empty());
}

#[test]
fn links_and_special_files_are_not_followed() {
    let (dir, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(file(&journal, &id, "json"), &elsewhere).unwrap();
    let record = fs::read(&elsewhere).unwrap();

    std::os::unix::fs::symlink(&elsewhere, file(&journal, &id, "json")).unwrap();
    let entries = journal.entries().unwrap();
    assert!(
        matches!(entries[..], [Entry::Damaged { .. }]),
        "{entries:?}"
    );
    fs::remove_file(file(&journal, &id, "json")).unwrap();
    fs::create_dir(file(&journal, &id, "json")).unwrap();
    let entries = journal.entries().unwrap();
    assert!(
        matches!(entries[..], [Entry::Damaged { .. }]),
        "{entries:?}"
    );
    fs::remove_dir(file(&journal, &id, "json")).unwrap();

    fs::copy(&elsewhere, file(&journal, &id, "json")).unwrap();
    for extension in ["new", "lock"] {
        let path = file(&journal, &id, extension);
        fs::remove_file(&path).ok();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let session = "http://h/other".parse().unwrap();
        let written = journal.lock(&id).and_then(|mut it| it.new_session(session));
        assert!(written.is_err(), "{extension}");
        assert_eq!(fs::read(&elsewhere).unwrap(), record);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn debug_hides_secrets() {
    let (_directory, journal) = journal();
    let new = new_record();
    let mut shown = vec![format!("{new:?}")];
    let locked = journal.create(new).unwrap();
    shown.push(format!(
        "{locked:?} {:?} {:?}",
        locked.record().key(),
        journal.entries()
    ));
    let id = locked.record().id.clone();
    drop(locked);
    // Not even when they are the cause of the error.
    for (field, value) in [("total", SESSION), ("session", "gopher://a-secret")] {
        let before = fs::read(file(&journal, &id, "json")).unwrap();
        edit(&journal, &id, |record| record[field] = value.into());
        let error = journal.lock(&id).unwrap_err();
        shown.push(format!("{:?} {error:?} {error}", journal.entries()));
        fs::write(file(&journal, &id, "json"), before).unwrap();
    }
    let shown = shown.concat();
    for secret in ["a-secret", "a-key", "Llama"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("https://farm.example.com/upload/farm/v1/animals?.."));
}
