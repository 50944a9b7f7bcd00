//! HTTPS with a certificate that the server orders itself.

use std::sync::Arc;

use tokio::net::TcpListener;
use windlass_acme::Acme;
use windlass_server::Ended;

use crate::Uploads;

impl Uploads {
    /// Serves the APIs by HTTPS on this listener, with a certificate by ACME, until `stop` resolves
    /// or storage fails. Then the server drains, as by [`Uploads::drain`].
    ///
    /// The certificate is ordered at the first start, stored in the data directory and renewed
    /// while the server runs. Until there is one, handshakes fail and the log says why. An
    /// authority such as Let's Encrypt validates the domains by connections to their port 443,
    /// which must lead to this listener and end no TLS before it (RFC 8737). One process at a time
    /// may serve a domain.
    ///
    /// Name the domain with [`Builder::public_url`](crate::Builder::public_url), and further ones
    /// in [`Settings::hosts`](windlass_server::Settings::hosts): requests for other names are
    /// refused with 421. The listener is the server's own. An application with a listener of its
    /// own takes the certificates of [`Acme`] for it.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use tokio::net::TcpListener;
    /// use windlass_embed::acme::{Acme, Options};
    /// use windlass_embed::{HttpOutbound, Uploads};
    ///
    /// # async fn example(stop: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
    /// let uploads = Uploads::open("data")
    ///     .api(include_str!("../example.toml"))
    ///     .public_url("https://up.example.com")
    ///     .start()
    ///     .await?;
    /// let options = Options {
    ///     domains: vec!["up.example.com".parse()?],
    ///     contact: vec!["ops@example.com".parse()?],
    ///     // You have read the terms of the authority, by default those of Let's Encrypt.
    ///     agree_to_terms: true,
    ///     ..Options::default()
    /// };
    /// let acme = Acme::new(options, Arc::new(HttpOutbound::default()))?;
    /// let listener = TcpListener::bind("[::]:443").await?;
    /// uploads.run_https(listener, acme, stop).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If this was called outside of a Tokio runtime.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, uploads end without a commit. No acknowledged
    /// byte is lost.
    pub async fn run_https(
        &self,
        listener: TcpListener,
        acme: Acme,
        stop: impl Future<Output = ()>,
    ) -> Ended {
        let listener = acme.listener(listener);
        let directory = Arc::clone(&self.directory);
        // It reads the stored certificate.
        let starting = tokio::task::spawn_blocking(move || acme.start(&directory));
        let renewal = starting.await.expect("starting does not panic");
        let stop = async move {
            stop.await;
            // The server can no longer answer a challenge, and another process may soon use the
            // data directory.
            drop(renewal);
        };
        self.server.run(listener, stop).await
    }
}
