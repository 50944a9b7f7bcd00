//! The floor without HTTP: a thread for each connection, one buffer for each thread.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::file_store::FileStore;
use super::{BATCH, LISTEN, listening};

/// Serves until the process is killed.
pub(super) fn serve(file_store: &FileStore) -> anyhow::Result<()> {
    let listener = TcpListener::bind(LISTEN)?;
    listening("tcp", listener.local_addr()?);
    let count = AtomicU64::new(0);
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let (stream, count) = (stream?, &count);
            // A client that goes away is no concern of a floor.
            scope.spawn(move || connection(stream, file_store, count).ok());
        }
        Ok(())
    })
}

fn connection(mut stream: TcpStream, file_store: &FileStore, count: &AtomicU64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    let mut length = [0; 8];
    loop {
        stream.read_exact(&mut length)?;
        let name = count.fetch_add(1, Ordering::Relaxed).to_string();
        store(
            &mut stream,
            &mut buffer,
            u64::from_be_bytes(length),
            file_store,
            &name,
        )?;
        stream.write_all(&[0])?;
    }
}

fn store(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    length: u64,
    file_store: &FileStore,
    name: &str,
) -> io::Result<()> {
    let mut file = file_store.open_to_write(name)?;
    let mut left = length;
    while left > 0 {
        let batch = usize::try_from(left).unwrap_or(BATCH).min(BATCH);
        if buffer.len() < batch {
            buffer.resize(batch, 0);
        }
        stream.read_exact(&mut buffer[..batch])?;
        file.write_all(&buffer[..batch])?;
        left -= batch as u64;
    }
    file_store.finish(&file)
}
