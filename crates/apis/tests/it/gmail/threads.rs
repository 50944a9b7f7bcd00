use super::*;

fn thread(message: &Value) -> String {
    text(&message["threadId"])
}

#[tokio::test]
async fn an_answer_is_in_the_thread_of_what_it_answers() {
    let gmail = Gmail::new();
    let first = gmail
        .insert(&["INBOX"], &sample_message("hay prices", "?"))
        .await;
    let second = gmail
        .insert(&["INBOX", "UNREAD"], &answer("hay prices", 1))
        .await;
    assert_eq!(thread(&second), id(&first));
    let other_subject = answer("hay prices", 2).replace("Re: hay prices", "straw");
    let other = gmail.insert(&[], &other_subject).await;
    assert_eq!(
        thread(&other),
        id(&other),
        "another subject, another thread"
    );
    let shown = gmail.get(&format!("me/threads/{}", id(&first))).await;
    let messages: Vec<_> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(id)
        .collect();
    assert_eq!(messages, [id(&first), id(&second)], "oldest first");
    assert!(
        shown["messages"][0]["payload"]["body"]
            .get("data")
            .is_some()
    );
    assert_eq!(shown["historyId"], second["historyId"]);
}

#[tokio::test]
async fn an_answer_to_what_is_deleted_begins_a_thread() {
    let gmail = Gmail::new();
    let first = gmail.insert(&[], &sample_message("hay", "?")).await;
    gmail
        .delete(&format!("me/messages/{}", id(&first)))
        .await
        .resource();
    let next = gmail.insert(&[], &answer("hay", 1)).await;
    assert_eq!(thread(&next), id(&next));
}

#[tokio::test]
async fn a_wanted_thread_takes_a_message_that_answers_it_and_no_other() {
    let gmail = Gmail::new();
    let first = gmail.insert(&[], &sample_message("hay", "?")).await;
    let wanted = json!({"threadId": id(&first)});
    let insert = async |raw: String| {
        gmail
            .upload_with("POST", "me/messages", &wanted, &raw)
            .await
            .resource()
    };
    assert_eq!(thread(&insert(answer("hay", 1)).await), id(&first));
    let other_subject = insert(answer("hay", 2).replace("Re: hay", "straw")).await;
    assert_eq!(thread(&other_subject), id(&other_subject));
    let no_answer = insert(sample_message("hay", "again").replace("<hay@", "<new@")).await;
    assert_eq!(thread(&no_answer), id(&no_answer));
    let unknown = json!({"threadId": "00000000000000ff"});
    let refused = gmail
        .upload_with("POST", "me/messages/send", &unknown, &answer("hay", 3))
        .await;
    assert_eq!(refused.refused(), (404, "notFound".into()));
}

#[tokio::test]
async fn threads_are_listed_once_and_where_their_newest_match_is() {
    let gmail = Gmail::new();
    let one = id(&gmail.insert(&["INBOX"], &sample_message("one", "?")).await);
    gmail.0.clock.advance(std::time::Duration::from_secs(1));
    let two = id(&gmail.insert(&["INBOX"], &sample_message("two", "?")).await);
    gmail.0.clock.advance(std::time::Duration::from_secs(1));
    gmail.insert(&["STARRED"], &answer("one", 1)).await;
    for page in 1..=3 {
        let all = gmail
            .all("me/threads", "threads", &format!("maxResults={page}"))
            .await;
        assert_eq!(all, [one.clone(), two.clone()], "{page} a page");
    }
    let inbox = gmail.all("me/threads", "threads", "labelIds=INBOX").await;
    assert_eq!(inbox, [two, one.clone()]);
    assert_eq!(
        gmail.all("me/threads", "threads", "q=from:bob").await,
        [one]
    );
}

#[tokio::test]
async fn changes_of_thread_apply_to_all_its_messages() {
    let gmail = Gmail::new();
    let first = id(&gmail
        .insert(&["INBOX", "UNREAD"], &sample_message("hay", "?"))
        .await);
    let second = id(&gmail.insert(&["INBOX", "UNREAD"], &answer("hay", 1)).await);
    let body = json!({"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]});
    let changed = gmail
        .post(&format!("me/threads/{first}/modify"), &body)
        .await;
    for message in changed["messages"].as_array().unwrap() {
        assert_eq!(labels(message), ["INBOX", "STARRED"]);
    }
    gmail
        .post(&format!("me/threads/{first}/trash"), &json!({}))
        .await;
    assert_eq!(gmail.list("").await, [""; 0]);
    assert_eq!(gmail.list("includeSpamTrash=true").await.len(), 2);
    gmail
        .post(&format!("me/threads/{first}/untrash"), &json!({}))
        .await;
    assert_eq!(gmail.list("").await.len(), 2);
    gmail
        .delete(&format!("me/messages/{first}"))
        .await
        .resource();
    let left = gmail.get(&format!("me/threads/{first}")).await;
    assert_eq!(id(&left["messages"][0]), second);
    gmail
        .delete(&format!("me/threads/{first}"))
        .await
        .resource();
    assert_eq!(
        gmail
            .try_get(&format!("me/threads/{first}"))
            .await
            .refused()
            .0,
        404
    );
    assert_eq!(gmail.list("includeSpamTrash=true").await, [""; 0]);
}

#[tokio::test]
async fn a_thread_that_is_too_large_for_one_reply_is_shown_without_its_text() {
    let gmail = Gmail::new();
    let pad = "hay ".repeat(250_000);
    let first = gmail.insert(&[], &sample_message("hay", &pad)).await;
    for number in 1..27 {
        gmail.insert(&[], &(answer("hay", number) + &pad)).await;
    }
    let path = format!("me/threads/{}", id(&first));
    let refused = gmail.try_get(&path).await.refused();
    assert_eq!(refused, (400, "failedPrecondition".into()));
    let shown = gmail.get(&format!("{path}?format=metadata")).await;
    assert_eq!(shown["messages"].as_array().unwrap().len(), 27);
}

#[tokio::test]
async fn thread_of_a_hundred_messages_is_full() {
    let gmail = Gmail::new();
    let first = gmail.insert(&[], &sample_message("hay", "?")).await;
    for number in 1..100 {
        let next = gmail.insert(&[], &answer("hay", number)).await;
        assert_eq!(thread(&next), id(&first));
    }
    let next = gmail.insert(&[], &answer("hay", 100)).await;
    assert_eq!(thread(&next), id(&next));
}
