//! Settings of a server. Each has a default that is safe on a small machine.
//!
//! The structs may get further fields, so they are made from their defaults:
//!
//! ```
//! use windlass_server::Settings;
//!
//! let mut settings = Settings::default();
//! settings.public_url = Some("https://uploads.example.com".to_owned());
//! settings.limits.uploads = 512;
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use windlass_discovery::MediaRange;
use windlass_engine::SessionLifetime;
use windlass_proto::metadata::MetadataLimits;
use windlass_rest::cors::CorsPolicy;
use windlass_rest::handler::JsonLimits;
use windlass_rest::host::{AllowedHost, Host};
use windlass_store::Quota;

pub use windlass_engine::Checkpoints;
pub use windlass_engine::disks::FreeSpace;
pub use windlass_proto::session::ChunkRule;

/// The settings of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// URL under which clients reach the server, without a slash at its end, such as
    /// `https://uploads.example.com`. Session URIs and discovery documents are built from it.
    /// Default: none; the URL is derived from each request.
    pub public_url: Option<String>,
    /// Whether to trust `Forwarded` and `X-Forwarded-*`: for the client's address, and for the URL
    /// if there is no `public_url`. Connections are then not limited by address, but concurrent
    /// requests are ([`Limits::connections_per_address`]), and [`Limits::resets_per_address`] is
    /// off. Only safe behind a proxy that overwrites these headers. Default: false.
    pub trust_forwarded: bool,
    /// The hosts that requests may name in addition to the known hosts. Always known are addresses,
    /// `localhost` and the names below it, the host of `public_url`, the hosts of APIs, and the
    /// host of downloads. A request for another host is refused (421), because a page could have
    /// pointed its own host name at the server's address (DNS rebinding). Default: none.
    pub hosts: Vec<AllowedHost>,
    /// Whether to accept batches: several calls in one request. A proxy in front of the server sees
    /// neither the HTTP methods nor the paths of these calls. Default: true.
    pub batches: bool,
    /// Id of the principal that owns resources without an owner: resources made by requests without
    /// a principal, and through APIs with [`Access::Shared`](windlass_discovery::Access). Default:
    /// none; no principal sees these resources in an API with
    /// [`Access::Owner`](windlass_discovery::Access).
    pub unowned_principal: Option<String>,
    /// How long a browser that has used https for a name must use only https for it
    /// (`Strict-Transport-Security`). Zero sends no such header. Default: a year.
    pub hsts: Duration,
    /// The origins with pages that may call the APIs from a browser. They apply to APIs without a
    /// [separate policy](crate::ServedApi::cors) and to paths that belong to no API. Default: none;
    /// preflights are then answered 405, and replies have no CORS headers.
    pub cors: Option<CorsPolicy>,
    /// Whether a session that was started with an `Origin` refuses (403) requests with another
    /// `Origin`. Requests without an `Origin` are accepted. A browser sends `Origin` with every
    /// request that a page of another origin makes to a session, and other clients have none.
    /// Default: false.
    pub bind_origin: bool,
    /// Lifetime of a session from its start. Default: a week.
    pub session_lifetime: Duration,
    /// Lifetime of a session without progress. Default: none, so that only `session_lifetime`
    /// applies.
    pub session_idle: Option<Duration>,
    /// Whether chunks must be multiples of 256 KiB. Default: strict.
    pub chunks: ChunkRule,
    /// The credentials that a request to a session needs in addition to the session's URI. Default:
    /// none.
    pub session_auth: SessionAuth,
    /// Limits on the resources that a client can make the server hold or wait for.
    pub limits: Limits,
    /// When bytes are made durable during a request.
    pub checkpoints: Checkpoints,
    /// How full the disks may become.
    pub free_space: FreeSpace,
    /// Rules for browsers that open downloaded media.
    pub downloads: Downloads,
}

/// The credentials that a request to a session needs in addition to the session's URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SessionAuth {
    /// None: the URI is a credential, as Google documents it. Some of its clients send no
    /// credentials with chunks.
    #[default]
    Uri,
    /// Credentials of the principal that started the session. A session that was started without
    /// credentials needs none.
    Owner,
}

/// Limits on the resources that a client can make the server hold or wait for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Length in bytes up to which media is kept in the ledger. Default and maximum: 64 KiB.
    pub small_media: u64,
    /// Maximum length in bytes of a request's head, at least 8 KiB. Over HTTP/2, the length is the
    /// sum of the decompressed fields and 32 bytes for each field. An upload that is faster than
    /// the disk may hold twice as much. Default: 32 KiB.
    pub head: usize,
    /// Maximum length in bytes of the headers of a part of a multipart body. In a batch, it also
    /// limits the head of a call. Default: 16 KiB.
    pub part_headers: usize,
    /// Maximum length in bytes of a JSON document. Default: 1 MiB.
    pub metadata: usize,
    /// Maximum number of values in a JSON document. A value may take about seventy bytes of memory.
    /// Default: 20,000.
    pub json_values: usize,
    /// Maximum number of objects and arrays around a value in a JSON document. Documents nested
    /// more than 127 deep are always refused. Default: 100.
    pub json_depth: usize,
    /// Bytes of memory for media on its way to the disk, over all uploads. At least 1 MiB. Default:
    /// 32 MiB.
    pub media_memory: u64,
    /// Bytes of memory for media that handlers read as a whole, such as messages that are parsed.
    /// JSON requests with media inside have the same amount, and so have JSON replies with media
    /// inside: up to three times as much in all. A request that needs more than one of these
    /// amounts gets the whole amount for itself. Default: 256 MiB.
    pub reading_memory: u64,
    /// Bytes of memory for heads of requests and their JSON, over all requests. They are counted
    /// from the first byte, and include the parsed form. Default: 24 MiB.
    pub metadata_memory: u64,
    /// Bytes of memory for replies that are not sent yet, media included, and for their sources.
    /// Default: 48 MiB.
    pub reply_memory: u64,
    /// Maximum number of connections. Further connections wait in the kernel's queue. Default:
    /// 8192.
    pub connections: usize,
    /// Maximum number of connections of one address: an IPv4 address, or a /64 network of IPv6.
    /// Further connections are closed at once. An address may have the same number of running
    /// requests, over HTTP/2 or behind a proxy. With [`Settings::trust_forwarded`], connections
    /// belong to the proxy and are not limited. 0 is no limit. Default: 1024.
    pub connections_per_address: usize,
    /// Maximum number of HTTP/2 requests that one address may reset before their reply within a
    /// minute, beyond the number of its answered requests. An address that exceeds the limit is
    /// blocked for a minute: its connections are closed. 0 is no limit.
    /// [`Settings::trust_forwarded`] turns the limit off, because clients share the connections of
    /// the proxy. Default: 100.
    pub resets_per_address: usize,
    /// Maximum number of requests per second of one address, with bursts of twice as many. Behind a
    /// [trusted proxy](Settings::trust_forwarded), the address is the address that the proxy
    /// states. Calls of a batch and preflights count, and health probes do not. Further requests
    /// are refused (429). Default: 0, no limit, because many users may share an address.
    pub requests_per_address: usize,
    /// Maximum number of requests per second of one principal, with bursts of twice as many.
    /// Default: 0, no limit.
    pub requests_per_principal: usize,
    /// Maximum number of open sessions of one principal. 0 is no limit. Default: 100,000.
    pub sessions_per_principal: usize,
    /// Maximum number of bytes of one principal. These are the bytes of its resources and their
    /// media, of its open sessions with their declared length, of its records of finished sessions,
    /// and of its waiting events. Each item is rounded up to 1 KiB. Default: 0, no limit.
    pub bytes_per_principal: u64,
    /// Maximum number of bytes that the server copies for one caller in an hour, beyond the bytes
    /// that the caller has uploaded. Copies are made for media that is concatenated from other
    /// media, and for rows that a call creates from little input, such as a message to many
    /// recipients. A caller is a principal, or otherwise an address. Further copies are refused
    /// (429). 0 is no limit. Default: 512 MiB.
    pub copies_per_hour: u64,
    /// Minimum number of bytes per second of a request's body, over a minute in which the server
    /// waits for it. 0 is no limit. Default: 512, less than the slowest mobile line.
    pub min_rate: u64,
    /// Maximum number of requests over all connections. An HTTP/1 connection carries one request,
    /// and an HTTP/2 connection up to [`Limits::streams`]. Default: 16384.
    pub requests: usize,
    /// Maximum number of concurrent requests of one HTTP/2 connection. Further requests are
    /// refused, and may be sent again. Default: 32.
    pub streams: usize,
    /// Number of body bytes that the client of an HTTP/2 connection may send before the server has
    /// read them, over all streams together. From 64 KiB to 1 GiB. Default: 1 MiB.
    pub window: usize,
    /// Maximum number of uploads. Each may have a file open. Default: 8192.
    pub uploads: usize,
    /// Maximum number of downloads. Each has a file open. Default: 2048.
    pub downloads: usize,
    /// Maximum time of a connection for the header of the PROXY protocol, the TLS handshake and the
    /// first bytes together, and again for the rest of the first head. Later it is the maximum time
    /// from a reply to the end of the next head, and over HTTP/2 the maximum time without a
    /// request. A connection that is accepted while fewer than a quarter of [`Limits::connections`]
    /// are free has at most 10 s each time, for its whole life. Default: 2 min. A shorter time
    /// closes kept connections earlier, and a client library may not retry on a closed connection.
    pub head_timeout: Duration,
    /// Maximum time without progress of a request's or a reply's body. Default: 45 s.
    pub body_timeout: Duration,
    /// Maximum time that a newer request waits for an older request on the same session. Default:
    /// 10 s.
    pub takeover_timeout: Duration,
    /// Maximum ratio of decoded to encoded bytes of a gzip body. It applies after 1 MiB of decoded
    /// bytes. Default: 200.
    pub gzip_ratio: u64,
    /// Maximum time for which a closing connection continues to read from its client, so that the
    /// client sees the reply and not a reset. Default: 10 s.
    pub linger: Duration,
    /// Maximum time for running requests to end when the server stops. Default: 8 s.
    pub drain: Duration,
}

/// Rules for browsers that open downloaded media.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Downloads {
    /// Types of media that browsers may show. Any other media is saved as a file
    /// (`Content-Disposition: attachment`). Default: [`Downloads::inline_types`].
    pub inline: Vec<MediaRange>,
    /// The pages that may embed media. Default: pages of the same origin.
    pub resource_policy: ResourcePolicy,
    /// A host that answers only downloads of media. If a browser opens media of an API that has no
    /// host, it is redirected there (307). The media is then a document of another origin than the
    /// APIs. Default: none.
    pub host: Option<Host>,
}

impl Downloads {
    /// Images, sound, films and plain text. None of these types can hold a script. SVG, HTML, XML
    /// and PDF can.
    pub fn inline_types() -> Vec<MediaRange> {
        let exact = ["avif", "bmp", "gif", "jpeg", "png", "webp"];
        let images = exact.map(|image| MediaRange::Exact(format!("image/{image}")));
        let kinds = ["audio", "video"].map(|kind| MediaRange::Type(kind.to_owned()));
        let text = MediaRange::Exact("text/plain".to_owned());
        images.into_iter().chain(kinds).chain([text]).collect()
    }
}

/// The pages that may embed media, by `<img>`, `<video>` or `<script>`:
/// `Cross-Origin-Resource-Policy` of the Fetch standard. Browsers apply it only to requests without
/// CORS. Media that a page reads by `fetch`, or embeds with `crossorigin`, is subject to
/// [`Settings::cors`].
// Requests without CORS have no `Origin`, so the policy cannot follow the list of allowed origins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourcePolicy {
    /// `same-origin`: pages of the server's own origin.
    #[default]
    SameOrigin,
    /// `same-site`: pages of the same site, such as `app.example.com` for `media.example.com`.
    SameSite,
    /// `cross-origin`: all pages.
    CrossOrigin,
}

/// A text that is no [`ResourcePolicy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not same-origin, same-site or cross-origin")]
pub struct NotAResourcePolicy {
    /// The text.
    pub text: String,
}

impl ResourcePolicy {
    /// Returns the value of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameOrigin => "same-origin",
            Self::SameSite => "same-site",
            Self::CrossOrigin => "cross-origin",
        }
    }
}

impl FromStr for ResourcePolicy {
    type Err = NotAResourcePolicy;

    fn from_str(text: &str) -> Result<Self, NotAResourcePolicy> {
        let all = [Self::SameOrigin, Self::SameSite, Self::CrossOrigin];
        let named = all.into_iter().find(|policy| policy.as_str() == text);
        named.ok_or_else(|| NotAResourcePolicy {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for ResourcePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Default for Downloads {
    fn default() -> Self {
        Self {
            inline: Self::inline_types(),
            resource_policy: ResourcePolicy::default(),
            host: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_url: None,
            trust_forwarded: false,
            hosts: Vec::new(),
            batches: true,
            unowned_principal: None,
            hsts: Duration::from_secs(31_557_600),
            cors: None,
            bind_origin: false,
            session_lifetime: Duration::from_secs(7 * 24 * 60 * 60),
            session_idle: None,
            chunks: ChunkRule::Strict,
            session_auth: SessionAuth::Uri,
            limits: Limits::default(),
            checkpoints: Checkpoints::default(),
            free_space: FreeSpace::default(),
            downloads: Downloads::default(),
        }
    }
}

impl Settings {
    /// Returns how long sessions live.
    pub(crate) fn lifetime(&self) -> SessionLifetime {
        SessionLifetime {
            total: self.session_lifetime,
            idle: self.session_idle,
        }
    }
}

impl Limits {
    /// Returns the quota of each principal.
    pub(crate) fn quota(&self) -> Quota {
        let limit = |most: u64| (most > 0).then_some(most);
        Quota {
            sessions: limit(self.sessions_per_principal as u64),
            bytes: limit(self.bytes_per_principal),
            tolerance: 0,
        }
    }

    /// Returns the limits on the JSON of a resource.
    pub(crate) fn resource_json(&self) -> JsonLimits {
        JsonLimits {
            length: self.metadata,
            values: self.json_values,
        }
    }

    /// Returns the limits of a JSON document.
    pub(crate) fn json(&self) -> MetadataLimits {
        MetadataLimits::default()
            .with_values(self.json_values)
            .with_depth(self.json_depth)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            small_media: 64 * 1024,
            head: 32 * 1024,
            part_headers: 16 * 1024,
            metadata: 1024 * 1024,
            json_values: 20_000,
            json_depth: 100,
            media_memory: 32 * 1024 * 1024,
            reading_memory: 256 * 1024 * 1024,
            metadata_memory: 24 * 1024 * 1024,
            reply_memory: 48 * 1024 * 1024,
            connections: 8192,
            connections_per_address: 1024,
            resets_per_address: 100,
            requests_per_address: 0,
            requests_per_principal: 0,
            sessions_per_principal: 100_000,
            bytes_per_principal: 0,
            copies_per_hour: 512 * 1024 * 1024,
            min_rate: 512,
            requests: 16_384,
            streams: 32,
            window: 1024 * 1024,
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
