use super::*;

#[tokio::test]
async fn invalid_message_is_refused_and_not_stored() {
    let gmail = Gmail::new();
    for raw in ["", "no header at all", "\r\n\r\nbody", "\0\u{1}\u{2}"] {
        for method in [
            "me/messages",
            "me/messages/import",
            "me/messages/send",
            "me/drafts",
        ] {
            let refused = gmail.upload(method, raw).await;
            assert_eq!(
                refused.refused(),
                (400, "invalidArgument".into()),
                "{raw:?} {method}"
            );
        }
    }
    assert_eq!(gmail.list("").await, [""; 0]);
}

#[tokio::test]
async fn message_without_valid_recipient_is_not_sent() {
    let gmail = Gmail::new();
    for header in [
        "Subject: x\r\n",
        "To: \r\n",
        "To: bob\r\n",
        "To: bob@\r\n",
        "To: bob@windlass.localhost\r\nCc: @x\r\n",
    ] {
        let refused = gmail
            .upload("me/messages/send", &format!("{header}\r\nx"))
            .await;
        assert_eq!(
            refused.refused(),
            (400, "invalidArgument".into()),
            "{header}"
        );
    }
    let many: Vec<_> = (0..501)
        .map(|n| format!("u{n}@windlass.localhost"))
        .collect();
    let raw = format!("To: {}\r\n\r\nx", many.join(",\r\n "));
    let refused = gmail.upload("me/messages/send", &raw).await;
    assert_eq!(refused.refused(), (400, "invalidArgument".into()));
    assert_eq!(gmail.list("").await, [""; 0]);
}

#[tokio::test]
async fn labels_that_are_unknown_or_not_for_clients_are_refused() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "x");
    let message = id(&gmail.insert(&[], &raw).await);
    let invalid = (400, "invalidArgument".to_owned());
    for label in ["Label_9", "inbox", "DRAFT", ""] {
        let body = json!({"labelIds": [label]});
        let refused = gmail.upload_with("POST", "me/messages", &body, &raw).await;
        assert_eq!(refused.refused(), invalid, "{label}");
    }
    for body in [
        json!({"addLabelIds": ["Label_9"]}),
        json!({"removeLabelIds": ["Label_9"]}),
        json!({"addLabelIds": ["SENT"]}),
        json!({"removeLabelIds": ["DRAFT"]}),
        json!({"addLabelIds": ["INBOX"], "removeLabelIds": ["INBOX"]}),
        json!({"addLabelIds": vec!["INBOX"; 101]}),
    ] {
        let refused = gmail
            .call("POST", &format!("me/messages/{message}/modify"), &body)
            .await;
        assert_eq!(refused.refused(), invalid, "{body}");
    }
    let wrong = json!({"addLabelIds": "INBOX"});
    let wrong = gmail
        .call("POST", &format!("me/messages/{message}/modify"), &wrong)
        .await;
    assert_eq!(wrong.refused(), (400, "invalid".into()));
}

#[tokio::test]
async fn a_batch_that_names_an_unknown_message_changes_none() {
    let gmail = Gmail::new();
    let message = id(&gmail.insert(&["INBOX"], &sample_message("hay", "x")).await);
    let body = json!({"ids": [message, "ff"], "addLabelIds": ["STARRED"]});
    let refused = gmail.call("POST", "me/messages/batchModify", &body).await;
    assert_eq!(refused.refused(), (404, "notFound".into()));
    assert_eq!(gmail.list("labelIds=STARRED").await, [""; 0]);
    for ids in [json!([]), json!(vec!["ff"; 1001]), json!([1])] {
        let refused = gmail
            .call("POST", "me/messages/batchDelete", &json!({"ids": ids}))
            .await;
        assert_eq!(refused.refused().0, 400);
    }
}

#[tokio::test]
async fn media_of_another_type_and_json_without_a_message_are_refused() {
    let gmail = Gmail::new();
    let path = "/gmail/v1/users/me/messages";
    let sample_message = sample_message("hay", "x");
    let refused = gmail
        .0
        .simple(path, "image/png", sample_message.as_bytes())
        .await;
    assert_eq!(refused.status, 400);
    for (body, reason) in [
        (json!({}), "invalidArgument"),
        (json!({"raw": ""}), "invalidArgument"),
        (json!({"raw": "!"}), "invalidArgument"),
        (json!({"raw": 1}), "invalidArgument"),
        (
            json!({"threadId": 1, "raw": URL_SAFE.encode("To: x\r\n\r\n")}),
            "invalid",
        ),
    ] {
        let refused = gmail.call("POST", "me/messages", &body).await;
        assert_eq!(refused.refused(), (400, reason.into()), "{body}");
    }
}

#[tokio::test]
async fn unknown_resources_are_not_found_and_other_methods_not_implemented() {
    let gmail = Gmail::new();
    for path in [
        "me/messages/ff",
        "me/threads/ff",
        "me/drafts/r1",
        "me/labels/Label_1",
        "me/messages/ff/attachments/x",
        "somebody@elsewhere.test/profile",
        "nobody/profile",
    ] {
        let refused = gmail.try_get(path).await.refused();
        assert_eq!(refused, (404, "notFound".into()), "{path}");
    }
    let profile = gmail.get("Me%40Windlass.Localhost/profile").await;
    assert_eq!(profile["emailAddress"], ME);
}
