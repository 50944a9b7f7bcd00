use windlass_store::memory::{MemoryLedger, MemoryVault};

use super::*;

/// A sink of large media that has accepted as many bytes as it may hold without pooled memory.
fn full_sink(buffer_pool: &BufferPool) -> MediaSink {
    let sink_deps = SinkDeps {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
        buffer_pool: buffer_pool.clone(),
        small_media_limit: UNPOOLED_MAYBE_SMALL,
        now: Timestamp::from_millis(0),
    };
    let mut sink = MediaSink::new(sink_deps, Wanted::default());
    sink.announce_length(Some(1 << 20));
    sink.accept(&mut Bytes::from(vec![1; UNPOOLED_LARGE]));
    sink
}

#[tokio::test]
async fn pooled_bytes_are_written_while_more_is_read() {
    let mut sink = full_sink(&BufferPool::new(0));
    assert!(sink.find_room());
    assert!(sink.write(true, ()).await.unwrap().is_none());
    assert!(sink.owes_progress());
}

#[tokio::test]
async fn unpooled_bytes_are_written_before_more_is_read() {
    let buffer_pool = BufferPool::new(0);
    let acquired: Vec<_> = std::iter::from_fn(|| buffer_pool.acquire(Priority::High)).collect();
    let mut sink = full_sink(&buffer_pool);
    assert!(!sink.find_room());
    let unsynced = sink.write(true, ()).await.unwrap().unwrap();
    assert_eq!(unsynced.progress.offset, UNPOOLED_LARGE as u64);
    assert!(!sink.owes_progress());
    drop(acquired);
}

#[tokio::test]
async fn bytes_that_a_write_has_left_uncommitted_can_be_committed_during_a_pause() {
    let buffer_pool = BufferPool::new(0);
    let acquired: Vec<_> = std::iter::from_fn(|| buffer_pool.acquire(Priority::High)).collect();
    let mut sink = full_sink(&buffer_pool);
    assert!(!sink.find_room());
    assert!(sink.write(false, ()).await.unwrap().is_none());
    let unsynced = sink.write(true, ()).await.unwrap().unwrap();
    assert_eq!(unsynced.progress.offset, UNPOOLED_LARGE as u64);
    drop(acquired);
}
