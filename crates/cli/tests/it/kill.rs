//! The server is killed without warning, again and again, while clients upload.
//!
//! Fault model: kill -9 at a random moment of the process, between or inside requests. Memory is
//! lost, the page cache is not. Everything that was acknowledged must be there afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_testkit::checker::{Client, Manner};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::session::CHUNK_GRANULARITY;

use crate::server::own;

const ROUNDS: u64 = 50;

const CHUNK: u64 = CHUNK_GRANULARITY;

/// The clients of a round: small media that stays in the ledger, chunks, one long request, and one
/// that cancels.
const CLIENTS: [(u64, Manner); 5] = [
    (40_000, Manner::Rest),
    (20 * CHUNK + 77, Manner::Chunks(CHUNK)),
    (9 * CHUNK, Manner::Chunks(3 * CHUNK)),
    (64 * CHUNK + 1, Manner::Rest),
    (5 * CHUNK + 3, Manner::Cancel),
];

#[test]
fn no_acknowledged_byte_is_lost_by_fifty_rounds_of_kill_9() {
    let mut server = own(&[]);
    let mut unfinished: Vec<Client> = Vec::new();
    let mut delay = Delays(1);
    for round in 0..ROUNDS {
        unfinished.extend(start_clients(&server, round));
        send_until_killed(&mut server, &mut unfinished, delay.next());
        server.start_again();
        for client in &mut unfinished {
            client.check(server.address());
        }
        unfinished.retain(|client| {
            if client.is_done() {
                client.check_resource(server.address());
            }
            !client.is_done()
        });
    }
    for client in &mut unfinished {
        client.send(&AtomicBool::new(false));
        assert!(client.is_done(), "{client:?}");
        client.check_resource(server.address());
    }
}

/// New clients, only as many as keep about ten busy.
fn start_clients(server: &ServerProcess, round: u64) -> impl Iterator<Item = Client> {
    let address = server.address();
    CLIENTS
        .into_iter()
        .enumerate()
        .filter_map(move |(index, (len, manner))| {
            let is_turn = round % 3 == index as u64 % 3;
            let name = format!("round {round}, client {index}");
            is_turn.then(|| {
                Client::start(
                    address,
                    &name,
                    Media::new(round * 8 + index as u64, len),
                    manner,
                )
            })
        })
}

fn send_until_killed(server: &mut ServerProcess, clients: &mut [Client], after: Duration) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| client.send(&stop));
        }
        std::thread::sleep(after);
        server.kill9();
        stop.store(true, Ordering::Relaxed);
    });
}

/// Moments from 1 to 40 ms after the start of a round, the same in every run.
struct Delays(u64);

impl Delays {
    fn next(&mut self) -> Duration {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Duration::from_micros(1000 + (self.0 >> 33) % 39_000)
    }
}
