//! Resources of API descriptions: what a call of an API means, without sockets and connections.
//!
//! A [`Registry`] holds the served APIs. An API is a [`ServedApi`]: a description, which
//! [`windlass_discovery`] reads, and an [`ApiHandler`](handler::ApiHandler), which answers its
//! calls. The [`DefaultHandler`] works for any description. `windlass-server` receives the requests,
//! `windlass-engine` receives the media.
//!
//! | module | what it holds |
//! |---|---|
//! | [`registry`] | the APIs, by host, name and path |
//! | [`handler`] | the contract of handlers: a call, an answer, a refusal, access to the stores |
//! | [`default_handler`] | the handler that works for any description |
//! | [`principal`], [`access`], [`link_terms`] | who calls, and why a call is not allowed |
//! | [`namespace`] | the resources of one owner, apart from other owners' |
//! | [`precondition`], [`partial_response`] | `If-Match` and its relatives, and the parameter `fields` |
//! | [`backends`], [`on_uploaded`], [`outbound`] | services and callbacks that hear of calls and uploads |
//! | [`outbox`] | events that are committed with an answer and delivered later |
//! | [`refused_inputs`], [`pattern_checks`] | inputs that are refused, and texts that take long to check |
//! | [`reply_pools`] | the memory of replies |
//! | [`host`], [`cors`] | the hosts on which an API answers, and the origins of its pages |
//!
//! # Features
//!
//! `openapi`, on by default, describes each API in OpenAPI, too. The crate turns on the feature
//! `preserve_order` of `serde_json`, also for the rest of the application: replies and documents
//! keep the order of their fields.

pub mod access;
pub mod backends;
pub mod cors;
pub mod default_handler;
pub mod handler;
pub mod host;
pub mod link_terms;
pub mod namespace;
pub mod on_uploaded;
pub mod outbound;
pub mod outbox;
pub mod partial_response;
pub mod pattern_checks;
pub mod precondition;
pub mod principal;
pub mod refused_inputs;
pub mod registry;
pub mod reply_pools;

pub use access::AccessError;
pub use backends::{BACKEND_CALLS, Backends, NotAServiceSecret, ServiceSecret};
pub use cors::{AllowedOrigin, CorsPolicy, CredentialsForAll, NotAnOrigin};
pub use default_handler::{
    DefaultHandler, Fit, StoredResources, patched_fields, unanswered_methods,
};
pub use handler::{Input, RefusedAs};
pub use host::{AllowedHost, Host, NotAHost};
pub use link_terms::{LinkPurpose, LinkTerms};
pub use on_uploaded::{UploadCallback, UploadedResource};
pub use outbox::TopicCounts;
pub use principal::Principal;
pub use refused_inputs::{RefusedInput, RefusedInputs};
pub use registry::{Conflict, Registry, ServedApi};
