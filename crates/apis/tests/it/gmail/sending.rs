use super::*;

fn to(recipients: &str) -> String {
    format!("{recipients}Subject: hay\r\n\r\ndry\r\n")
}

/// The only message of a mailbox.
async fn only(gmail: &Gmail, user: &str) -> Value {
    let messages = gmail.all(&format!("{user}/messages"), "messages", "").await;
    assert_eq!(messages.len(), 1, "{user} has {messages:?}");
    gmail
        .get(&format!("{user}/messages/{}?format=raw", messages[0]))
        .await
}

fn raw_of(message: &Value) -> String {
    let raw = URL_SAFE.decode(text(&message["raw"])).expect("base64");
    String::from_utf8(raw).expect("tests write text")
}

#[tokio::test]
async fn a_sent_message_is_with_its_sender_and_new_with_its_recipients() {
    let gmail = Gmail::new();
    let raw = to("From: me@windlass.localhost\r\nTo: Bob <BOB+farm@windlass.localhost>\r\n");
    let sent = gmail.upload("me/messages/send", &raw).await.resource();
    assert_eq!(labels(&sent), ["SENT"]);
    assert_eq!(labels(&only(&gmail, "me").await), ["SENT"]);
    let received = only(&gmail, "bob@windlass.localhost").await;
    assert_eq!(labels(&received), ["INBOX", "UNREAD"]);
    assert!(raw_of(&received).ends_with(&raw));
}

#[tokio::test]
async fn long_headers_for_many_recipients_are_refused() {
    let gmail = Gmail::new();
    let raw = |people: usize, header_len: usize| {
        let people = (0..people).map(|n| format!("u{n}@windlass.localhost"));
        let people = people.collect::<Vec<_>>().join(",\r\n ");
        let long = "j".repeat(header_len);
        to(&format!("To: {people}\r\nX-Long: {long}\r\n"))
    };
    let send = async |raw: &str| gmail.upload("me/messages/send", raw).await;
    send(&raw(100, 400_000))
        .await
        .refusal(400, "invalidArgument");
    assert_empty(&gmail, "u0@windlass.localhost").await;
    send(&raw(10, 400_000)).await.resource();
    send(&raw(400, 1_000)).await.resource();
}

#[tokio::test]
async fn message_for_many_is_found_by_its_first_words() {
    let gmail = Gmail::new();
    let people = (0..200).map(|n| format!("u{n}@windlass.localhost"));
    let people = people.collect::<Vec<_>>().join(",\r\n ");
    let words = (0..8_000).map(|n| format!("w{n}"));
    let words = words.collect::<Vec<_>>().join("\r\n");
    let raw = format!("To: {people}\r\n\r\n{words}\r\n");
    gmail.upload("me/messages/send", &raw).await.resource();
    for (user, word, count) in [
        ("me", "w10", 1),
        ("me", "w7990", 1),
        ("u7@windlass.localhost", "w10", 1),
        ("u7@windlass.localhost", "w7990", 0),
    ] {
        let query = format!("q={word}");
        let found = gmail
            .all(&format!("{user}/messages"), "messages", &query)
            .await;
        assert_eq!(found.len(), count, "{user} {word}");
    }
}

/// Nothing is in the mailbox.
async fn assert_empty(gmail: &Gmail, user: &str) {
    let messages = gmail.all(&format!("{user}/messages"), "messages", "").await;
    assert!(messages.is_empty(), "{user} has {messages:?}");
}

#[tokio::test]
async fn a_message_to_oneself_is_one_message() {
    let gmail = Gmail::new();
    let raw = to("To: me+x@windlass.localhost\r\nCc: me@windlass.localhost\r\n");
    let sent = gmail
        .upload("me%40WINDLASS.localhost/messages/send", &raw)
        .await
        .resource();
    assert_eq!(labels(&sent), ["INBOX", "SENT", "UNREAD"]);
    only(&gmail, ME).await;
}

#[tokio::test]
async fn missing_headers_are_added_alike_for_all_recipients() {
    let gmail = Gmail::new();
    let raw = to("To: bob@windlass.localhost\r\n");
    let sent = gmail.upload("me/messages/send", &raw).await.resource();
    assert_eq!(header(&sent, "From").unwrap(), ME);
    assert_eq!(
        header(&sent, "Date").unwrap(),
        "Wed, 1 May 2024 00:00:00 +0000"
    );
    assert!(header(&sent, "Message-ID").is_some());
    let (mine, theirs) = (
        only(&gmail, "me").await,
        only(&gmail, "bob@windlass.localhost").await,
    );
    assert!(raw_of(&mine).ends_with(&raw), "{}", raw_of(&mine));
    assert_eq!(raw_of(&mine), raw_of(&theirs));
    assert_eq!(mine["sizeEstimate"], raw_of(&mine).len());
}

#[tokio::test]
async fn blind_copies_are_seen_by_the_sender_alone() {
    let gmail = Gmail::new();
    let raw = "To: bob@windlass.localhost\r\nBcc: Eve\r\n <eve@windlass.localhost>\r\n\r\nBcc: no header\r\n";
    gmail.upload("me/messages/send", raw).await.resource();
    assert!(raw_of(&only(&gmail, "me").await).contains("Bcc: Eve"));
    for user in ["bob@windlass.localhost", "eve@windlass.localhost"] {
        let received = only(&gmail, user).await;
        let raw = raw_of(&received);
        assert!(!raw.contains("Eve") && !raw.contains("eve@"), "{raw}");
        assert!(raw.ends_with("\r\n\r\nBcc: no header\r\n"), "{raw}");
        let id = id(&received);
        let full = gmail.get(&format!("{user}/messages/{id}")).await;
        let body = URL_SAFE
            .decode(text(&full["payload"]["body"]["data"]))
            .unwrap();
        assert_eq!(body, b"Bcc: no header\r\n");
        assert!(header(&full, "Bcc").is_none());
    }
}

#[tokio::test]
async fn shared_media_is_kept_until_the_last_message_is_deleted() {
    let gmail = Gmail::new();
    let raw = format!(
        "To: bob@windlass.localhost\r\n\r\n{}",
        "hay ".repeat(50_000)
    );
    let sent = gmail.upload("me/messages/send", &raw).await.resource();
    gmail
        .delete(&format!("me/messages/{}", id(&sent)))
        .await
        .resource();
    let received = only(&gmail, "bob@windlass.localhost").await;
    assert!(raw_of(&received).ends_with(&raw));
}

#[tokio::test]
async fn concurrent_senders_leave_consistent_mailboxes() {
    let gmail = std::sync::Arc::new(Gmail::new());
    let start = gmail.get("bob@windlass.localhost/profile").await["historyId"].clone();
    let mut senders = tokio::task::JoinSet::new();
    for number in 0..30 {
        let gmail = std::sync::Arc::clone(&gmail);
        senders.spawn(async move {
            let user = format!("u{}@windlass.localhost", number % 3);
            let raw = to("To: bob@windlass.localhost, all@windlass.localhost\r\n");
            gmail
                .upload(&format!("{user}/messages/send"), &raw)
                .await
                .resource();
        });
    }
    senders.join_all().await;
    for user in ["bob@windlass.localhost", "all@windlass.localhost"] {
        let messages = gmail.all(&format!("{user}/messages"), "messages", "").await;
        assert_eq!(messages.len(), 30);
        let query = format!("startHistoryId={}", text(&start));
        let history = gmail
            .all(&format!("{user}/history"), "history", &query)
            .await;
        let ids: Vec<u64> = history.iter().map(|id| id.parse().unwrap()).collect();
        assert_eq!(ids, (2..32).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn without_a_relay_a_message_to_others_stays_with_its_sender() {
    let gmail = Gmail::new();
    let sent = gmail
        .upload("me/messages/send", &to("To: zoe@elsewhere.test\r\n"))
        .await;
    assert_eq!(labels(&sent.resource()), ["SENT"]);
    let other = gmail.try_get("zoe@elsewhere.test/messages").await;
    assert_eq!(other.refused(), (404, "notFound".into()));
}
