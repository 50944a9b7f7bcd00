//! A client with a request that stands still.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use windlass_testkit::checker::Rule;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::session::{CHUNK_GRANULARITY, content_range, target_of};

/// Number of bytes sent before the pause. The server reads all of them before it cuts the
/// connection.
const SENT: u64 = 3 * CHUNK_GRANULARITY;

/// The length of its media.
const LEN: u64 = 5 * CHUNK_GRANULARITY;

/// A client with a request under way.
pub(super) struct StalledClient {
    media: Media,
    target: String,
    /// Kept open: the server has to end it.
    peer: RawPeer,
}

impl StalledClient {
    /// Starts a session, and a request of which it sends the first half.
    pub(super) fn begin(address: SocketAddr, seed: u64) -> anyhow::Result<Self> {
        let media = Media::new(seed, LEN);
        let started = ask(address, &farm::start(&farm::named("stalled")))?;
        let target = target_of(&started).context("a started session has a URI")?;
        let mut peer = RawPeer::try_connect(address)?;
        let head = Request::new("PUT", &*target)
            .header("Content-Range", content_range(media, &(0..LEN)))
            .header("Expect", "100-continue")
            .header("Content-Length", LEN);
        peer.try_send(head.head_bytes())?;
        // From here on the server reads.
        let interim = peer.head()?;
        ensure!(
            interim.status == 100,
            "a request is answered by {}",
            interim.status
        );
        peer.try_send(media.bytes(0..SENT))?;
        Ok(Self {
            media,
            target,
            peer,
        })
    }

    /// After the restart: queries the committed bytes, and completes the upload.
    pub(super) fn end(mut self, address: SocketAddr) -> anyhow::Result<Option<Rule>> {
        if let Ok(reply) = self.peer.try_reply()
            && !matches!(reply.status, 308 | 503)
        {
            let how = format!("it was cut with {} {}", reply.status, reply.reason);
            return Ok(Some(Rule::Strange(how)));
        }
        let query = Request::new("PUT", &*self.target).header("Content-Range", "bytes */*");
        let now = committed(&ask(address, &query.body(""))?)?;
        if now != SENT {
            let how = format!("{SENT} bytes had arrived, {now} are committed");
            return Ok(Some(Rule::Strange(how)));
        }
        let rest = Request::new("PUT", &*self.target)
            .header("Content-Range", content_range(self.media, &(SENT..LEN)))
            .body(self.media.bytes(SENT..LEN));
        let finished = ask(address, &rest)?;
        ensure!(
            finished.status == 201,
            "the rest is answered by {}",
            finished.status
        );
        let download = ask(address, &farm::download(&farm::id(&finished)))?;
        let compared = self.media.compare(0..LEN, &download.body[..]);
        Ok(compared
            .err()
            .map(|how| Rule::MediaDiffers(how.to_string())))
    }
}

fn committed(reply: &Reply) -> anyhow::Result<u64> {
    ensure!(
        reply.status == 308,
        "a query is answered by {}",
        reply.status
    );
    Ok(reply.range())
}

fn ask(address: SocketAddr, request: &Request) -> anyhow::Result<Reply> {
    let mut peer = RawPeer::try_connect(address)?;
    peer.try_send(request.to_bytes())?;
    Ok(peer.try_reply()?)
}
