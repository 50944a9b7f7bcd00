//! The limit on copies for one caller (`limits.copies_per_hour`).

use serde_json::json;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::callers::limited;
use crate::server::{own, with_configuration};

fn refused(server: &ServerProcess, reply: &Reply) {
    assert_eq!(reply.status, 429, "{}", reply.text());
    let error = reply.field("error");
    assert_eq!(error["errors"][0]["reason"], "rateLimitExceeded", "{error}");
    let seconds = reply.header("retry-after").expect("it is told when");
    let seconds: u32 = seconds.parse().expect("seconds");
    assert!((1..=3600).contains(&seconds), "{seconds}");
    assert_eq!(limited(server, "copies_per_hour"), 1);
}

#[test]
fn objects_composed_again_and_again_do_not_fill_the_disk() {
    const COW: Media = Media::new(91, 600_000);
    let server = own(&["--api", "storage"]);
    let send = |request: &Request| exchange(server.address(), request);
    let json = |target: &str, body: serde_json::Value| {
        send(
            &Request::new("POST", target)
                .header("Content-Type", "application/json")
                .body(body.to_string()),
        )
    };
    json("/storage/v1/b?project=farm", json!({"name": "barn"})).expect(200);
    let upload = "/upload/storage/v1/b/barn/o?uploadType=media&name=c0";
    send(&Request::new("POST", upload).body(COW.whole())).expect(200);
    let compose = |from: &str, to: &str| {
        let sources = vec![json!({"name": from}); 32];
        let target = format!("/storage/v1/b/barn/o/{to}/compose");
        json(&target, json!({"sourceObjects": sources}))
    };
    compose("c0", "c1").expect(200);
    refused(&server, &compose("c1", "c2"));
    // A copy shares the media.
    let copy = "/storage/v1/b/barn/o/c1/rewriteTo/b/barn/o/c3";
    json(copy, json!({})).expect(200);
}

#[test]
fn copies_of_a_message_for_many_mailboxes_are_bounded() {
    let apis = "apis = [\"gmail\"]\n[limits]\ncopies_per_hour = \"4MB\"\n";
    let server = with_configuration(apis);
    let people = (0..50).map(|n| format!("u{n}@windlass.localhost"));
    let people = people.collect::<Vec<_>>().join(",\r\n ");
    let send = |header: usize| {
        let long = "j".repeat(header);
        let mail = format!("To: {people}\r\nX-Long: {long}\r\n\r\nhay");
        let path = "/upload/gmail/v1/users/me/messages/send?uploadType=media";
        let request = Request::new("POST", path).header("Content-Type", "message/rfc822");
        exchange(server.address(), &request.body(mail))
    };
    // Each is some 2 MB of rows in the mailboxes.
    send(40_000).expect(200);
    let last = (0..4).map(|_| send(40_000)).find(|it| it.status != 200);
    refused(&server, &last.expect("the hour has an end"));
    // An ordinary message to as many recipients costs little more than the bytes of its request.
    send(100).expect(200);
}
