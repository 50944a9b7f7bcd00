//! Uploads that are one of several of a run.

use tempfile::TempDir;

use super::*;

struct Desk {
    directory: TempDir,
    journal: Journal,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        let journal = Journal::open(directory.path().join("journal")).expect("there is room");
        std::fs::write(directory.path().join("llama.jpg"), "Llama").expect("there is room");
        Self { directory, journal }
    }

    fn upload(&self) -> Upload {
        let url = "http://h/upload/farm/v1/animals?key=k";
        let upload = Upload::new(url.parse().expect("it is a URL")).expect("it is http");
        upload.journal(self.journal.clone()).one_of_several()
    }

    async fn run(&self, script: &Arc<Script>, upload: Upload) -> Result<Uploaded, Error> {
        let client = Client::with_transport(script.clone(), None);
        let source = Source::path(self.directory.path().join("llama.jpg"));
        client.upload(upload, source).await
    }

    /// Returns the resource ids of the finished uploads of the file.
    fn finished(&self) -> Vec<Option<String>> {
        let finished = self
            .journal
            .finished_at("http://h/upload/farm/v1/animals?key=k", "POST");
        let finished = finished.expect("it can be read");
        finished
            .uploads
            .into_iter()
            .map(|upload| upload.resource_id)
            .collect()
    }

    fn unfinished(&self) -> usize {
        self.journal.entries().expect("it can be read").len()
    }
}

#[tokio::test]
async fn small_file_of_a_run_is_recorded_before_its_media_and_after_it() {
    let desk = Desk::new();
    let script = Script::new([started(), finished(r#"{"id": 17}"#)]);
    let journal = desk.journal.clone();
    script.before_the_last(move || {
        let entries = journal.entries().expect("it can be read");
        assert_eq!(entries.len(), 1, "the journal comes before the media");
        let finished = journal.finished().expect("it can be read");
        assert!(finished.0.is_empty());
    });
    let uploaded = desk.run(&script, desk.upload()).await.expect("it is up");
    assert_eq!(uploaded.upload_type, UploadType::Resumable);
    assert_eq!(desk.finished(), [Some("17".to_owned())]);
    assert_eq!(desk.unfinished(), 0);
}

#[tokio::test]
async fn chosen_upload_type_of_a_run_is_kept_and_recorded_as_well() {
    let desk = Desk::new();
    let script = Script::new([finished(r#"{"name": "llama"}"#)]);
    let upload = desk.upload().upload_type(UploadType::Media);
    desk.run(&script, upload).await.expect("it is up");
    assert_eq!(desk.finished(), [Some("llama".to_owned())]);
}

#[tokio::test]
async fn upload_that_failed_is_not_recorded_as_finished() {
    let desk = Desk::new();
    let script = Script::new([started(), replies(400)]);
    desk.run(&script, desk.upload())
        .await
        .expect_err("it is refused");
    assert_eq!(desk.finished(), []);
}

#[tokio::test]
async fn upload_that_is_no_part_of_a_run_is_forgotten_at_its_end() {
    let desk = Desk::new();
    let script = Script::new([started(), finished("{}")]);
    let upload = Upload::new(
        "http://h/upload/farm/v1/animals?key=k"
            .parse()
            .expect("a URL"),
    );
    let upload = upload.expect("it is http").journal(desk.journal.clone());
    let upload = upload.upload_type(UploadType::Resumable);
    desk.run(&script, upload).await.expect("it is up");
    assert_eq!(desk.finished(), []);
}

#[tokio::test]
async fn resumed_upload_of_a_run_is_recorded_as_finished() {
    let desk = Desk::new();
    let script = Script::new([started(), replies(503)]);
    let mut policy = crate::RetryPolicy::default();
    policy.schedule = policy.schedule.with_waits(0);
    let upload = desk.upload().retry_policy(policy);
    let error = desk.run(&script, upload).await.expect_err("it is busy");
    let id = error.upload().expect("it can be continued").clone();

    let script = Script::new([finished(r#"{"id": "17"}"#)]);
    let client = Client::with_transport(script, None);
    let locked = desk.journal.lock(&id).expect("it is free");
    let upload = Upload::of_record(locked.record()).expect("it is right");
    client.resume(upload, locked).await.expect("it is up");
    assert_eq!(desk.finished(), [Some("17".to_owned())]);
    assert_eq!(desk.unfinished(), 0);
}
