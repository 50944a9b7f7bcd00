use super::*;

#[test]
fn only_the_same_upload_is_found() {
    let (_directory, journal) = journal();
    let id = journal.create(new_record()).unwrap().record().id.clone();
    let found = |new: &NewRecord| {
        let key = UploadKey::new(
            &new.source,
            &new.url,
            &new.http_method,
            new.content_type.as_deref(),
            new.metadata.as_ref(),
        );
        let found = journal.find(&key).unwrap();
        found
            .into_iter()
            .map(|record| record.id)
            .collect::<Vec<_>>()
    };
    let same: [fn(&mut NewRecord); 4] = [
        |_| {},
        |new| new.metadata = Some(json!({"legs": 4, "name": "Llama"})),
        |new| new.session = "https://farm.example.com/another".parse().unwrap(),
        |new| new.chunk_size = Some(262_144),
    ];
    for change in same {
        let mut new = new_record();
        change(&mut new);
        assert_eq!(found(&new), std::slice::from_ref(&id), "{new:?}");
    }
    let others: [fn(&mut NewRecord); 6] = [
        |new| new.source = source("/home/jane/other.jpg"),
        |new| new.url = URL.replace("a-key", "another-key"),
        |new| new.http_method = "PUT".to_owned(),
        |new| new.content_type = None,
        |new| new.metadata = None,
        |new| new.metadata = Some(json!({"name": "Llama"})),
    ];
    for change in others {
        let mut new = new_record();
        change(&mut new);
        assert!(found(&new).is_empty(), "{new:?}");
    }
}

#[test]
fn upload_of_a_changed_file_is_found() {
    let (_directory, journal) = journal();
    let locked = journal.create(new_record()).unwrap();
    let mut now = serde_json::to_value(source("/home/jane/llama.jpg")).unwrap();
    now["file"]["size"] = 999.into();
    let now: SourceIdentity = serde_json::from_value(now).unwrap();
    let record = locked.record();
    let key = UploadKey::new(
        &now,
        URL,
        "POST",
        record.content_type.as_deref(),
        record.metadata.as_ref(),
    );
    assert_eq!(journal.find(&key).unwrap(), std::slice::from_ref(record));
}

#[test]
fn find_takes_no_lock_and_writes_nothing() {
    let (_directory, journal) = journal();
    let free = journal.create(new_record()).unwrap().record().clone();
    fs::remove_file(file(&journal, &free.id, "lock")).unwrap();
    let locked = journal.create(new_record()).unwrap();
    let before = journal.directory().metadata().unwrap().modified().unwrap();
    assert_eq!(journal.find(&free.key()).unwrap().len(), 2);
    let after = journal.directory().metadata().unwrap().modified().unwrap();
    assert_eq!(before, after);
    assert_eq!(files_of(&journal, &free.id), ["json"]);
    drop(locked);
}

#[test]
fn found_upload_has_its_progress() {
    let (_directory, journal) = journal();
    let mut locked = journal.create(new_record()).unwrap();
    locked.set_committed(700).unwrap();
    assert_eq!(
        journal.find(&locked.record().key()).unwrap(),
        [locked.record().clone()]
    );
}

#[test]
fn upload_is_found_among_a_thousand() {
    let (_directory, journal) = journal();
    let record = journal.create(new_record()).unwrap().record().clone();
    let text = fs::read(file(&journal, &record.id, "json")).unwrap();
    for _ in 1..1000 {
        let id = RecordId::random().unwrap();
        fs::write(file(&journal, &id, "json"), &text).unwrap();
        edit(&journal, &id, |record| {
            record["url"] = "https://x.test".into();
        });
    }
    assert_eq!(journal.find(&record.key()).unwrap().len(), 1);
}

#[test]
fn all_uploads_of_the_same_key_are_found_oldest_first() {
    let (_directory, journal) = journal();
    let ids = [20_u64, 10].map(|started| {
        let id = journal.create(new_record()).unwrap().record().id.clone();
        edit(&journal, &id, |record| record["started"] = started.into());
        id
    });
    let key = records(&journal)[0].key();
    let found: Vec<_> = journal
        .find(&key)
        .unwrap()
        .into_iter()
        .map(|record| record.id)
        .collect();
    assert_eq!(found, [ids[1].clone(), ids[0].clone()]);
}
