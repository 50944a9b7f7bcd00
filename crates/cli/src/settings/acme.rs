//! The settings for a certificate by ACME.

use std::path::PathBuf;

use windlass_acme::Options;
use windlass_server::AllowedHost;

/// The settings of `acme`. Without domains the server has no certificate of this kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct AcmeSettings {
    /// The settings of the order.
    pub(crate) options: Options,
    /// The file with the roots that verify the certificate of the directory's server.
    pub(crate) root_file: Option<PathBuf>,
}

impl AcmeSettings {
    /// Whether the server orders its certificate.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.options.domains.is_empty()
    }

    /// Returns the names in the certificate, by which requests reach the server.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = AllowedHost> + use<> {
        let domains = self.options.domains.clone().into_iter();
        domains.filter_map(|domain| domain.as_str().parse().ok())
    }
}
