//! API descriptions: what an API's methods are called, where they live, and what they accept.
//!
//! A description comes in one of two forms: a Google **discovery document** (JSON, as published) or
//! the **short form** (TOML), which compiles to a discovery document. Either becomes an [`Api`]:
//! the document, checked, plus its [`Method`]s in the form a server wants to have them. Several
//! APIs together make a [`MethodTable`], which answers the question *which method is this request?*
//!
//! [`lint`](lint::lint) tells all that is wrong with a document, and what is odd about it.
//!
//! There is no HTTP here, no I/O and no clock: everything is a function of its arguments.
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
pub mod document;
pub mod error;
pub mod lint;
pub mod media_range;
pub mod method;
pub mod method_table;
pub mod parameter;
pub mod pattern;
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
pub use schema::Schema;
pub use settings::{CreatedStatus, Digest, Settings};
pub use template::{PathParameters, Template};
