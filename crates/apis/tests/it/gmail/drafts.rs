use super::*;

fn raw(body: &str) -> String {
    format!("To: bob@windlass.localhost\r\nSubject: hay\r\n\r\n{body}\r\n")
}

async fn create(gmail: &Gmail, body: &str) -> Value {
    let body = json!({"message": {"raw": URL_SAFE.encode(raw(body))}});
    gmail.post("me/drafts", &body).await
}

#[tokio::test]
async fn a_draft_is_a_message_with_a_name_of_its_own() {
    let gmail = Gmail::new();
    let draft = create(&gmail, "dry").await;
    let message = &draft["message"];
    assert_eq!(labels(message), ["DRAFT"]);
    assert_eq!(
        gmail.raw(&id(message)).await,
        raw("dry"),
        "nothing is put in front"
    );
    let path = format!("me/drafts/{}", id(&draft));
    let shown = gmail.get(&format!("{path}?format=raw")).await;
    assert_eq!(shown["message"]["raw"], URL_SAFE.encode(raw("dry")));
    let uploaded = gmail.upload("me/drafts", &raw("wet")).await.resource();
    gmail.0.clock.advance(std::time::Duration::from_secs(1));
    let last = id(&create(&gmail, "damp").await);
    let drafts = gmail.all("me/drafts", "drafts", "maxResults=2").await;
    assert_eq!(drafts.len(), 3);
    assert_eq!(drafts[0], last, "newest first");
    let found = gmail.all("me/drafts", "drafts", "q=wet").await;
    assert_eq!(found, [id(&uploaded)]);
}

#[tokio::test]
async fn an_update_replaces_the_message_and_keeps_the_name() {
    let gmail = Gmail::new();
    let draft = create(&gmail, "dry").await;
    let path = format!("me/drafts/{}", id(&draft));
    let updated = gmail
        .upload_with("PUT", &path, &json!({}), &raw("wet"))
        .await
        .resource();
    assert_eq!(id(&updated), id(&draft));
    assert_ne!(updated["message"]["id"], draft["message"]["id"]);
    assert_eq!(gmail.list("").await, [id(&updated["message"])]);
    assert_eq!(gmail.raw(&id(&updated["message"])).await, raw("wet"));
    let unknown = gmail
        .upload_with("PUT", "me/drafts/r1", &json!({}), &raw("wet"))
        .await;
    assert_eq!(unknown.refused(), (404, "notFound".into()));
    gmail.delete(&path).await.resource();
    assert_eq!(gmail.list("").await, [""; 0]);
    assert_eq!(gmail.all("me/drafts", "drafts", "").await, [""; 0]);
}

#[tokio::test]
async fn sent_draft_is_deleted() {
    let gmail = Gmail::new();
    let draft = create(&gmail, "dry").await;
    let sent = gmail
        .post("me/drafts/send", &json!({"id": id(&draft)}))
        .await;
    assert_eq!(labels(&sent), ["SENT"]);
    assert!(gmail.raw(&id(&sent)).await.ends_with(&raw("dry")));
    assert_eq!(gmail.list("").await, [id(&sent)]);
    let bob = gmail
        .all("bob@windlass.localhost/messages", "messages", "")
        .await;
    assert_eq!(bob.len(), 1);
    let again = gmail
        .call("POST", "me/drafts/send", &json!({"id": id(&draft)}))
        .await;
    assert_eq!(again.refused(), (404, "notFound".into()));
}

#[tokio::test]
async fn media_that_comes_with_the_sending_replaces_that_of_the_draft() {
    let gmail = Gmail::new();
    let draft = create(&gmail, "dry").await;
    let fields = json!({"id": id(&draft)});
    let sent = gmail
        .upload_with("POST", "me/drafts/send", &fields, &raw("wet"))
        .await;
    assert!(
        gmail
            .raw(&id(&sent.resource()))
            .await
            .ends_with(&raw("wet"))
    );
    assert_eq!(gmail.list("").await.len(), 1);
    for body in [json!({}), json!({"id": 7}), json!({"message": 1})] {
        let refused = gmail.call("POST", "me/drafts/send", &body).await;
        assert_eq!(refused.refused().0, 400, "{body}");
    }
}

#[tokio::test]
async fn an_answer_that_was_drafted_stays_in_its_thread() {
    let gmail = Gmail::new();
    let first = gmail.insert(&[], &sample_message("hay", "?")).await;
    let fields = json!({"message": {"threadId": id(&first)}});
    let draft = gmail
        .upload_with("POST", "me/drafts", &fields, &answer("hay", 1))
        .await
        .resource();
    assert_eq!(draft["message"]["threadId"], first["id"]);
    let sent = gmail
        .post("me/drafts/send", &json!({"id": id(&draft)}))
        .await;
    assert_eq!(sent["threadId"], first["id"]);
}
