//! What an operator may set. Every value has a default that is safe on a small machine.

use std::time::Duration;

pub use windlass_proto::session::ChunkRule;

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL under which clients reach the server, without a slash at its end, e.g.
    /// `https://uploads.example.com`. Session URIs and discovery documents are built from it.
    /// Default: none; taken from each request.
    pub public_url: Option<String>,
    /// Believe `Forwarded` and `X-Forwarded-*` when there is no `public_url`. Default: false. Only
    /// safe behind a proxy that overwrites these headers.
    pub trust_forwarded: bool,
    /// How long a session lives after its start. Default: a week.
    pub session_lifetime: Duration,
    /// How long a session lives without progress. Default: none, as long as its lifetime.
    pub session_idle: Option<Duration>,
    /// Whether chunks must be multiples of 256 KiB. Default: strict.
    pub chunks: ChunkRule,
    /// Limits on what a client may make the server hold or wait for.
    pub limits: Limits,
    /// When bytes are made durable while a request still goes on.
    pub checkpoints: Checkpoints,
    /// How full the disk may become.
    pub free_space: FreeSpace,
}

/// Limits on what a client may make the server hold or wait for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Media up to this many bytes is kept in the ledger. Default: 64 KiB, which is also the most.
    pub small_media: u64,
    /// The longest JSON document that is accepted. Default: 1 MiB.
    pub metadata: usize,
    /// Memory for media on its way to the disk, over all uploads, at least 1 MiB. Default: 32 MiB.
    pub media_memory: u64,
    /// Memory for media that handlers read whole, such as messages that are parsed, and as much again for
    /// JSON bodies with media inside, both ways. Who needs more than there is gets all of it, alone. Default:
    /// 256 MiB.
    pub reading_memory: u64,
    /// Memory for heads of requests and JSON that comes with them, over all requests: from the first byte on, and with what
    /// it becomes when it is read. Default: 24 MiB.
    pub metadata_memory: u64,
    /// Memory for replies that are not sent yet, media too, and for what they are made from. Default: 48 MiB.
    pub reply_memory: u64,
    /// Connections at the same time; more wait in the kernel's queue. Default: 8192.
    pub connections: usize,
    /// Requests at the same time, over all connections. Over HTTP/1 a connection carries one, over HTTP/2 up to 32.
    /// Default: 16384.
    pub requests: usize,
    /// Uploads at the same time, each of which may have a file open. Default: 8192.
    pub uploads: usize,
    /// Downloads at the same time, each of which has a file open. Default: 2048.
    pub downloads: usize,
    /// How long a connection may wait for a request head, from its opening or from the last reply; how long one
    /// over HTTP/2 is kept without a request. Default: 2 min. A client library that finds its kept connection closed may not try again.
    pub head_timeout: Duration,
    /// How long a body may stand still, be it on its way in or out. Default: 45 s.
    pub body_timeout: Duration,
    /// How long a newer request waits for an older one on the same session. Default: 10 s.
    pub takeover_timeout: Duration,
    /// How much of a gzip body may come out of one byte, once more than 1 MiB came out. Default: 200.
    pub gzip_ratio: u64,
    /// How long a closing connection goes on reading what the client still sends, so that the
    /// client sees the reply and not a reset. Default: 10 s.
    pub linger: Duration,
    /// How long running requests may take to come to an end when the server stops. Default: 8 s.
    pub drain: Duration,
}

/// When bytes are made durable while a request still goes on.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    /// After so many bytes. Default: 16 MiB.
    pub bytes: u64,
    /// After so much time, when there are new bytes. Default: 1 s.
    pub interval: Duration,
}

/// How full the disk may become.
#[derive(Debug, Clone)]
pub struct FreeSpace {
    /// With less than this no upload is started: 503. Default: 256 MiB.
    pub soft: u64,
    /// With less than this no media is taken: 503. Queries, cancels, deletes and finishes go on.
    /// Default: 64 MiB.
    pub hard: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_url: None,
            trust_forwarded: false,
            session_lifetime: Duration::from_secs(7 * 24 * 60 * 60),
            session_idle: None,
            chunks: ChunkRule::Strict,
            limits: Limits::default(),
            checkpoints: Checkpoints::default(),
            free_space: FreeSpace::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            small_media: 64 * 1024,
            metadata: 1024 * 1024,
            media_memory: 32 * 1024 * 1024,
            reading_memory: 256 * 1024 * 1024,
            metadata_memory: 24 * 1024 * 1024,
            reply_memory: 48 * 1024 * 1024,
            connections: 8192,
            requests: 16_384,
            uploads: 8192,
            downloads: 2048,
            head_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(45),
            takeover_timeout: Duration::from_secs(10),
            gzip_ratio: 200,
            linger: Duration::from_secs(10),
            drain: Duration::from_secs(8),
        }
    }
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            interval: Duration::from_secs(1),
        }
    }
}

impl Default for FreeSpace {
    fn default() -> Self {
        Self {
            soft: 256 * 1024 * 1024,
            hard: 64 * 1024 * 1024,
        }
    }
}
