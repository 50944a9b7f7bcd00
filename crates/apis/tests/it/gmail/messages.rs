use super::*;

const ATTACHED: &str = "From: ann@farm.test\r\nSubject: offer\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=x\r\n\r\n\
    --x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nsee below\r\n\
    --x\r\nContent-Type: application/pdf; name=\"offer.pdf\"\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nAAECA/8=\r\n--x--\r\n";

#[tokio::test]
async fn an_inserted_message_is_a_resource_and_comes_back_as_it_was() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "The hay is in & dry.");
    let message = gmail.upload("me/messages", &raw).await.resource();
    let id = id(&message);
    assert_eq!(id.len(), 16);
    assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(message["threadId"], message["id"]);
    assert_eq!(labels(&message), [""; 0]);
    assert_eq!(message["snippet"], "The hay is in &amp; dry.");
    assert_eq!(message["sizeEstimate"], raw.len());
    assert_eq!(header(&message, "Subject").unwrap(), "hay");
    assert!(message["payload"]["body"].get("data").is_none());
    assert_eq!(gmail.raw(&id).await, raw);
    let full = gmail.get(&format!("me/messages/{id}")).await;
    let data = STANDARD.encode("The hay is in & dry.\r\n");
    assert_eq!(full["payload"]["body"]["data"], data);
}

#[tokio::test]
async fn a_message_comes_as_media_as_multipart_in_a_session_and_inside_of_json() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "dry");
    let fields = json!({"labelIds": ["STARRED"]});
    let multipart = gmail
        .upload_with("POST", "me/messages", &fields, &raw)
        .await;
    let path = "/gmail/v1/users/me/messages";
    let resumable = gmail
        .0
        .resumable(path, &fields, "message/rfc822", raw.as_bytes())
        .await;
    assert_eq!(resumable.status, 201, "as the documents of the API promise");
    let padded = json!({"labelIds": ["STARRED"], "raw": URL_SAFE.encode(&raw)});
    let padded = gmail.call("POST", "me/messages", &padded).await;
    let bare = json!({"labelIds": ["STARRED"], "raw": URL_SAFE_NO_PAD.encode(&raw)});
    let bare = gmail.call("POST", "me/messages", &bare).await;
    for reply in [multipart, resumable, padded, bare] {
        let message = reply.resource();
        assert_eq!(labels(&message), ["STARRED"]);
        assert_eq!(gmail.raw(&id(&message)).await, raw);
    }
    let both = json!({"raw": URL_SAFE.encode("To: x\r\n\r\n")});
    let media_wins = gmail.upload_with("POST", "me/messages", &both, &raw).await;
    assert_eq!(gmail.raw(&id(&media_wins.resource())).await, raw);
}

#[tokio::test]
async fn formats_show_their_fields_only() {
    let gmail = Gmail::new();
    let id = id(&gmail
        .insert(&["INBOX"], &sample_message("hay", "dry"))
        .await);
    let minimal = gmail.get(&format!("me/messages/{id}?format=minimal")).await;
    assert!(minimal.get("payload").is_none() && minimal.get("raw").is_none());
    assert_eq!(labels(&minimal), ["INBOX"]);
    assert_eq!(minimal["internalDate"], crate::world::START.to_string());
    let uri =
        format!("me/messages/{id}?format=metadata&metadataHeaders=subject&metadataHeaders=To");
    let metadata = gmail.get(&uri).await;
    let headers = &metadata["payload"]["headers"];
    assert_eq!(headers.as_array().unwrap().len(), 2, "{headers}");
    assert!(metadata["payload"].get("body").is_none());
    let wrong = gmail
        .try_get(&format!("me/messages/{id}?format=other"))
        .await;
    assert_eq!(wrong.refused(), (400, "invalidParameter".into()));
}

#[tokio::test]
async fn an_attachment_is_fetched_by_its_id() {
    let gmail = Gmail::new();
    let message = gmail.insert(&[], ATTACHED).await;
    let part = &message["payload"]["parts"][1];
    assert_eq!(part["filename"], "offer.pdf");
    assert_eq!(part["body"]["size"], 5);
    let attachment = text(&part["body"]["attachmentId"]);
    let messages = format!("me/messages/{}/attachments", id(&message));
    let body = gmail.get(&format!("{messages}/{attachment}")).await;
    assert_eq!(body["size"], 5);
    assert_eq!(
        URL_SAFE.decode(text(&body["data"])).unwrap(),
        [0, 1, 2, 3, 255]
    );
    let other = gmail.insert(&[], ATTACHED).await;
    let elsewhere = format!("me/messages/{}/attachments/{attachment}", id(&other));
    for path in [elsewhere, format!("{messages}/x")] {
        let message = gmail.try_get(&path).await.refusal(400, "invalidArgument");
        assert!(message.starts_with("Invalid attachment token"), "{message}");
    }
}

#[tokio::test]
async fn insert_dates_by_arrival_and_import_by_the_header_unless_told_otherwise() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "dry");
    let arrival = crate::world::START.to_string();
    let header = "1711965600000";
    for (method, expected) in [
        ("me/messages", arrival.as_str()),
        ("me/messages?internalDateSource=dateHeader", header),
        ("me/messages/import", header),
        (
            "me/messages/import?internalDateSource=receivedTime",
            &arrival,
        ),
    ] {
        let message = gmail.upload(method, &raw).await.resource();
        assert_eq!(message["internalDate"], expected, "{method}");
    }
    let undated = gmail
        .upload("me/messages/import", "Subject: x\r\n\r\n")
        .await
        .resource();
    assert_eq!(undated["internalDate"], arrival.as_str());
}

#[tokio::test]
async fn an_imported_message_is_in_the_inbox_and_one_that_is_deleted_at_once_nowhere() {
    let gmail = Gmail::new();
    let raw = sample_message("hay", "dry");
    let message = gmail.upload("me/messages/import", &raw).await.resource();
    assert_eq!(labels(&message), ["INBOX", "UNREAD"]);
    let fields = json!({"labelIds": ["SPAM"]});
    let told = gmail
        .upload_with("POST", "me/messages/import", &fields, &raw)
        .await;
    assert_eq!(labels(&told.resource()), ["SPAM"]);
    let gone = gmail
        .upload("me/messages/import?deleted=true", &raw)
        .await
        .resource();
    let gone = gmail.try_get(&format!("me/messages/{}", id(&gone))).await;
    assert_eq!(gone.refused(), (404, "notFound".into()));
}

#[tokio::test]
async fn labels_change_one_by_one_and_in_batches() {
    let gmail = Gmail::new();
    let one = id(&gmail
        .insert(&["INBOX", "UNREAD"], &sample_message("one", "x"))
        .await);
    let two = id(&gmail.insert(&["INBOX"], &sample_message("two", "x")).await);
    let body = json!({"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]});
    let changed = gmail
        .post(&format!("me/messages/{one}/modify"), &body)
        .await;
    assert_eq!(labels(&changed), ["INBOX", "STARRED"]);
    let body = json!({"ids": [one, two], "addLabelIds": ["IMPORTANT"]});
    assert_eq!(
        gmail.post("me/messages/batchModify", &body).await,
        Value::Null
    );
    for id in [&one, &two] {
        let message = gmail.get(&format!("me/messages/{id}?format=minimal")).await;
        assert!(labels(&message).contains(&"IMPORTANT"), "{message}");
    }
    let trashed = gmail
        .post(&format!("me/messages/{one}/trash"), &json!({}))
        .await;
    assert!(labels(&trashed).contains(&"TRASH"));
    let back = gmail
        .post(&format!("me/messages/{one}/untrash"), &json!({}))
        .await;
    assert_eq!(labels(&back), ["IMPORTANT", "INBOX", "STARRED"]);
    assert_eq!(
        gmail.delete(&format!("me/messages/{one}")).await.status,
        204
    );
    let batch = json!({"ids": [one, two]});
    assert_eq!(
        gmail.post("me/messages/batchDelete", &batch).await,
        Value::Null
    );
    assert_eq!(gmail.list("").await, [""; 0]);
    let profile = gmail.get("me/profile").await;
    assert_eq!(
        (&profile["messagesTotal"], &profile["threadsTotal"]),
        (&json!(0), &json!(0))
    );
}
