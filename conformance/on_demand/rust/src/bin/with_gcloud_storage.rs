//! Calls the crate gcloud-storage: with_gcloud_storage URL VERB ARGUMENT...

use std::env;
use std::error::Error;
use std::io::{self, Write};

use gcloud_storage::client::{Client, ClientConfig};
use gcloud_storage::http::objects::SourceObjects;
use gcloud_storage::http::objects::compose::{ComposeObjectRequest, ComposingTargets};
use gcloud_storage::http::objects::delete::DeleteObjectRequest;
use gcloud_storage::http::objects::download::Range;
use gcloud_storage::http::objects::get::GetObjectRequest;
use gcloud_storage::http::objects::list::ListObjectsRequest;
use gcloud_storage::http::objects::rewrite::RewriteObjectRequest;
use gcloud_storage::http::objects::upload::{Media, UploadObjectRequest, UploadType};
use gcloud_storage::http::resumable_upload_client::{ChunkSize, UploadStatus};

const BARN: &str = "barn";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [url, verb, rest @ ..] = arguments.as_slice() else {
        return Err("usage: with_gcloud_storage URL VERB ARGUMENT...".into());
    };
    let mut config = ClientConfig::default().anonymous();
    config.storage_endpoint = (*url).to_owned();
    let client = Client::new(config);
    match (*verb, rest) {
        ("put", [name, path, chunk]) => put(&client, name, path, chunk.parse()?).await,
        ("get", [name, offset, length]) => {
            get(&client, name, offset.parse()?, length.parse().ok()).await
        }
        ("list", [prefix]) => list(&client, prefix).await,
        ("copy", [from, to]) => copy(&client, from, to).await,
        ("compose", [to, from @ ..]) => compose(&client, to, from).await,
        ("delete", names) => delete(&client, names).await,
        _ => Err(format!("no such call: {verb}").into()),
    }
}

async fn put(client: &Client, name: &str, path: &str, chunk: u64) -> Result<(), Box<dyn Error>> {
    let media = std::fs::read(path)?;
    let request = UploadObjectRequest {
        bucket: BARN.to_owned(),
        ..Default::default()
    };
    let kind = UploadType::Simple(Media::new(name.to_owned()));
    if chunk == 0 {
        client.upload_object(&request, media, &kind).await?;
        return Ok(());
    }
    let session = client.prepare_resumable_upload(&request, &kind).await?;
    let total = media.len() as u64;
    if total == 0 {
        session.upload_single_chunk(media, 0).await?;
        return Ok(());
    }
    let mut first = 0;
    loop {
        let end = total.min(first + chunk);
        let size = ChunkSize::new(first, end - 1, Some(total));
        let bytes = media[first as usize..end as usize].to_vec();
        // The library repeats nothing by itself; it can ask how much has arrived.
        let status = match session.upload_multiple_chunk(bytes, &size).await {
            Ok(status) => status,
            Err(_) => session.status(Some(total)).await?,
        };
        match status {
            UploadStatus::Ok(_) => return Ok(()),
            UploadStatus::ResumeIncomplete(range) => first = range.last_byte + 1,
            UploadStatus::NotStarted => first = 0,
        }
    }
}

/// A length that is no number stands for the rest.
async fn get(
    client: &Client,
    name: &str,
    offset: u64,
    length: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let request = GetObjectRequest {
        bucket: BARN.to_owned(),
        object: name.to_owned(),
        ..Default::default()
    };
    let range = match (offset, length) {
        (0, None) => Range::default(),
        (offset, length) => Range(Some(offset), length.map(|length| offset + length - 1)),
    };
    let media = client.download_object(&request, &range).await?;
    io::stdout().write_all(&media)?;
    Ok(())
}

async fn list(client: &Client, prefix: &str) -> Result<(), Box<dyn Error>> {
    let request = ListObjectsRequest {
        bucket: BARN.to_owned(),
        prefix: Some(prefix.to_owned()),
        ..Default::default()
    };
    for object in client
        .list_objects(&request)
        .await?
        .items
        .unwrap_or_default()
    {
        println!("{}", object.name);
    }
    Ok(())
}

async fn copy(client: &Client, from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let request = RewriteObjectRequest {
        source_bucket: BARN.to_owned(),
        source_object: from.to_owned(),
        destination_bucket: BARN.to_owned(),
        destination_object: to.to_owned(),
        ..Default::default()
    };
    let done = client.rewrite_object(&request).await?.done;
    done.then_some(())
        .ok_or_else(|| "the copy is not done".into())
}

async fn compose(client: &Client, to: &str, from: &[&str]) -> Result<(), Box<dyn Error>> {
    let source = |name: &&str| SourceObjects {
        name: (*name).to_owned(),
        ..Default::default()
    };
    let request = ComposeObjectRequest {
        bucket: BARN.to_owned(),
        destination_object: to.to_owned(),
        composing_targets: ComposingTargets {
            source_objects: from.iter().map(source).collect(),
            ..Default::default()
        },
        ..Default::default()
    };
    client.compose_object(&request).await?;
    Ok(())
}

async fn delete(client: &Client, names: &[&str]) -> Result<(), Box<dyn Error>> {
    for name in names {
        let request = DeleteObjectRequest {
            bucket: BARN.to_owned(),
            object: (*name).to_owned(),
            ..Default::default()
        };
        client.delete_object(&request).await?;
    }
    Ok(())
}
