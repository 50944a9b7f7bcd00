//! Clients that record what a server has acknowledged, and check it after every fault.
//!
//! The rules are in [`oracle`](crate::oracle). Rule 5 is not visible from outside. The command
//! `windlass verify` checks it.
//!
//! The checker speaks the protocol from outside and knows nothing of a server's insides. A
//! [`Dialect`] holds the differences between protocols, so that other servers can be checked too.
//! An acknowledgement counts from the moment that its reply was read. A request without a reply may
//! or may not have happened.
//!
//! ```no_run
//! use windlass_testkit::checker::{Google, Load, Workload};
//!
//! let address = "127.0.0.1:8080".parse().unwrap();
//! let mut workload = Workload::new(Google::farm(), Load::default(), 1);
//! workload.run_while(address, || { /* break something */ });
//! // ... mend it, and then
//! workload.check(address);
//! workload.finish(address);
//! assert!(workload.violations().is_empty(), "{:#?}", workload.violations());
//! ```

mod dialect;
mod load;
#[cfg(test)]
mod tests;
mod upload;
mod workload;

pub use crate::oracle::{Answer, Event, Promise, Rule, Violation};
pub use dialect::{Dialect, FarmDialects, Google, Ietf, Listing, Resumable308, Tus, XGoogUpload};
pub use load::{Load, UploadStyle};
pub use upload::{Record, Upload};
pub use workload::{Figures, LostBytes, Workload};
