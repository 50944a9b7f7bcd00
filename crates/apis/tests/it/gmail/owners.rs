use super::*;
use crate::world::Caller;

/// Mailboxes of principals.
const ALICE: &str = "alice@windlass.localhost";
const BOB: &str = "bob@windlass.localhost";

/// The status of a call on a mailbox, the number of its messages, and its address.
async fn seen(caller: &Caller<'_, ManualClock>, user: &str) -> (u16, usize, String) {
    let uri = format!("/gmail/v1/users/{user}");
    let profile = caller.get(&format!("{uri}/profile")).await;
    let list = caller.get(&format!("{uri}/messages")).await;
    assert_eq!(profile.status, list.status, "{user}");
    let (profile, list) = (profile.json(), list.json());
    let messages = list["messages"].as_array().map_or(0, Vec::len);
    let address = profile["emailAddress"].as_str().unwrap_or_default();
    let status = list["error"]["code"].as_u64().unwrap_or(200);
    let status = u16::try_from(status).expect("a status");
    (status, messages, address.to_owned())
}

async fn send(caller: &Caller<'_, ManualClock>, user: &str, to: &str) -> Reply {
    let path = format!("/gmail/v1/users/{user}/messages/send");
    let raw = format!("To: {to}\r\nSubject: hay\r\n\r\ndry\r\n");
    caller.simple(&path, "message/rfc822", raw.as_bytes()).await
}

#[tokio::test]
async fn me_is_the_mailbox_of_the_principal_and_no_other_is_found() {
    let gmail = Gmail::owned();
    let table = [
        (Some("alice"), "me", 200, ALICE),
        (Some("alice"), ALICE, 200, ALICE),
        (Some("alice"), "Alice+hay@windlass.localhost", 200, ALICE),
        (Some(ALICE), "me", 200, ALICE),
        (Some("alice"), BOB, 404, ""),
        (Some("alice"), ME, 404, ""),
        (Some("bob"), ALICE, 404, ""),
        (Some("alice"), "alice@farm.test", 404, ""),
        // Ids that are no address here, or another principal's.
        (Some("alice@farm.test"), "me", 400, ""),
        (Some("alice@farm.test"), ALICE, 404, ""),
        (Some("alice+hay"), "me", 400, ""),
        (Some("alice+hay"), ALICE, 404, ""),
        (Some("me"), "me", 400, ""),
        (Some("me"), ME, 404, ""),
        // The principal of mailboxes that were made before the server had owners.
        (Some("token"), "me", 200, ME),
        (Some("token"), ME, 200, ME),
        (Some("token"), ALICE, 404, ""),
        (None, "me", 200, ME),
        (None, ME, 200, ME),
        (None, ALICE, 404, ""),
    ];
    for (principal, user, status, address) in table {
        let seen = seen(&gmail.0.by(principal), user).await;
        let expected = (status, 0, address.to_owned());
        assert_eq!(seen, expected, "{user} of {principal:?}");
    }
}

#[tokio::test]
async fn message_to_another_principal_is_in_their_mailbox_alone() {
    let gmail = Gmail::owned();
    let (alice, bob, carol) = (gmail.0.by("alice"), gmail.0.by("bob"), gmail.0.by("carol"));
    let sent = send(&alice, "me", BOB).await.resource();
    assert_eq!(labels(&sent), ["SENT"]);
    for (caller, expected) in [(&alice, 1), (&bob, 1), (&carol, 0)] {
        let (status, messages, _) = seen(caller, "me").await;
        assert_eq!((status, messages), (200, expected), "{:?}", caller.id);
    }
    let received = bob.get("/gmail/v1/users/me/messages").await.resource();
    let received = id(&received["messages"][0]);
    let uri = |user: &str| format!("/gmail/v1/users/{user}/messages/{received}?format=full");
    let shown = bob.get(&uri("me")).await.resource();
    assert_eq!(labels(&shown), ["INBOX", "UNREAD"]);
    assert_eq!(header(&shown, "From").as_deref(), Some(ALICE));
    for stranger in [&alice, &carol] {
        assert_eq!(stranger.get(&uri(BOB)).await.status, 404);
    }
    assert_eq!(carol.get(&uri("me")).await.status, 404);
    assert_eq!(send(&alice, BOB, ALICE).await.status, 404);
}

#[tokio::test]
async fn shared_mailboxes_are_open_to_every_principal_and_me_is_that_of_the_settings() {
    let gmail = Gmail::new();
    let alice = gmail.0.by("alice");
    assert_eq!(seen(&alice, "me").await, (200, 0, ME.to_owned()));
    assert_eq!(seen(&alice, BOB).await, (200, 0, BOB.to_owned()));
}
