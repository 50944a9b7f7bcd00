//! Each parameter has the effect that its description promises: two values, two outcomes.

use super::*;

#[tokio::test]
async fn parameters_of_new_messages_have_an_effect() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "dry");
    for method in ["me/messages", "me/messages/import"] {
        let upload = async |query: &str| {
            let made = gmail
                .upload(&format!("{method}?{query}"), &raw)
                .await
                .resource();
            let kept = gmail.try_get(&format!("me/messages/{}", id(&made))).await;
            (text(&made["internalDate"]), kept.status.as_u16())
        };
        let by_arrival = upload("internalDateSource=receivedTime").await;
        let by_header = upload("internalDateSource=dateHeader").await;
        assert_ne!(by_arrival.0, by_header.0, "{method}");
        for (deleted, status) in [("false", 200), ("true", 404), ("True", 404), ("1", 404)] {
            let kept = upload(&format!("deleted={deleted}")).await.1;
            assert_eq!(kept, status, "{method} {deleted}");
        }
    }
}

#[tokio::test]
async fn format_selects_what_is_shown() {
    let gmail = Gmail::new();
    let message = gmail
        .insert(&["INBOX"], &sample_message("hay", "dry"))
        .await;
    let draft = json!({"message": {"raw": URL_SAFE.encode(sample_message("hay", "dry"))}});
    let draft = gmail.post("me/drafts", &draft).await;
    for (path, place) in [
        (format!("me/messages/{}", id(&message)), ""),
        (
            format!("me/threads/{}", text(&message["threadId"])),
            "/messages/0",
        ),
        (format!("me/drafts/{}", id(&draft)), "/message"),
    ] {
        let shown = async |query: &str| {
            let resource = gmail.get(&format!("{path}?{query}")).await;
            resource.pointer(place).cloned().unwrap_or_default()
        };
        let full = shown("format=full").await;
        assert!(
            full["payload"]["body"]["data"].is_string(),
            "{path}: {full}"
        );
        let minimal = shown("format=minimal").await;
        assert_eq!(minimal.get("payload"), None, "{path}");
        if place == "/message" {
            continue;
        }
        let names = async |headers: &str| {
            let shown = shown(&format!("format=metadata&{headers}")).await;
            let headers = shown["payload"]["headers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            headers
                .iter()
                .map(|it| text(&it["name"]))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names("metadataHeaders=Subject").await,
            ["Subject"],
            "{path}"
        );
        assert!(names("").await.len() > 1, "{path}");
    }
}

#[tokio::test]
async fn parameters_of_lists_have_an_effect() {
    let gmail = Gmail::new();
    for subject in ["hay", "straw"] {
        gmail
            .insert(&["INBOX"], &sample_message(subject, "x"))
            .await;
        let body = json!({"message": {"raw": URL_SAFE.encode(sample_message(subject, "x"))}});
        gmail.post("me/drafts", &body).await;
    }
    gmail.insert(&["SPAM"], &sample_message("spam", "x")).await;
    let gone = json!({"message": {"raw": URL_SAFE.encode("Subject: gone")}});
    let trashed = text(&gmail.post("me/drafts", &gone).await["message"]["id"]);
    gmail
        .post(&format!("me/messages/{trashed}/trash"), &json!({}))
        .await;
    for (path, field, all) in [
        ("me/messages", "messages", 4),
        ("me/threads", "threads", 4),
        ("me/drafts", "drafts", 2),
    ] {
        let count = async |query: &str| {
            let page = gmail.get(&format!("{path}?{query}")).await;
            page[field].as_array().map_or(0, Vec::len)
        };
        assert_eq!(count("").await, all, "{path}");
        assert_eq!(count("maxResults=1").await, 1, "{path}");
        assert_eq!(count("q=subject:straw").await, all / 2, "{path}");
        assert_eq!(count("includeSpamTrash=False").await, all, "{path}");
        assert!(count("includeSpamTrash=True").await > all, "{path}");
        let whole = gmail.all(path, field, "maxResults=1").await;
        assert_eq!(whole.len(), all, "{path}: pageToken leads on");
    }
    for path in ["messages", "threads"] {
        let listed = async |label: &str| {
            let query = format!("labelIds={label}");
            gmail.all(&format!("me/{path}"), path, &query).await.len()
        };
        assert_eq!(
            (listed("INBOX").await, listed("SPAM").await),
            (2, 1),
            "{path}"
        );
    }
}

#[tokio::test]
async fn parameters_of_history_have_an_effect() {
    let gmail = Gmail::new();
    let start = text(&gmail.get("me/profile").await["historyId"]);
    let message = id(&gmail
        .insert(&["INBOX"], &sample_message("hay", "dry"))
        .await);
    let middle = text(&gmail.get("me/profile").await["historyId"]);
    let body = json!({"addLabelIds": ["STARRED"]});
    gmail
        .post(&format!("me/messages/{message}/modify"), &body)
        .await;
    gmail.insert(&["SPAM"], &sample_message("spam", "x")).await;
    let count = async |start: &str, query: &str| {
        let uri = format!("me/history?startHistoryId={start}&{query}");
        let page = gmail.get(&uri).await;
        page["history"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(count(&start, "").await, 3);
    assert_eq!(count(&middle, "").await, 2);
    assert_eq!(count(&start, "maxResults=1").await, 1);
    assert_eq!(count(&start, "historyTypes=messageAdded").await, 2);
    assert_eq!(count(&start, "historyTypes=labelAdded").await, 1);
    assert_eq!(count(&start, "labelId=SPAM").await, 1);
    assert_eq!(count(&start, "labelId=TRASH").await, 0);
    let all = format!("startHistoryId={start}&maxResults=1");
    let all = gmail.all("me/history", "history", &all).await;
    assert_eq!(all.len(), 3, "pageToken leads on");
}

#[tokio::test]
async fn message_is_not_taken_with_a_promise_of_a_calendar() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "dry");
    for (value, status) in [("true", 501), ("false", 200)] {
        let path = format!("me/messages/import?processForCalendar={value}");
        assert_eq!(gmail.upload(&path, &raw).await.status, status, "{value}");
    }
    let never = gmail
        .upload("me/messages/import?neverMarkSpam=true", &raw)
        .await;
    never.resource();
}
