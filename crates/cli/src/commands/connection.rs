//! The way to a server.

use std::future::Future;

use windlass_client::{Client, RetryPolicy, Settings, TokenSource, Upload};

use super::Error;
use crate::args::{ConnectionArgs, TokenArgs};
use crate::settings::{TOKEN_VARIABLE, client_variable};

/// Runs a command of the client to its end.
pub(super) fn block_on<T>(command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let result = runtime.block_on(command);
    // Whatever still runs waits for a terminal or a pipe that may never say anything.
    runtime.shutdown_background();
    result
}

/// A client, and whether it has a token.
pub(super) fn client(args: &TokenArgs) -> Result<(Client, bool), Error> {
    let token = token(args)?;
    let has_token = token.is_some();
    let settings = Settings::default().with_token(token);
    Ok((Client::new(settings)?, has_token))
}

/// An upload with this patience.
pub(super) fn with_retries(upload: Upload, args: &ConnectionArgs) -> Upload {
    let upload = upload.patience(retry_policy(args));
    match args.timeout {
        Some(limit) => upload.timeout(limit),
        None => upload,
    }
}

/// How often is tried what fails.
pub(super) fn retry_policy(args: &ConnectionArgs) -> Patience {
    let mut patience = Patience::default();
    if let Some(waits) = args.retries {
        patience.schedule = patience.schedule.with_waits(waits);
    }
    patience
}

fn token(args: &TokenArgs) -> Result<Option<TokenSource>, Error> {
    let text = match &args.token {
        Some(text) => Some(text.clone()),
        None => client_variable(TOKEN_VARIABLE)
            .map(|text| {
                text.into_string().map_err(|_| Error::NotUnicode {
                    variable: TOKEN_VARIABLE,
                })
            })
            .transpose()?,
    };
    let source = text.map(|text| TokenSource::parse(&text)).transpose()?;
    Ok(source)
}
