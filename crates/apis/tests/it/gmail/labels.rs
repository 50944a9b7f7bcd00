use super::*;

async fn create(gmail: &Gmail, name: &str) -> String {
    id(&gmail.post("me/labels", &json!({"name": name})).await)
}

#[tokio::test]
async fn labels_of_the_system_are_always_there_and_cannot_be_changed() {
    let gmail = Gmail::new();
    let all = gmail.get("me/labels").await;
    let names: Vec<_> = all["labels"].as_array().unwrap().iter().map(id).collect();
    for label in [
        "INBOX",
        "SENT",
        "DRAFT",
        "SPAM",
        "TRASH",
        "UNREAD",
        "STARRED",
        "IMPORTANT",
    ] {
        assert!(names.contains(&label.to_owned()), "{label}");
    }
    assert_eq!(gmail.get("me/labels/INBOX").await["type"], "system");
    let refused = (400, "invalidArgument".to_owned());
    assert_eq!(gmail.delete("me/labels/INBOX").await.refused(), refused);
    let renamed = gmail
        .call("PATCH", "me/labels/INBOX", &json!({"name": "x"}))
        .await;
    assert_eq!(renamed.refused(), refused);
    let body = json!({"name": "inbox"});
    assert_eq!(
        gmail.call("POST", "me/labels", &body).await.refused().0,
        409
    );
}

#[tokio::test]
async fn a_label_is_made_shown_changed_and_deleted() {
    let gmail = Gmail::new();
    let color = json!({"backgroundColor": "#000000", "textColor": "#FFFFFF"});
    let body = json!({"name": "Farm/Hay", "color": color, "labelListVisibility": "labelHide"});
    let label = gmail.post("me/labels", &body).await;
    assert_eq!(label["name"], "Farm/Hay");
    assert_eq!(label["type"], "user");
    assert_eq!(label["labelListVisibility"], "labelHide");
    assert_eq!(label["messageListVisibility"], "show");
    let path = format!("me/labels/{}", id(&label));
    let patched = gmail
        .call("PATCH", &path, &json!({"name": "Farm/Straw"}))
        .await
        .resource();
    assert_eq!(
        patched["color"]["textColor"], "#ffffff",
        "a patch keeps what it does not name"
    );
    let body = json!({"id": id(&label), "name": "farm/straw", "messageListVisibility": "hide"});
    let updated = gmail.call("PUT", &path, &body).await.resource();
    assert!(updated.get("color").is_none(), "an update does not");
    assert_eq!(gmail.get(&path).await["messageListVisibility"], "hide");
    assert_eq!(
        create(&gmail, "Farm/Hay").await,
        "Label_2",
        "the old name is free"
    );
    gmail.delete(&path).await.resource();
    assert_eq!(
        gmail.try_get(&path).await.refused(),
        (404, "notFound".into())
    );
    assert_eq!(gmail.delete(&path).await.refused().0, 404);
}

#[tokio::test]
async fn names_that_a_search_cannot_tell_apart_are_duplicates() {
    let gmail = Gmail::new();
    create(&gmail, "Hay/Prices 2024").await;
    for name in ["hay/prices 2024", "Hay-Prices-2024"] {
        let refused = gmail
            .call("POST", "me/labels", &json!({"name": name}))
            .await;
        assert_eq!(refused.refused(), (409, "duplicate".into()), "{name}");
    }
    let other = create(&gmail, "other").await;
    let path = format!("me/labels/{other}");
    let refused = gmail
        .call("PATCH", &path, &json!({"name": "hay/PRICES 2024"}))
        .await;
    assert_eq!(refused.refused().0, 409);
    for bad in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "a//b"}),
        json!({"name": 1}),
    ] {
        assert_eq!(
            gmail.call("POST", "me/labels", &bad).await.refused().0,
            400,
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_label_counts_its_messages_and_threads() {
    let gmail = Gmail::new();
    let hay = create(&gmail, "hay").await;
    let first = id(&gmail
        .insert(&[&hay, "UNREAD"], &sample_message("one", "x"))
        .await);
    gmail.insert(&[&hay], &answer("one", 1)).await;
    gmail.insert(&[&hay], &sample_message("two", "x")).await;
    let counts = async || {
        let label = gmail.get(&format!("me/labels/{hay}")).await;
        let count = |name: &str| label[name].as_i64().expect("a number");
        [
            count("messagesTotal"),
            count("messagesUnread"),
            count("threadsTotal"),
            count("threadsUnread"),
        ]
    };
    assert_eq!(counts().await, [3, 1, 2, 1]);
    let read = json!({"removeLabelIds": ["UNREAD"]});
    gmail
        .post(&format!("me/messages/{first}/modify"), &read)
        .await;
    assert_eq!(counts().await, [3, 0, 2, 0]);
    gmail
        .delete(&format!("me/threads/{first}"))
        .await
        .resource();
    assert_eq!(counts().await, [1, 0, 1, 0]);
}

/// The number is limited because the rows that repeat the labels are not counted against a quota.
#[tokio::test]
async fn message_has_a_hundred_labels_of_its_user() {
    let gmail = Gmail::new();
    let mut labels = Vec::new();
    for n in 0..=100 {
        labels.push(create(&gmail, &format!("field {n}")).await);
    }
    let message = id(&gmail
        .insert(&["INBOX", &labels[0]], &sample_message("one", "x"))
        .await);
    let modify = format!("me/messages/{message}/modify");
    let add = |labels: &[String]| json!({ "addLabelIds": labels });
    gmail.post(&modify, &add(&labels[1..50])).await;
    gmail.post(&modify, &add(&labels[50..100])).await;
    let refused = gmail.call("POST", &modify, &add(&labels[100..])).await;
    assert_eq!(refused.refused(), (400, "invalidArgument".into()));
    let thread = format!("me/threads/{message}/modify");
    let refused = gmail.call("POST", &thread, &add(&labels[100..])).await;
    assert_eq!(refused.refused().0, 400);
    // At the limit, labels that the message already has and system labels may still be added.
    let more = json!({"addLabelIds": ["STARRED", labels[7]], "removeLabelIds": ["INBOX"]});
    gmail.post(&modify, &more).await;
    let trash = format!("me/messages/{message}/trash");
    gmail.post(&trash, &json!({})).await;
    gmail
        .post(&modify, &json!({"removeLabelIds": [labels[0]]}))
        .await;
    gmail.post(&modify, &add(&labels[100..])).await;
}

#[tokio::test]
async fn messages_lose_a_label_that_is_deleted() {
    let gmail = Gmail::new();
    let hay = create(&gmail, "hay").await;
    let message = id(&gmail
        .insert(&[&hay, "INBOX"], &sample_message("one", "x"))
        .await);
    gmail.delete(&format!("me/labels/{hay}")).await.resource();
    let path = format!("me/messages/{message}");
    assert_eq!(labels(&gmail.get(&path).await), ["INBOX"]);
    let again = create(&gmail, "hay").await;
    assert_ne!(again, hay, "ids are not used again");
    assert_eq!(gmail.list("q=label:hay").await, [""; 0]);
    let refused = gmail.try_get(&format!("me/messages?labelIds={hay}")).await;
    assert_eq!(refused.refused(), (400, "invalidArgument".into()));
    gmail
        .post(&format!("{path}/modify"), &json!({"addLabelIds": [again]}))
        .await;
    assert_eq!(gmail.list("q=label:hay").await, [message]);
}
