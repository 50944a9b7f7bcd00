//! Principals of APIs with separate or shared resources.

use serde_json::{Value, json};

use crate::world::{Caller, Peer as _, Reply, World};

const STRANGERS: [Option<&str>; 3] = [Some("bob"), Some("token"), None];

/// A call: its HTTP method, its URI and its JSON, if it has any.
type Request = (&'static str, &'static str, Option<Value>);

async fn carry_out(caller: &Caller<'_>, (method, uri, body): &Request) -> Reply {
    match body {
        Some(body) => caller.json(method, uri, body).await,
        None => caller.call(method, uri).await,
    }
}

/// An API in which a principal has made something.
struct Case {
    api: &'static str,
    /// Calls that create the resources that the uploads need.
    making: Vec<Request>,
    /// Where media is uploaded, and its metadata.
    uploads: Vec<(&'static str, Value)>,
    /// Calls on the created resources, in order.
    calls: Vec<Request>,
    /// Lists, with the field that has the items.
    lists: Vec<(&'static str, &'static str)>,
    /// Whether a stranger may create resources with the same ids.
    coexists: bool,
}

fn cases() -> Vec<Case> {
    let file = "/drive/v3/files/0123456789";
    let cow = "/storage/v1/b/barn/o/cow";
    vec![
        Case {
            api: "drive",
            making: Vec::new(),
            uploads: vec![(
                "/drive/v3/files",
                json!({"id": "0123456789", "name": "cow"}),
            )],
            calls: vec![
                ("GET", file, None),
                ("GET", "/drive/v3/files/0123456789?alt=media", None),
                ("POST", "/drive/v3/files/0123456789/copy", Some(json!({}))),
                ("PATCH", file, Some(json!({"name": "calf"}))),
                ("DELETE", file, None),
            ],
            lists: vec![("/drive/v3/files", "files")],
            coexists: true,
        },
        Case {
            api: "storage",
            making: vec![(
                "POST",
                "/storage/v1/b?project=farm",
                Some(json!({"name": "barn"})),
            )],
            uploads: vec![("/storage/v1/b/barn/o", json!({"name": "cow"}))],
            calls: vec![
                ("GET", "/storage/v1/b/barn", None),
                ("GET", "/storage/v1/b/barn/o", None),
                ("GET", cow, None),
                ("GET", "/storage/v1/b/barn/o/cow?alt=media", None),
                ("GET", "/barn/cow", None),
                ("PATCH", cow, Some(json!({"metadata": {"a": "b"}}))),
                (
                    "POST",
                    "/storage/v1/b/barn/o/cow/copyTo/b/barn/o/calf",
                    Some(json!({})),
                ),
                (
                    "POST",
                    "/storage/v1/b/barn/o/herd/compose",
                    Some(json!({"sourceObjects": [{"name": "cow"}, {"name": "calf"}]})),
                ),
                ("DELETE", "/storage/v1/b/barn/o/herd", None),
                ("DELETE", "/storage/v1/b/barn/o/calf", None),
                ("DELETE", cow, None),
                ("DELETE", "/storage/v1/b/barn", None),
            ],
            lists: vec![("/storage/v1/b?project=farm", "items")],
            coexists: true,
        },
    ]
}

async fn make(caller: &Caller<'_>, case: &Case) {
    for request in &case.making {
        let made = carry_out(caller, request).await;
        assert!(made.status.is_success(), "{request:?}: {made:?}");
    }
    for (path, metadata) in &case.uploads {
        let made = caller.multipart(path, metadata, "text/plain", b"moo");
        made.await.resource();
    }
}

async fn count(caller: &Caller<'_>, (uri, field): (&str, &str)) -> usize {
    let list = caller.get(uri).await.resource();
    list[field].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn what_a_principal_made_is_404_for_others_and_in_no_list_of_theirs() {
    for case in cases() {
        let world = World::owned(case.api);
        let alice = world.by("alice");
        make(&alice, &case).await;
        for stranger in STRANGERS {
            let stranger = world.by(stranger);
            for request in &case.calls {
                let reply = carry_out(&stranger, request).await;
                assert_eq!(reply.status, 404, "{:?}: {request:?}", stranger.id);
            }
            for list in &case.lists {
                assert_eq!(
                    count(&stranger, *list).await,
                    0,
                    "{:?}: {list:?}",
                    stranger.id
                );
            }
        }
        for list in &case.lists {
            assert_eq!(count(&alice, *list).await, 1, "{list:?}");
        }
        if case.coexists {
            make(&world.by("bob"), &case).await;
        }
        for request in &case.calls {
            let reply = carry_out(&alice, request).await;
            assert!(reply.status.is_success(), "{request:?}: {reply:?}");
        }
        if case.coexists {
            for request in &case.calls {
                let reply = carry_out(&world.by("bob"), request).await;
                assert!(reply.status.is_success(), "{request:?}: {reply:?}");
            }
        }
    }
}

#[tokio::test]
async fn videos_of_other_principals_are_left_out_of_what_is_asked_for_by_id() {
    let youtube = World::owned("youtube");
    let metadata = json!({"snippet": {"title": "Llama"}});
    let media = ("video/mp4", &b"moo"[..]);
    let videos = "/youtube/v3/videos?part=snippet";
    let alice = youtube.by("alice");
    let made = alice.multipart_by("POST", videos, &metadata, media).await;
    let id = made.field("id");
    let uri = format!("/youtube/v3/videos?part=snippet&id={id}");
    let items = async |caller: Caller<'_>| {
        let list = caller.get(&uri).await.resource();
        list["items"].as_array().map_or(0, Vec::len)
    };
    for stranger in STRANGERS {
        assert_eq!(items(youtube.by(stranger)).await, 0, "{stranger:?}");
        let change = json!({"id": id, "snippet": {"title": "Mine"}});
        let changed = youtube.by(stranger).json("PUT", videos, &change).await;
        assert_eq!(changed.status, 404, "{stranger:?}");
        let uri = format!("/youtube/v3/videos?id={id}");
        let deleted = youtube.by(stranger).call("DELETE", &uri).await;
        assert_eq!(deleted.status, 404, "{stranger:?}");
    }
    assert_eq!(items(youtube.by("alice")).await, 1);
}

#[tokio::test]
async fn drive_keeps_principals_apart_and_cloud_storage_does_not() {
    for (api, seen_by_bob) in [("drive", false), ("storage", true)] {
        let world = World::of(api);
        let cases = cases();
        let case = cases.iter().find(|case| case.api == api).expect("a case");
        make(&world.by("alice"), case).await;
        let first = carry_out(&world.by("bob"), &case.calls[0]).await;
        assert_eq!(first.status.is_success(), seen_by_bob, "{api}");
    }
}
