//! Attacks: many connections that take resources from honest clients.

mod flood;
mod slow;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Number of connections of a slow attack.
const SLOW_CONNECTIONS: u32 = 10_000;

/// Number of connections of a flood from one address.
const FLOOD_CONNECTIONS: u32 = 128;

/// Number of addresses of an attack that comes from many.
const ADDRESSES: u32 = 1000;

/// The address of an attack that comes from one.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The pause between the beginnings of two connections.
const STAGGER: Duration = Duration::from_micros(250);

/// How long a slow attack continues after its limit, to show that the server enforces the limit.
const GRACE: Duration = Duration::from_secs(15);

/// The window in which the server measures the rate of a body.
const RATE_WINDOW: Duration = Duration::from_secs(60);

/// The kind of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Begin the head of a request and never finish it.
    Heads,
    /// Send a body at one byte a second.
    Bodies,
    /// Over HTTP/2, begin uploads and reset them at once, as many as the connection takes.
    Resets,
    /// The same in groups of 16, each after the server has taken the one before.
    PacedResets,
    /// Over HTTP/2, send a head in frames without end.
    Continuations,
}

/// From how many addresses they do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// One.
    One,
    /// A thousand.
    Many,
}

/// The results of the attackers.
#[derive(Debug, Default)]
pub(super) struct Attackers {
    /// How long each connection lasted that the server has ended; the shortest first.
    pub(super) cut: Vec<Duration>,
    /// Number of connections that were open at the end.
    pub(super) open: usize,
    /// Number of connections that were never made.
    pub(super) unconnected: usize,
    /// Bytes that were sent.
    pub(super) sent: u64,
}

/// How a connection of an attacker has ended.
enum End {
    Cut(Duration),
    Open,
    Unconnected,
}

impl Attack {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Heads => "half-open heads",
            Self::Bodies => "bodies at 1 B/s",
            Self::Resets => "rapid resets",
            Self::PacedResets => "paced resets",
            Self::Continuations => "continuations",
        }
    }

    /// The longest duration of the attack against a server with this `limits.head_timeout`.
    pub(super) fn length(self, head_timeout: Duration, flood: Duration) -> Duration {
        match self {
            Self::Heads => head_timeout + GRACE,
            Self::Bodies => RATE_WINDOW + GRACE,
            Self::Resets | Self::PacedResets | Self::Continuations => flood,
        }
    }

    /// The number of connections that are open at the same time.
    fn connections(self, origin: Origin) -> u32 {
        match (self, origin) {
            (Self::Heads | Self::Bodies, _) => SLOW_CONNECTIONS,
            (_, Origin::One) => FLOOD_CONNECTIONS,
            (_, Origin::Many) => ADDRESSES,
        }
    }

    /// Attacks until `length` has passed, or until the server has cut all connections of a slow
    /// attack.
    pub(super) async fn carry_out(
        self,
        origin: Origin,
        server: SocketAddr,
        length: Duration,
    ) -> Attackers {
        let start = Instant::now();
        let end = start + length;
        let mut connections = JoinSet::new();
        for number in 0..self.connections(origin) {
            let attacker = Attacker {
                from: origin.address(number),
                server,
                begins: start + STAGGER * number,
                end,
            };
            match self {
                Self::Heads => connections.spawn(slow::send_head(attacker)),
                Self::Bodies => connections.spawn(slow::send_body(attacker)),
                Self::Resets => connections.spawn(flood::send(attacker, flood::Kind::Resets)),
                Self::PacedResets => {
                    connections.spawn(flood::send(attacker, flood::Kind::PacedResets))
                }
                Self::Continuations => {
                    connections.spawn(flood::send(attacker, flood::Kind::Continuations))
                }
            };
        }
        let mut attackers = Attackers::default();
        while let Some(connection) = connections.join_next().await {
            attackers.add(connection.expect("an attacker does not panic"));
        }
        attackers.cut.sort_unstable();
        attackers
    }
}

impl Origin {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::One, Self::Many];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "1 address",
            Self::Many => "1,000 addresses",
        }
    }

    /// The address of the connection with this number.
    fn address(self, number: u32) -> Ipv4Addr {
        match self {
            Self::One => ADDRESS,
            // The addresses from 127.1.0.0 on.
            Self::Many => Ipv4Addr::from_bits(0x7f01_0000 + number % ADDRESSES),
        }
    }
}

/// One of the attackers.
#[derive(Debug, Clone, Copy)]
struct Attacker {
    from: Ipv4Addr,
    server: SocketAddr,
    begins: Instant,
    end: Instant,
}

/// The results of one attacker.
#[derive(Default)]
struct Attempts {
    ends: Vec<End>,
    sent: u64,
}

impl Attackers {
    fn add(&mut self, attempts: Attempts) {
        self.sent += attempts.sent;
        for end in attempts.ends {
            match end {
                End::Cut(after) => self.cut.push(after),
                End::Open => self.open += 1,
                End::Unconnected => self.unconnected += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attackers_have_as_many_addresses_as_they_say_and_not_that_of_the_server() {
        let addresses = |origin: Origin| {
            let all = (0..SLOW_CONNECTIONS).map(|number| origin.address(number));
            all.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(addresses(Origin::One).len(), 1);
        let many = addresses(Origin::Many);
        assert_eq!(many.len(), 1000);
        let is_loopback =
            |address: &Ipv4Addr| address.is_loopback() && *address != Ipv4Addr::LOCALHOST;
        assert!(many.iter().all(is_loopback));
    }
}
