//! Uploads as calls of APIs: the meaning that the server gives to the uploads of the engine.
//!
//! | module | duty |
//! |---|---|
//! | [`start_request`] | the request that started an upload, as stored with the session |
//! | [`stated_fields`] | metadata that a request states in its head |
//! | [`access`] | who may use a session |
//! | [`completion`] | from complete media to a resource and a stored reply |
//! | [`final_reply`] | the reply that ends an upload |
//! | [`single_request`] | uploads of one request: simple, multipart, and embedded in JSON |
//!
//! A *request* is an HTTP request. The *start request*
//! ([`StartRequest`](start_request::StartRequest)) is the data that the server keeps about the
//! request that started an upload: its HTTP method, its query and its conditional headers among
//! them. Later requests append to the upload, unless the first request contains all of it. A
//! *signed link* is a URL that allows uploads or downloads of one kind without credentials
//! ([`LinkTerms`](crate::LinkTerms)). The words of [`windlass_engine`] apply here as well.

pub(crate) mod access;
pub(crate) mod completion;
pub(crate) mod final_reply;
pub(crate) mod single_request;
pub(crate) mod start_request;
pub(crate) mod stated_fields;
