//! The stage of admission that answers a request which fails two stages.
//!
//! For each stage a server refuses a request by this stage alone, and for each pair of stages a
//! server refuses a request by both. `admission/pairs.txt` lists the stage that answers for each
//! pair. Clients and operators rely on the order: a reply to a page of a foreign origin, for
//! example, must not reveal who has access.
//!
//! Two limits have no stage here, because the server reads no request. A connection above
//! `limits.connections` waits in the kernel, and a connection above
//! `limits.connections_per_address` is closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use tempfile::TempDir;
use windlass_testkit::farm::UPLOADS;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request};

use crate::authentication::bearing;
use crate::callers::limited;
use crate::server::{own, scratch};

/// The table of this build.
const PAIRS: &str = include_str!("admission/pairs.txt");

/// The address of the requests that are refused, as a trusted proxy states it.
const CLIENT: &str = "192.0.2.1";

/// The addresses of the requests that hold slots.
const HOLDERS: [&str; 2] = ["198.51.100.1", "203.0.113.1"];

/// The hashes of three tokens. Each token is the name of its principal.
const CREDENTIALS: &str = "\
[[tokens]]
sha256 = '0a367b92cf0b037dfd89960ee832d56f7fc151681bb41e53690e776f5786998a'
principal = 'sender'

[[tokens]]
sha256 = '6e45386daeb0b86da1ac4c609001d1e973f90314f0b709175264865c42dc6ba7'
principal = 'holder'

[[tokens]]
sha256 = '3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30'
principal = 'reader'

[[allow]]
principals = ['sender', 'holder']

[[allow]]
principals = ['reader']
methods = ['get']
";

/// A check that admits a request or refuses it. The limit on requests comes first: the server looks
/// at nothing of a request without a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `limits.requests`.
    Requests,
    /// `limits.requests_per_address`.
    AddressRate,
    /// The host that the request names.
    Host,
    /// The page that sends the request.
    Origin,
    /// `limits.connections_per_address`, as it limits requests under way.
    AddressRequests,
    /// The token.
    Authentication,
    /// `limits.requests_per_principal`.
    PrincipalRate,
    /// What the principal may call.
    Authorization,
    /// `limits.bytes_per_principal`.
    Quota,
    /// `limits.uploads`.
    Uploads,
    /// Room on the disk for the declared length.
    Space,
}

use Stage::{
    AddressRate, AddressRequests, Authentication, Authorization, Host, Origin, PrincipalRate,
    Quota, Requests, Space, Uploads,
};

const STAGES: [Stage; 11] = [
    Requests,
    AddressRate,
    Host,
    Origin,
    AddressRequests,
    Authentication,
    PrincipalRate,
    Authorization,
    Quota,
    Uploads,
    Space,
];

/// Requests at once, of which a rate of one request a second refuses most.
const FLOOD: usize = 16;

/// An upload that the server admits with `100 Continue`.
fn upload(client: &str, len: u64) -> Request {
    Request::new("POST", format!("{UPLOADS}?uploadType=media"))
        .header("Content-Type", "image/png")
        .header("Content-Length", len)
        .header("Expect", "100-continue")
        .header("X-Forwarded-For", client)
}

impl Stage {
    /// The setting by which the stage refuses the request, if it is not the request itself.
    fn setting(self) -> &'static str {
        match self {
            AddressRate => "requests_per_address = 1\n",
            AddressRequests => "connections_per_address = 1\n",
            Requests => "requests = 2\n",
            PrincipalRate => "requests_per_principal = 1\n",
            Quota => "bytes_per_principal = '500B'\n",
            Uploads => "uploads = 2\n",
            Host | Origin | Authentication | Authorization | Space => "",
        }
    }
}

/// A server on which a request fails the given stages.
struct Scene {
    failing: Vec<Stage>,
    server: ServerProcess,
    /// Requests whose bodies the server waits for.
    held: Vec<RawPeer>,
    _directory: TempDir,
}

impl Scene {
    fn of(failing: &[Stage]) -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("it is writable");
            path.to_str().expect("it is UTF-8").to_owned()
        };
        write("auth.toml", CREDENTIALS);
        let settings: String = failing.iter().map(|stage| stage.setting()).collect();
        // A server with credentials refuses no page: it examines the credentials of the request.
        let by_principal = [Authentication, PrincipalRate, Authorization, Quota];
        let is_open =
            failing.contains(&Origin) && !failing.iter().any(|it| by_principal.contains(it));
        let auth = if is_open {
            ""
        } else {
            "[auth]\nfile = 'auth.toml'\n"
        };
        let config = write(
            "windlass.toml",
            &format!("trust_forwarded = true\n{auth}[limits]\n{settings}"),
        );
        // No disk has room for the largest media.
        let api = write(
            "farm.toml",
            "name = 'farm'\nversion = 'v1'\n[collections.animals]\nschema = { name = 'string' }\n\
             [collections.animals.media]\nmax_size = '900000TB'\n",
        );
        let mut scene = Self {
            failing: failing.to_vec(),
            server: own(&["--config", &config, "--api", &api]),
            held: Vec::new(),
            _directory: directory,
        };
        let of_client = scene.fails(AddressRequests);
        if of_client {
            scene.hold(CLIENT);
        }
        if scene.fails(Requests) || scene.fails(Uploads) {
            scene.hold(HOLDERS[0]);
            if !of_client {
                scene.hold(HOLDERS[1]);
            }
        }
        scene
    }

    fn fails(&self, stage: Stage) -> bool {
        self.failing.contains(&stage)
    }

    /// Begins an upload that passes every stage, and leaves it.
    fn hold(&mut self, client: &str) {
        let mut peer = RawPeer::connect(self.server.address());
        peer.send(bearing(&upload(client, 10), "holder").head_bytes());
        let reply = peer.next_reply().expect("it is answered");
        assert_eq!(describe(&reply), "100", "{:?}", self.failing);
        self.held.push(peer);
    }

    /// A request that fails the stages.
    fn request(&self) -> Request {
        let len = if self.fails(Space) {
            800_000_000_000_000_000
        } else {
            1000
        };
        let mut request = upload(CLIENT, len);
        if self.fails(Host) {
            request = request.header("X-Forwarded-Host", "evil.example");
        }
        if self.fails(Origin) {
            request = request.header("Origin", "https://other.example");
        }
        let token = if self.fails(Authentication) {
            "unknown"
        } else if self.fails(Authorization) {
            "reader"
        } else {
            "sender"
        };
        bearing(&request, token)
    }

    /// The answer to most of the requests that fail the stages.
    fn answer(&self) -> String {
        let is_flood = self.fails(AddressRate) || self.fails(PrincipalRate);
        let number = if is_flood { FLOOD } else { 1 };
        let mut peers: Vec<_> = (0..number)
            .map(|_| RawPeer::connect(self.server.address()))
            .collect();
        for peer in &mut peers {
            peer.send(self.request().head_bytes());
        }
        let mut counts = BTreeMap::<_, usize>::new();
        for peer in &mut peers {
            let reply = peer.next_reply().expect("it is answered");
            *counts.entry(describe(&reply)).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let (answer, _) = most.expect("there is a reply");
        if answer.starts_with("429") {
            format!("{answer} ({})", self.limit())
        } else {
            answer
        }
    }

    /// The limit on callers that has refused most of the requests, by its name in the metrics:
    /// several have the same words.
    fn limit(&self) -> &'static str {
        let limits = [
            "requests_per_address",
            "connections_per_address",
            "requests_per_principal",
            "quota",
        ];
        let most = limits
            .into_iter()
            .max_by_key(|limit| limited(&self.server, limit));
        most.expect("there are four")
    }
}

/// The status, the reason and the message of a reply.
fn describe(reply: &Reply) -> String {
    if reply.status == 100 {
        return "100".to_owned();
    }
    let error = &reply.json()["error"];
    let reason = error["errors"][0]["reason"].as_str().unwrap_or_default();
    let message = error["message"].as_str().unwrap_or_default();
    format!("{} {reason}: {message}", reply.status)
}

/// Carries out scenes on several threads, and returns their answers in the same order.
fn answers(scenes: &[Vec<Stage>]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut answered = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            match scenes.get(number) {
                Some(failing) => answered.push((number, Scene::of(failing).answer())),
                None => return answered,
            }
        }
    };
    let mut answered: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        let joined = threads.into_iter().map(ScopedJoinHandle::join);
        joined
            .flat_map(|answered| answered.expect("it does not panic"))
            .collect()
    });
    answered.sort_unstable();
    answered.into_iter().map(|(_, answer)| answer).collect()
}

#[test]
fn earlier_stage_answers_a_request_that_fails_two() {
    let alone: Vec<_> = STAGES.iter().map(|&stage| vec![stage]).collect();
    let alone = answers(&alone);
    let pairs: Vec<_> = (0..STAGES.len())
        .flat_map(|second| (0..second).map(move |first| vec![STAGES[first], STAGES[second]]))
        .collect();
    let name = |answer: &String| {
        let stage = STAGES
            .iter()
            .zip(&alone)
            .find(|(_, of_stage)| *of_stage == answer);
        stage.map_or_else(|| answer.clone(), |(stage, _)| format!("{stage:?}"))
    };
    let lines_alone = STAGES.iter().zip(&alone);
    let lines_alone = lines_alone.map(|(stage, answer)| format!("{stage:?}: {answer}"));
    let answers = answers(&pairs);
    let lines_of_pairs = pairs.iter().zip(&answers).map(|(pair, answer)| {
        let pair: Vec<_> = pair.iter().map(|stage| format!("{stage:?}")).collect();
        format!("{}: {}", pair.join(", "), name(answer))
    });
    let lines: Vec<_> = lines_alone.chain(lines_of_pairs).collect();
    let table = lines.join("\n") + "\n";
    assert!(table == PAIRS, "the table is now\n{table}");
}
