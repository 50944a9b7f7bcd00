//! No description in the short form makes the reader panic. A refusal has mistakes with positions
//! in the text, and an accepted description passes [`windlass_fuzz::api::check`].
//!
//! The input is a description in the short form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_discovery::{Api, Error};
use windlass_fuzz::api;

fuzz_target!(|input: &str| {
    let error = match Api::from_toml(input) {
        Ok(api) => return api::check(&api),
        Err(error) => error,
    };
    assert!(!error.to_string().is_empty());
    if let Error::ShortForm(error) = error {
        let lines = 1 + input.matches('\n').count();
        let mut last = 0;
        for mistake in error.mistakes() {
            assert!(input.get(mistake.span.clone()).is_some(), "{mistake:?}");
            assert!((1..=lines).contains(&mistake.position.line), "{mistake:?}");
            assert!(mistake.position.line >= last, "{error:?}");
            assert!(!mistake.problem.is_empty());
            last = mistake.position.line;
        }
        assert!(last > 0, "an error has a mistake");
    }
});
