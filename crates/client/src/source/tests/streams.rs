use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use proptest::prelude::*;
use tokio::io::ReadBuf;

use super::super::stream::Filled;
use super::*;

const WINDOW: u64 = CHUNK_GRANULARITY;

/// A reader that returns pieces of the given sizes in a cycle. It is pending once before each of
/// them, and fails once where a size is 0.
struct FlakyReader {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
    ready: bool,
}

impl FlakyReader {
    fn new(bytes: Vec<u8>, sizes: Vec<usize>) -> Self {
        Self {
            bytes,
            at: 0,
            sizes,
            turn: 0,
            ready: false,
        }
    }
}

impl AsyncRead for FlakyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.ready = !self.ready;
        if self.ready {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let size = self.sizes[self.turn % self.sizes.len()];
        self.turn += 1;
        if size == 0 {
            return Poll::Ready(Err(io::Error::other("a transient failure")));
        }
        let len = size.min(buf.remaining()).min(self.bytes.len() - self.at);
        buf.put_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Poll::Ready(Ok(()))
    }
}

/// An operation of an upload on a stream. Numbers are per mille of the media, or of the kept bytes.
#[derive(Debug, Clone)]
enum Step {
    Fill(u64),
    DroppedFill(u64),
    Read(u64, u64),
    Release(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let share = 0..=1100_u64;
    prop_oneof![
        share.clone().prop_map(Step::Fill),
        share.clone().prop_map(Step::DroppedFill),
        (0..=1000_u64, 0..=1000_u64).prop_map(|(from, to)| Step::Read(from, to)),
        share.prop_map(Step::Release),
    ]
}

/// Executes the steps and compares every result with the bytes.
async fn check(bytes: &[u8], mut media: Media, steps: &[Step]) {
    let len = bytes.len() as u64;
    let windowed = media.window().is_some();
    let (mut first, mut end) = (0, 0);
    for step in steps {
        match *step {
            Step::Fill(share) => {
                let upto = len * share / 1000;
                let filled = match media.fill(upto).await {
                    Err(SourceError::ReadStream { .. }) => continue,
                    filled => filled.unwrap(),
                };
                let fill_limit = if windowed { first + WINDOW + 1 } else { len };
                assert!(filled.end >= end);
                assert!(filled.end >= upto.min(fill_limit).min(len));
                assert!(filled.end <= fill_limit);
                assert!(!filled.ended || filled.end == len);
                end = filled.end;
            }
            Step::DroppedFill(share) => {
                let _ = media.fill(len * share / 1000).now_or_never();
            }
            Step::Read(from, to) => {
                let from = first + (end - first) * from / 1000;
                let to = first + (end - first) * to / 1000;
                let wanted = usize::try_from(from).unwrap()..usize::try_from(to.max(from)).unwrap();
                let found = read(&media, from..to).await.unwrap();
                assert!(found == bytes[wanted], "{from}..{to}");
            }
            Step::Release(share) => {
                let before = len * share / 1000;
                media.release(before.min(end));
                if windowed {
                    first = first.max(before.min(end));
                }
            }
        }
        if windowed && first > 0 {
            assert!(read(&media, first - 1..first).await.is_err());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_fills_reads_and_releases_yields_the_bytes(
        len in prop_oneof![0..2000_usize, 400_000..900_000_usize],
        sizes in prop::collection::vec(prop_oneof![9 => 1..200_000_usize, 1 => Just(0)], 1..6)
            .prop_filter("one size is positive", |sizes| sizes.iter().any(|size| *size > 0)),
        steps in prop::collection::vec(step(), 1..40),
        spilled in any::<bool>(),
    ) {
        let bytes = some_media(len);
        let directory = tempfile::tempdir().unwrap();
        let source = Source::reader(FlakyReader::new(bytes.clone(), sizes)).with_window(WINDOW);
        let source = if spilled { source.spilled_to(directory.path()) } else { source };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            check(&bytes, source.open().await.unwrap(), &steps).await;
        });
    }
}

#[tokio::test]
async fn window_reads_one_byte_ahead_and_continues_after_a_release() {
    let bytes = some_media(3 * usize::try_from(WINDOW).unwrap());
    let reader = FlakyReader::new(bytes.clone(), vec![10_000]);
    let mut media = Source::reader(reader).with_window(1).open().await.unwrap();
    assert_eq!(media.window(), Some(WINDOW));
    let mut sent = Vec::new();
    for chunk in 0..3 {
        let (start, end) = (chunk * WINDOW, (chunk + 1) * WINDOW);
        let filled = media.fill(u64::MAX).await.unwrap();
        let last = chunk == 2;
        let expected = if last { end } else { end + 1 };
        assert_eq!((filled.end, filled.ended), (expected, last));
        sent.extend(read(&media, start..end).await.unwrap());
        media.release(end);
    }
    assert!(sent == bytes);
}

#[tokio::test]
async fn window_has_the_requested_size() {
    let window = 4 * DEFAULT_WINDOW;
    let source = Source::reader(tokio::io::repeat(7)).with_window(window);
    let mut media = source.open().await.unwrap();
    assert_eq!(media.fill(u64::MAX).await.unwrap().end, window + 1);
    let mut kept = media.read(0..window);
    let mut len = 0;
    while let Some(piece) = kept.try_next().await.unwrap() {
        len += piece.len() as u64;
    }
    assert_eq!(len, window);
}

#[tokio::test]
async fn dropped_fill_loses_no_bytes() {
    let directory = tempfile::tempdir().unwrap();
    for spilled in [false, true] {
        let bytes = some_media(1_000_000);
        let source = Source::reader(FlakyReader::new(bytes.clone(), vec![70_000]));
        let source = if spilled {
            source.spilled_to(directory.path())
        } else {
            source
        };
        let mut media = source.open().await.unwrap();
        let filled = loop {
            if let Some(filled) = media.fill(u64::MAX).now_or_never() {
                break filled.unwrap();
            }
            tokio::task::yield_now().await;
            // Lets spawned tasks run from time to time.
            media.fill(0).await.unwrap();
        };
        assert_eq!(
            filled,
            Filled {
                end: 1_000_000,
                ended: true
            }
        );
        assert!(read(&media, 0..1_000_000).await.unwrap() == bytes);
    }
}

#[tokio::test]
async fn failed_reader_can_be_read_again() {
    let reader = FlakyReader::new(some_media(1000), vec![400, 0]);
    let mut media = Source::reader(reader).open().await.unwrap();
    let mut failures = 0;
    while let Err(error) = media.fill(1001).await {
        assert!(matches!(error, SourceError::ReadStream { .. }), "{error}");
        failures += 1;
    }
    assert_eq!(failures, 3);
    assert_eq!(media.collect().await.unwrap(), some_media(1000));
}

#[tokio::test]
async fn wrong_length_is_reported_again() {
    for stated in [999, 1001] {
        let source = Source::reader(std::io::Cursor::new(some_media(1000)));
        let mut media = source.with_length(stated).open().await.unwrap();
        assert_eq!(media.total(), Some(stated));
        for _ in 0..3 {
            let error = media.fill(2000).await.unwrap_err();
            assert!(
                matches!(error, SourceError::LengthDisagrees { .. }),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn missing_spill_directory_is_named() {
    let source = Source::reader(tokio::io::empty()).spilled_to("/nowhere/at/all");
    let error = source.open().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot use a spill file in /nowhere/at/all"
    );
}

#[tokio::test]
async fn unreadable_spill_file_is_a_spill_error() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::reader(tokio::io::empty()).spilled_to(directory.path());
    let media = source.open().await.unwrap();
    let error = media.cannot_read(io::Error::other("a bad sector"));
    assert!(
        matches!(&error, SourceError::Spill { directory: named, .. } if named == directory.path())
    );
}

#[test]
fn window_size_is_a_multiple_of_256_kib() {
    for (requested, given) in [
        (0, WINDOW),
        (1, WINDOW),
        (WINDOW, WINDOW),
        (WINDOW + 1, 2 * WINDOW),
        (u64::MAX, u64::MAX - (WINDOW - 1)),
    ] {
        let source = Source::reader(tokio::io::empty()).with_window(requested);
        assert_eq!(source.window, given);
    }
}
