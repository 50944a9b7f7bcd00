use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn assert_in_use(journal: &Journal, id: &RecordId) {
    let error = journal.lock(id).unwrap_err();
    assert!(matches!(error, JournalError::InUse { .. }), "{error}");
    let error = journal.remove(id).unwrap_err();
    assert!(matches!(error, JournalError::InUse { .. }), "{error}");
}

#[test]
fn an_upload_is_held_once() {
    let (_above, journal) = journal();
    let other = Journal::open(journal.directory()).unwrap();
    let locked = journal.create(new_record()).unwrap();
    let id = locked.record().id.clone();
    assert_in_use(&journal, &id);
    assert_in_use(&other, &id);
    assert_eq!(records(&other).len(), 1);
    drop(locked);
    let locked = other.lock(&id).unwrap();
    assert_in_use(&journal, &id);
    drop(locked);
    journal.remove(&id).unwrap();
    assert!(files_of(&journal, &id).is_empty());
}

#[test]
fn an_upload_that_is_not_there_is_not_found_and_leaves_no_file() {
    let (_above, journal) = journal();
    let id = RecordId::random().unwrap();
    for error in [
        journal.lock(&id).unwrap_err(),
        journal.remove(&id).unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            format!("the journal has no unfinished upload {id}")
        );
    }
    assert!(files_of(&journal, &id).is_empty());
}

/// Names the journal for the process that the next test runs itself in.
const DIRECTORY: &str = "WINDLASS_TEST_JOURNAL";

#[test]
fn an_upload_that_another_process_holds_is_free_when_that_is_killed() {
    const NAME: &str = "an_upload_that_another_process_holds_is_free_when_that_is_killed";
    if let Some(directory) = env::var_os(DIRECTORY) {
        return hold_until_killed(directory.as_ref());
    }
    let (_above, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    let module = module_path!().split_once("::").unwrap().1;
    let mut other = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(format!("{module}::{NAME}"))
        .env(DIRECTORY, journal.directory())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "holding"));

    assert_in_use(&journal, &id);
    // It is looked at, and left alone, by a journal that is opened.
    Journal::open(journal.directory()).unwrap();
    assert_eq!(files_of(&journal, &id), ["json", "lock"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(journal.lock(&id).unwrap().record().id, id);
}

/// Holds the upload of a journal. Its input ends when the test does, also by failing.
fn hold_until_killed(directory: &Path) {
    let journal = Journal::open(directory).unwrap();
    let _held = journal.lock(&records(&journal)[0].id).unwrap();
    println!("\nholding");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Threads with journals of their own create, hold, finish and sweep as fast as they can: nothing is
/// held twice, and nothing fails or is left.
#[test]
fn who_finishes_and_who_waits_do_not_meet_in_one_upload() {
    const THREADS: usize = 4;
    let (_above, journal) = journal();
    for _ in 0..30 {
        let id = journal.create(new_record()).unwrap().record().id.clone();
        let (start, locked) = (Barrier::new(THREADS), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let journal = Journal::open(journal.directory()).unwrap();
                    start.wait();
                    loop {
                        match journal.lock(&id) {
                            Ok(upload) => {
                                locked.fetch_add(1, Ordering::SeqCst);
                                return upload.finish().unwrap();
                            }
                            Err(JournalError::InUse { .. }) => {}
                            Err(JournalError::NotFound { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
                scope.spawn(|| Journal::open(journal.directory()).unwrap());
                scope.spawn(|| journal.create(new_record()).unwrap().finish().unwrap());
            }
        });
        assert_eq!(locked.into_inner(), 1);
        assert_eq!(fs::read_dir(journal.directory()).unwrap().count(), 0);
    }
}
