//! Calls opendal's service for Cloud Storage: with_opendal URL VERB ARGUMENT...

use std::env;
use std::error::Error;
use std::io::{self, Write};

use opendal::Operator;
use opendal::layers::RetryLayer;
use opendal::services::Gcs;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [url, verb, rest @ ..] = arguments.as_slice() else {
        return Err("usage: with_opendal URL VERB ARGUMENT...".into());
    };
    let service = Gcs::default().bucket("barn").endpoint(url).skip_signature();
    let barn = Operator::new(service)?.layer(RetryLayer::new());
    match (*verb, rest) {
        ("put", [name, path, chunk]) => put(&barn, name, path, chunk.parse()?).await,
        ("get", [name, offset, length]) => {
            get(&barn, name, offset.parse()?, length.parse().ok()).await
        }
        ("list", [prefix]) => {
            for entry in barn.list_with(prefix).recursive(true).await? {
                println!("{}", entry.path());
            }
            Ok(())
        }
        ("copy", [from, to]) => barn.copy(from, to).await.map(drop).map_err(Into::into),
        ("delete", names) => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            barn.delete_iter(names).await.map_err(Into::into)
        }
        _ => Err(format!("no such call: {verb}").into()),
    }
}

async fn put(barn: &Operator, name: &str, path: &str, chunk: usize) -> Result<(), Box<dyn Error>> {
    let media = std::fs::read(path)?;
    if chunk == 0 {
        barn.write(name, media).await?;
    } else {
        barn.write_with(name, media).chunk(chunk).await?;
    }
    Ok(())
}

/// A length that is no number stands for the rest.
async fn get(
    barn: &Operator,
    name: &str,
    offset: u64,
    length: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let media = match length {
        Some(length) => barn.read_with(name).range(offset..offset + length).await?,
        None => barn.read_with(name).range(offset..).await?,
    };
    io::stdout().write_all(&media.to_bytes())?;
    Ok(())
}
