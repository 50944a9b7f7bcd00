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
fn upload_is_locked_once() {
    let (_directory, journal) = journal();
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
fn lock_of_a_missing_upload_fails_and_leaves_no_file() {
    let (_directory, journal) = journal();
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

/// Environment variable with the directory of the journal. It is set only in the child process, in
/// which the next test runs a second time.
const DIRECTORY: &str = "WINDLASS_TEST_JOURNAL";

#[test]
fn lock_is_released_when_its_process_is_killed() {
    const NAME: &str = "lock_is_released_when_its_process_is_killed";
    if let Some(directory) = env::var_os(DIRECTORY) {
        return hold_until_killed(directory.as_ref());
    }
    let (_directory, journal) = journal();
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
    // Opening a journal must leave the locked upload alone.
    Journal::open(journal.directory()).unwrap();
    assert_eq!(files_of(&journal, &id), ["json", "lock"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(journal.lock(&id).unwrap().record().id, id);
}

/// Locks the upload of a journal until standard input ends, which it does when the test ends or
/// fails.
fn hold_until_killed(directory: &Path) {
    let journal = Journal::open(directory).unwrap();
    let _held = journal.lock(&records(&journal)[0].id).unwrap();
    println!("\nholding");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Threads with separate journals create, lock, finish and sweep concurrently: no upload is locked
/// twice, no call fails, and no file is left.
#[test]
fn concurrent_lock_and_finish_never_share_an_upload() {
    const THREADS: usize = 4;
    let (_directory, journal) = journal();
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
