//! The header of the PROXY protocol is the same however it is cut into packets, and ends where it
//! says.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use windlass_server::fuzzing::proxied;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.build().expect("a thread has a runtime")
});

fuzz_target!(|bytes: &[u8]| {
    let whole = RUNTIME.block_on(proxied(bytes, bytes.len().max(1)));
    for piece in [1, 13] {
        assert_eq!(RUNTIME.block_on(proxied(bytes, piece)), whole);
    }
    if let Some(whole) = whole {
        assert!(bytes.ends_with(&whole.rest) && whole.rest.len() < bytes.len());
        let header = &bytes[..bytes.len() - whole.rest.len()];
        let alone = RUNTIME.block_on(proxied(header, header.len()));
        assert_eq!(alone.map(|it| it.addresses), Some(whole.addresses));
        let cut = RUNTIME.block_on(proxied(&header[..header.len() - 1], header.len()));
        assert_eq!(cut, None, "the header was complete before its end");
    }
});
