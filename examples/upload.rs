//! An upload that survives broken connections, an overloaded server and the end of this process.
//!
//! `cargo run --bin upload -- photo.jpg http://127.0.0.1:8080/upload/farm/v1/animals`
//!
//! A resumable session is recorded in the journal, the directory `uploads`, before its first byte is sent.
//! When the program is started again with the same file and URL, it asks the server for the committed
//! offset and sends the rest.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its user"
)]

use std::error::Error;

use serde_json::json;
use windlass_client::{Client, Journal, Source, Upload};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(url)) = (args.next(), args.next()) else {
        return Err("usage: upload FILE URL [JOURNAL]".into());
    };
    let journal = args.next().unwrap_or_else(|| "uploads".to_owned());

    let client = Client::builder().build()?;
    let upload = Upload::new(url.parse()?)?
        .content_type("image/jpeg")?
        .metadata(&json!({"name": file}))?
        .journal(Journal::open(journal)?)
        .on_progress(|now| eprintln!("{} bytes sent, {} committed", now.sent, now.committed));
    let uploaded = client.upload(upload, Source::path(file)).await?;
    println!("{}", uploaded.resource.unwrap_or_default());
    Ok(())
}
