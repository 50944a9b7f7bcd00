//! No discovery document makes the reader panic, and an accepted document passes
//! [`windlass_fuzz::api::check`].
//!
//! The input is a discovery document.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_discovery::Api;
use windlass_fuzz::api;

fuzz_target!(|input: &str| {
    if let Ok(api) = Api::from_json(input) {
        api::check(&api);
    }
});
