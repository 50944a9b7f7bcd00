//! API descriptions for a server of Google-style APIs.
//!
//! A server needs to know the methods of an API: their paths, their parameters, and which media
//! they accept. This crate reads that from a description in one of two forms:
//!
//! - a Google **discovery document** (JSON, as published by Google), see [`document`];
//! - the **short form**, a few lines of TOML that compile to a discovery document, see
//!   [`short_form`].
//!
//! Both become an [`Api`], which is the checked document with its [`Method`]s. A [`MethodTable`] of
//! several APIs finds the method that a request calls. [`lint`](lint::lint) reports all errors and
//! warnings of a document instead of the first error only.
//!
//! For tools that read no discovery documents, `openapi` describes an API as OpenAPI 3.1. It needs
//! the feature `openapi`, which is on by default.
//!
//! The crate does no I/O and uses no clock: its results depend on the arguments only.
//!
//! # Example
//!
//! An API with one collection, the method of a request, and the document that clients get:
//!
//! ```
//! use windlass_discovery::{Api, Found, MethodTable, Target};
//!
//! let farm = Api::from_toml(r#"
//!     name = "farm"
//!     version = "v1"
//!
//!     [collections.animals]
//!     schema = { name = "string", species = "string" }
//!
//!     [collections.animals.media]
//!     accept = ["image/*"]
//!     max_size = "5GB"
//! "#)?;
//! let table = MethodTable::new([&farm]);
//!
//! let found = table.find(&http::Method::PUT, "/upload/farm/v1/animals/bella");
//! let Found::Method { method, target, parameters } = found else { panic!("not found") };
//! assert_eq!(method.id, "farm.animals.update");
//! assert_eq!(target, Target::Upload);
//! assert_eq!(parameters.value("animalId"), Some("bella"));
//!
//! let served = farm.document().served_at("http://127.0.0.1:8080");
//! assert_eq!(served.base_url.as_deref(), Some("http://127.0.0.1:8080/farm/v1/"));
//! # Ok::<(), windlass_discovery::Error>(())
//! ```

pub mod api;
pub mod byte_size;
pub mod curl;
pub mod document;
pub mod error;
pub mod lint;
pub mod media_range;
pub mod method;
pub mod method_table;
mod mistake;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod parameter;
pub mod pattern;
mod response_fields;
pub mod schema;
pub mod settings;
pub mod short_form;
pub mod template;

pub use api::Api;
pub use byte_size::ByteSize;
pub use document::Document;
pub use error::{Error, Fault};
pub use media_range::{MediaRange, MediaType};
pub use method::{MediaUpload, Method};
pub use method_table::{Collision, Found, MethodTable, Target};
pub use parameter::{Location, Numbers, Parameter};
pub use pattern::Pattern;
pub use response_fields::ResponseFields;
pub use schema::Schema;
pub use settings::{Access, CollectionSettings, CreatedStatus, Digest, Settings};
pub use template::{PathParameters, Template};
