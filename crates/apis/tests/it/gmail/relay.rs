use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use windlass_apis::gmail::options::{Credentials, Options as GmailOptions, Relay, Security};
use windlass_testkit::wait::PATIENCE;

use super::*;

/// The message that the peer received in one connection.
#[derive(Debug, Default, PartialEq)]
struct Received {
    from: String,
    to: Vec<String>,
    message: String,
}

/// An SMTP server with answers that the test chooses.
struct Peer(TcpListener);

impl Peer {
    async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.expect("a free port"))
    }

    fn gmail(&self) -> Gmail {
        self.gmail_with(None)
    }

    /// A server that sends these credentials to the peer.
    fn gmail_with(&self, credentials: Option<Credentials>) -> Gmail {
        let relay = Relay {
            host: "127.0.0.1".to_owned(),
            port: self.0.local_addr().expect("it is bound").port(),
            security: Security::None,
            credentials,
            helo: None,
        };
        Gmail::with(&Options {
            gmail: GmailOptions {
                relay: Some(relay),
                ..GmailOptions::default()
            },
            ..Options::default()
        })
    }

    /// Serves one connection. `verdict` answers each command, or the message when it is `.`; `None`
    /// is a yes.
    async fn serve(&self, verdict: impl Fn(&str) -> Option<&'static str>) -> Received {
        let (stream, _) = self.0.accept().await.expect("the server connects");
        let mut lines = BufReader::new(stream);
        let mut taken = Received::default();
        say(&mut lines, "220 peer").await;
        loop {
            let command = line(&mut lines).await;
            let (http_method, rest) = command.split_at(command.len().min(4));
            if http_method == "EHLO" {
                say(&mut lines, "250-peer\r\n250 AUTH PLAIN").await;
                continue;
            }
            if http_method.is_empty() || http_method == "QUIT" {
                return taken;
            }
            match verdict(command.trim()) {
                Some(refusal) => {
                    say(&mut lines, refusal).await;
                    continue;
                }
                None if http_method == "DATA" => {}
                None => say(&mut lines, "250 yes").await,
            }
            match http_method {
                "MAIL" => taken.from = address(rest),
                "RCPT" => taken.to.push(address(rest)),
                "DATA" => {
                    say(&mut lines, "354 go on").await;
                    let message = message(&mut lines).await;
                    let refusal = verdict(".");
                    say(&mut lines, refusal.unwrap_or("250 taken")).await;
                    if refusal.is_none() {
                        taken.message = message;
                    }
                }
                _ => {}
            }
        }
    }
}

async fn say(lines: &mut BufReader<TcpStream>, text: &str) {
    let text = format!("{text}\r\n");
    lines
        .get_mut()
        .write_all(text.as_bytes())
        .await
        .expect("it listens");
}

async fn line(lines: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    // A client that just goes has nothing more to say.
    lines.read_line(&mut line).await.ok();
    line
}

async fn message(lines: &mut BufReader<TcpStream>) -> String {
    let mut message = String::new();
    loop {
        match line(lines).await.as_str() {
            ".\r\n" => return message,
            line => message.push_str(line),
        }
    }
}

fn address(rest: &str) -> String {
    let (_, rest) = rest.split_once('<').expect("a path");
    rest.split('>').next().unwrap_or_default().to_owned()
}

const LETTER: &str = "From: me@windlass.localhost\r\nTo: zoe@zoo.test\r\nCc: bob@windlass.localhost\r\n\
    Bcc: yan@yak.test\r\nDate: Mon, 01 Apr 2024 10:00:00 +0000\r\nMessage-ID: <1@x>\r\n\
    Subject: hay\r\n\r\n.dry\r\n";

/// Runs the server, deliveries and all, as long as the test does something.
async fn with_deliveries<T>(gmail: &Gmail, test: impl Future<Output = T>) -> T {
    gmail.0.server.start().await;
    let result = timeout(PATIENCE, test).await;
    result.expect("the server does what the test waits for")
}

/// Waits until my mailbox has `count` messages.
async fn until(gmail: &Gmail, count: usize) -> Vec<String> {
    loop {
        let messages = gmail.list("").await;
        if messages.len() == count {
            return messages;
        }
        tokio::task::yield_now().await;
    }
}

/// Sends another message, which wakes the outbox.
async fn rings(gmail: &Gmail) {
    let raw = LETTER
        .replace("zoe@zoo.test", "bell@zoo.test")
        .replace("yan@yak", "bell@zoo");
    gmail.upload("me/messages/send", &raw).await.resource();
}

#[tokio::test]
async fn others_get_a_message_by_the_relay_without_its_blind_copies() {
    let peer = Peer::new().await;
    let gmail = peer.gmail();
    with_deliveries(&gmail, async {
        let sent = gmail.upload("me/messages/send", LETTER).await.resource();
        let taken = peer.serve(|_| None).await;
        assert_eq!(taken.from, ME);
        assert_eq!(taken.to, ["yan@yak.test", "zoe@zoo.test"]);
        let expected = LETTER.replace("Bcc: yan@yak.test\r\n", "");
        assert_eq!(taken.message.replace("\r\n..", "\r\n."), expected);
        assert_eq!(labels(&sent), ["SENT"]);
        let bob = gmail
            .all("bob@windlass.localhost/messages", "messages", "")
            .await;
        assert_eq!(bob.len(), 1, "mailboxes of this server need no relay");
    })
    .await;
}

#[tokio::test]
async fn temporary_refusal_of_relay_is_retried() {
    let peer = Peer::new().await;
    let gmail = peer.gmail();
    with_deliveries(&gmail, async {
        gmail.upload("me/messages/send", LETTER).await.resource();
        let busy = peer
            .serve(|command| (command == ".").then_some("451 later"))
            .await;
        assert_eq!(busy.message, "");
        // When this has come through, the failure is written down.
        rings(&gmail).await;
        peer.serve(|_| None).await;
        // Before the minute is over, only the new message is handed over.
        gmail.0.clock.advance(Duration::from_secs(30));
        rings(&gmail).await;
        assert_eq!(peer.serve(|_| None).await.to, ["bell@zoo.test"]);
        gmail.0.clock.advance(Duration::from_secs(31));
        rings(&gmail).await;
        let mut to = [peer.serve(|_| None).await.to, peer.serve(|_| None).await.to];
        to.sort();
        assert_eq!(
            to,
            [vec!["bell@zoo.test"], vec!["yan@yak.test", "zoe@zoo.test"]]
        );
        assert_eq!(
            gmail.list("labelIds=INBOX").await,
            [""; 0],
            "nobody is told of it"
        );
    })
    .await;
}

/// A wrong password would send back all mail (RFC 4954, section 6).
#[tokio::test]
async fn refusal_of_the_credentials_is_retried() {
    for refusal in [
        "530 5.7.0 authentication required",
        "534 5.7.9 the mechanism is too weak",
        "535 5.7.8 credentials invalid",
        "538 5.7.11 encryption required",
    ] {
        let peer = Peer::new().await;
        let gmail = peer.gmail_with(Some(Credentials {
            username: "ann".to_owned(),
            password: "wrong".to_owned(),
        }));
        with_deliveries(&gmail, async {
            gmail.upload("me/messages/send", LETTER).await.resource();
            let refuse = |command: &str| command.starts_with("AUTH").then_some(refusal);
            assert_eq!(peer.serve(refuse).await, Received::default(), "{refusal}");
            until_tried(&gmail).await;
            assert_eq!(gmail.0.count(".outbox/gmail").await, 1, "{refusal}");
            gmail.0.clock.advance(Duration::from_secs(61));
            rings(&gmail).await;
            let mut to = [peer.serve(|_| None).await.to, peer.serve(|_| None).await.to];
            to.sort();
            let both = [vec!["bell@zoo.test"], vec!["yan@yak.test", "zoe@zoo.test"]];
            assert_eq!(to, both, "{refusal}");
            assert_eq!(gmail.list("labelIds=INBOX").await, [""; 0], "{refusal}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_refusal_goes_back_to_the_sender_and_the_others_get_the_message() {
    let peer = Peer::new().await;
    let gmail = peer.gmail();
    with_deliveries(&gmail, async {
        let sent = gmail.upload("me/messages/send", LETTER).await.resource();
        let refuse = |command: &str| command.contains("<zoe@").then_some("550 no Zoe here");
        assert_eq!(peer.serve(refuse).await.message, "");
        let (one, other) = (peer.serve(refuse).await, peer.serve(refuse).await);
        let got: Vec<_> = [one, other]
            .into_iter()
            .filter(|it| !it.message.is_empty())
            .collect();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].to, ["yan@yak.test"]);
        let bounce = until(&gmail, 2)
            .await
            .into_iter()
            .find(|it| *it != id(&sent));
        let bounce = gmail.get(&format!("me/messages/{}", bounce.unwrap())).await;
        assert_eq!(labels(&bounce), ["INBOX", "UNREAD"]);
        let number = i64::from_str_radix(&id(&bounce), 16);
        assert!(number.is_ok(), "{} is no id of a message", id(&bounce));
        assert_eq!(header(&bounce, "In-Reply-To").unwrap(), "<1@x>");
        let raw = gmail.raw(&id(&bounce)).await;
        assert!(
            raw.contains("Final-Recipient: rfc822; zoe@zoo.test\r\n"),
            "{raw}"
        );
        assert!(
            raw.contains("no Zoe here") && !raw.contains("yan@yak.test"),
            "{raw}"
        );
        rings(&gmail).await;
        let next = peer.serve(|_| None).await;
        assert_eq!(
            next.to,
            ["bell@zoo.test"],
            "what came back is not tried again"
        );
    })
    .await;
}

/// Waits until a failure of each queued message is recorded: the first one gives up no message.
async fn until_tried(gmail: &Gmail) {
    let has_failed = |body: &[u8]| {
        let event: Value = serde_json::from_slice(body).expect("it is JSON");
        event["failures"] != 0
    };
    loop {
        let queued = gmail.0.all_stored(".outbox/gmail").await;
        if queued.iter().all(|row| has_failed(&row.body)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn sender_gets_bounce_after_three_days_without_relay() {
    let peer = Peer::new().await;
    let gmail = peer.gmail();
    drop(peer);
    with_deliveries(&gmail, async {
        let sent = gmail.upload("me/messages/send", LETTER).await.resource();
        assert_eq!(until(&gmail, 1).await, [id(&sent)]);
        until_tried(&gmail).await;
        gmail
            .0
            .clock
            .advance(Duration::from_secs(3 * 24 * 60 * 60 + 1));
        rings(&gmail).await;
        let all = until(&gmail, 3).await;
        let mut bounces = 0;
        for id in all {
            let raw = gmail.raw(&id).await;
            bounces += usize::from(raw.contains("Action: failed") && raw.contains("zoe@zoo.test"));
        }
        assert_eq!(bounces, 1);
    })
    .await;
}

/// Before the server had an outbox, Gmail queued messages for the relay in its own collection. A
/// row of that collection held the fields of the message and the fields of the queue together.
#[tokio::test]
async fn message_that_an_earlier_version_queued_is_delivered() {
    let peer = Peer::new().await;
    let gmail = peer.gmail();
    gmail.upload("me/messages/send", LETTER).await.resource();
    let queued = gmail.0.all_stored(".outbox/gmail").await;
    let [row] = queued.try_into().expect("one message is queued");
    let event: Value = serde_json::from_slice(&row.body).expect("it is JSON");
    let mut former = event["payload"].clone();
    former["sender"] = json!("former@windlass.localhost");
    for field in ["created", "failures", "due"] {
        former[field] = event[field].clone();
    }
    let row = windlass_store::Resource {
        collection: "gmail/outbox".to_owned(),
        body: former.to_string().into(),
        ..row
    };
    gmail.0.put([row]).await;
    with_deliveries(&gmail, async {
        let mut from = [
            peer.serve(|_| None).await.from,
            peer.serve(|_| None).await.from,
        ];
        from.sort();
        assert_eq!(from, ["former@windlass.localhost", ME]);
        while gmail.0.count("gmail/outbox").await + gmail.0.count(".outbox/gmail").await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
