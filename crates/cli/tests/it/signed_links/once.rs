//! Links that count once.

use super::*;

#[test]
fn link_that_counts_once_makes_one_resource() {
    let linked = Linked::new();
    let used = "counts once and has been used";
    let address = linked.server.address();
    let link = linked.sign(&["--once"], UPLOADS);
    let start = linked.request("POST", format!("{}&uploadType=resumable", link.target));
    let start = start.body("");
    let first = Session::of_reply(address, &linked.send(&start).expect(200));
    // A client that has not got the first reply.
    let second = Session::of_reply(address, &linked.send(&start).expect(200));
    first.append(MEDIA, 0..262_144).expect(308);
    second.append(MEDIA, 0..MEDIA.len()).expect(201);
    check_refusal(&first.append(MEDIA, 262_144..MEDIA.len()), 403, used);
    linked.check_refused(&start, 403, used);
    linked.check_refused(&linked.simple(&link).body("cow"), 403, used);
    second.query().expect(201);
    assert_eq!(linked.count(), 1);

    let link = linked.sign(&["--once"], UPLOADS);
    let simple = linked.simple(&link);
    // A failed upload does not count.
    let broken = simple.clone().header("X-Goog-Hash", "crc32c=AAAAAA==");
    linked.send(&broken.body("cow")).expect(400);
    linked.send(&simple.clone().body("cow")).expect(200);
    linked.check_refused(&simple.body("cow"), 403, used);
    assert_eq!(linked.count(), 2);
}

#[test]
fn use_of_a_link_is_remembered_after_kill_9() {
    let mut linked = Linked::new();
    let link = linked.sign(&["--once"], UPLOADS);
    linked.send(&linked.simple(&link).body("cow")).expect(200);
    linked.server.kill9();
    linked.server.start_again();
    let mut again = linked.simple(&link).body("cow");
    // The port is another one, and is not signed.
    again = again.header("Host", linked.server.address());
    linked.check_refused(&again, 403, "has been used");
    assert_eq!(linked.count(), 1);
}

#[test]
fn download_link_that_counts_once_gives_the_media_once() {
    let linked = Linked::new();
    let animal = format!("{ANIMALS}/{}", farm::id(&linked.animal()));
    let link = linked.sign(&["--once"], &animal);
    let get = linked.request("GET", &link.target);
    // Without the media.
    let mut peer = RawPeer::connect(linked.server.address());
    peer.send(linked.request("HEAD", &link.target).to_bytes());
    let head = peer.head_reply();
    assert_eq!(head.status, 200);
    // A copy in a cache would be a second use.
    assert_eq!(head.header("cache-control"), Some("no-store"));
    let unsatisfiable = get.clone().header("Range", "bytes=999999-");
    linked.send(&unsatisfiable).expect(416);
    let media = linked.send(&get).expect(200);
    assert!(media.body == MEDIA.whole(), "other media");
    assert_eq!(media.header("cache-control"), Some("no-store"));
    linked.check_refused(&get, 403, "has been used");
    let rest = get.header("Range", "bytes=1-");
    linked.check_refused(&rest, 403, "has been used");
}

#[test]
fn uploads_that_end_together_by_a_link_that_counts_once_make_one_resource() {
    const UPLOADS_AT_ONCE: usize = 4;
    let linked = Linked::new();
    for round in 1..=8 {
        let link = linked.sign(&["--once"], UPLOADS);
        let bytes = linked.simple(&link).body(MEDIA.whole()).to_bytes();
        let (most, last) = bytes.split_at(bytes.len() - 1);
        let mut peers: Vec<_> = (0..UPLOADS_AT_ONCE)
            .map(|_| {
                let mut peer = RawPeer::connect(linked.server.address());
                peer.send(most);
                peer
            })
            .collect();
        for peer in &mut peers {
            peer.send(last);
        }
        let statuses: Vec<_> = peers.iter_mut().map(|peer| peer.reply().status).collect();
        let made = statuses.iter().filter(|status| **status == 200).count();
        let refused = statuses.iter().filter(|status| **status == 403).count();
        assert_eq!((made, refused), (1, UPLOADS_AT_ONCE - 1), "{statuses:?}");
        assert_eq!(linked.count(), round);
    }
}
