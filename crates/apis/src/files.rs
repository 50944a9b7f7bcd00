//! The API of files: any media, with a name, at the path `/files`.
//!
//! It is for uploads without an API of one's own, such as those of tus clients. The default handler
//! serves it.

use windlass_rest::ServedApi;

use crate::{ApiProvider, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "files",
    inputs: include_str!("files/inputs.toml"),
    built_in: |_| {
        vec![ServedApi::with_default_handler(description(include_str!(
            "files/files.toml"
        )))]
    },
    from_document: |api, _| ServedApi::with_default_handler(api),
};
