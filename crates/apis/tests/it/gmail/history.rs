use std::time::Duration;

use super::*;

async fn since(gmail: &Gmail, start: &Value, query: &str) -> Vec<Value> {
    let uri = format!("me/history?startHistoryId={}&{query}", text(start));
    let page = gmail.get(&uri).await;
    page["history"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn history_lists_events_in_order() {
    let gmail = Gmail::new();
    let start = gmail.get("me/profile").await["historyId"].clone();
    let message = id(&gmail
        .insert(&["INBOX"], &sample_message("hay", "dry"))
        .await);
    let path = format!("me/messages/{message}");
    let body = json!({"addLabelIds": ["STARRED"], "removeLabelIds": ["INBOX"]});
    let changed = gmail.post(&format!("{path}/modify"), &body).await;
    gmail.post(&format!("{path}/modify"), &body).await;
    gmail.delete(&path).await.resource();
    let all = since(&gmail, &start, "").await;
    let kinds = [
        "messagesAdded",
        "labelsAdded",
        "labelsRemoved",
        "messagesDeleted",
    ];
    assert_eq!(
        all.len(),
        kinds.len(),
        "what changes nothing leaves no trace: {all:?}"
    );
    for (record, kind) in all.iter().zip(kinds) {
        assert_eq!(
            record[kind][0]["message"]["id"],
            message.as_str(),
            "{record}"
        );
    }
    assert_eq!(all[1]["labelsAdded"][0]["labelIds"], json!(["STARRED"]));
    assert_eq!(all[2]["id"], changed["historyId"]);
    let later = since(&gmail, &changed["historyId"], "").await;
    assert_eq!(later, all[3..]);
    let ids: Vec<u64> = all
        .iter()
        .map(|it| text(&it["id"]).parse().unwrap())
        .collect();
    assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
}

#[tokio::test]
async fn history_is_filtered_and_comes_in_pages() {
    let gmail = Gmail::new();
    let start = gmail.get("me/profile").await["historyId"].clone();
    for number in 0..5 {
        let label = if number % 2 == 0 { "INBOX" } else { "SPAM" };
        let message = gmail
            .insert(&[label], &sample_message(&number.to_string(), "x"))
            .await;
        let body = json!({"addLabelIds": ["STARRED"]});
        gmail
            .post(&format!("me/messages/{}/modify", id(&message)), &body)
            .await;
    }
    let added = "historyTypes=messageAdded";
    assert_eq!(since(&gmail, &start, "").await.len(), 10);
    assert_eq!(since(&gmail, &start, added).await.len(), 5);
    let both = format!("{added}&historyTypes=labelAdded");
    assert_eq!(since(&gmail, &start, &both).await.len(), 10);
    assert_eq!(
        since(&gmail, &start, &format!("{added}&labelId=INBOX"))
            .await
            .len(),
        3
    );
    for size in 1..=11 {
        let query = format!("startHistoryId={}&maxResults={size}", text(&start));
        assert_eq!(gmail.all("me/history", "history", &query).await.len(), 10);
    }
}

#[tokio::test]
async fn history_that_is_unknown_or_forgotten_is_not_found() {
    let gmail = Gmail::new();
    let start = gmail.get("me/profile").await["historyId"].clone();
    gmail.insert(&[], &sample_message("one", "x")).await;
    let future = gmail.try_get("me/history?startHistoryId=99").await;
    assert_eq!(future.refused(), (404, "notFound".into()));
    for wrong in ["me/history", "me/history?startHistoryId=x"] {
        assert_eq!(gmail.try_get(wrong).await.refused().0, 400, "{wrong}");
    }
    gmail
        .0
        .clock
        .advance(Duration::from_secs(31 * 24 * 60 * 60));
    let second = gmail.insert(&[], &sample_message("two", "x")).await;
    let third = gmail.insert(&[], &sample_message("three", "x")).await;
    let old = format!("me/history?startHistoryId={}", text(&start));
    assert_eq!(
        gmail.try_get(&old).await.refused(),
        (404, "notFound".into())
    );
    let fresh = since(&gmail, &second["historyId"], "").await;
    assert_eq!(fresh[0]["id"], third["historyId"]);
}
