use std::time::Duration;

use super::*;

#[tokio::test]
async fn messages_are_listed_newest_first_in_pages() {
    let gmail = Gmail::new();
    let mut all = Vec::new();
    for number in 0..7 {
        all.insert(
            0,
            id(&gmail
                .insert(&["INBOX"], &sample_message(&number.to_string(), "x"))
                .await),
        );
        gmail.0.clock.advance(Duration::from_secs(1));
    }
    for size in 1..=8 {
        assert_eq!(
            gmail.list(&format!("maxResults={size}")).await,
            all,
            "{size} a page"
        );
    }
    let page = gmail.get("me/messages?maxResults=2").await;
    assert_eq!(page["resultSizeEstimate"], 7);
    assert!(page["messages"][0].get("threadId").is_some());
    let last = gmail.get("me/messages?maxResults=7").await;
    assert!(last.get("nextPageToken").is_none(), "{last}");
    for wrong in ["maxResults=0", "maxResults=x", "pageToken=x"] {
        let refused = gmail.try_get(&format!("me/messages?{wrong}")).await;
        assert_eq!(
            refused.refused(),
            (400, "invalidParameter".into()),
            "{wrong}"
        );
    }
    let empty = gmail.get("bob@windlass.localhost/messages").await;
    assert_eq!(empty, json!({"resultSizeEstimate": 0}));
}

/// Header fields that fill the text that is stored for searches.
fn long_head() -> String {
    let long = |name: &str| format!("{name}: {}\r\n", ["abcdefg@example.com"; 200].join(", "));
    [long("To"), long("Cc"), long("Bcc")].concat()
}

#[tokio::test]
async fn a_list_of_drafts_compares_a_bounded_number_of_bytes() {
    let gmail = Gmail::new();
    let message = format!("{}Subject: dry\r\n\r\nhay", long_head());
    let body = json!({"message": {"raw": URL_SAFE.encode(&message)}});
    let mut all = Vec::new();
    for _ in 0..25 {
        all.insert(0, id(&gmail.post("me/drafts", &body).await));
        gmail.0.clock.advance(Duration::from_secs(1));
    }
    let query = format!("me/drafts?q={}", ["-x"; 600].join("+"));
    let first = gmail.get(&query).await;
    let next = first["nextPageToken"]
        .as_str()
        .expect("the page ends early");
    let second = gmail.get(&format!("{query}&pageToken={next}")).await;
    let pages = [&first, &second].map(|page| page["drafts"].as_array().expect("drafts"));
    let listed: Vec<_> = pages.into_iter().flatten().map(id).collect();
    assert_eq!(listed, all);
}

/// Each term is compared with each message: a query must not take minutes.
#[tokio::test]
async fn a_call_compares_a_bounded_number_of_bytes() {
    let gmail = Gmail::new();
    let head = long_head();
    let mut all = Vec::new();
    for number in 0..25 {
        let message = format!("{head}Subject: {number}\r\n\r\nhay");
        all.insert(0, id(&gmail.insert(&[], &message).await));
        gmail.0.clock.advance(Duration::from_secs(1));
    }
    let terms = ["-x"; 600].join("+");
    let query = format!("me/messages?q={terms}");
    let first = gmail.get(&query).await;
    let next = first["nextPageToken"]
        .as_str()
        .expect("the page ends early");
    let second = gmail.get(&format!("{query}&pageToken={next}")).await;
    let pages = [&first, &second].map(|page| page["messages"].as_array().expect("messages"));
    let listed: Vec<_> = pages.into_iter().flatten().map(id).collect();
    assert_eq!(listed, all);
}

#[tokio::test]
async fn an_old_message_that_comes_late_is_listed_by_its_date() {
    let gmail = Gmail::new();
    let new = id(&gmail.insert(&[], &sample_message("new", "x")).await);
    let old = id(&gmail
        .upload("me/messages/import", &sample_message("old", "x"))
        .await
        .resource());
    assert_eq!(gmail.list("").await, [new, old]);
}

#[tokio::test]
async fn spam_and_trash_are_listed_when_they_are_asked_for() {
    let gmail = Gmail::new();
    let inbox = id(&gmail.insert(&["INBOX"], &sample_message("a", "x")).await);
    let spam = id(&gmail.insert(&["SPAM"], &sample_message("b", "x")).await);
    let trash = id(&gmail
        .insert(&["TRASH", "INBOX"], &sample_message("c", "x"))
        .await);
    assert_eq!(gmail.list("").await, [inbox.as_str()]);
    assert_eq!(gmail.list("labelIds=INBOX").await, [inbox.as_str()]);
    assert_eq!(gmail.list("includeSpamTrash=true").await.len(), 3);
    assert_eq!(gmail.list("labelIds=SPAM").await, [spam.as_str()]);
    assert_eq!(gmail.list("q=in:trash").await, [trash.as_str()]);
    assert_eq!(
        gmail.list("labelIds=INBOX&labelIds=TRASH").await,
        [trash.as_str()]
    );
    assert_eq!(gmail.list("q=in:anywhere").await.len(), 3);
}

#[tokio::test]
async fn a_search_finds_messages_by_their_header_their_labels_and_their_text() {
    let gmail = Gmail::new();
    let label = id(&gmail
        .post("me/labels", &json!({"name": "Farm/Hay 24"}))
        .await);
    let dry = id(&gmail
        .insert(&["INBOX", &label], &sample_message("hay", "it is dry"))
        .await);
    let wet = id(&gmail.insert(&["UNREAD"], &answer("straw", 1)).await);
    for (query, expected) in [
        ("from:ann", vec![&dry]),
        ("dry", vec![&dry]),
        ("%22it%20is%22", vec![&dry]),
        ("-dry", vec![&wet]),
        ("subject:straw%20is:unread", vec![&wet]),
        ("label:farm-hay-24", vec![&dry]),
        ("label:%22Farm/Hay%2024%22", vec![&dry]),
        ("-label:farm-hay-24", vec![&wet]),
        ("label:nowhere", vec![]),
        ("-label:nowhere%20from:bob", vec![&wet]),
        ("rfc822msgid:hay@farm.test", vec![&dry]),
        ("older_than:1d", vec![]),
    ] {
        let found = gmail.list(&format!("q={query}")).await;
        let found: Vec<_> = found.iter().collect();
        assert_eq!(found, expected, "{query}");
    }
    let long = format!("me/messages?q={}", "x".repeat(3000));
    assert_eq!(
        gmail.try_get(&long).await.refused(),
        (400, "invalidParameter".into())
    );
}
