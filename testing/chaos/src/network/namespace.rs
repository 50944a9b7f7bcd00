//! A separate machine for clients: a network namespace behind a link that can go down.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::outcome::Lacking;
use crate::tool::{need, run};

/// A namespace and its link. Both go when it is dropped, and also when this process is killed: a
/// shell waits for its end.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
    /// A number that other namespaces at the same time do not have.
    number: u8,
    undertaker: Child,
}

impl Namespace {
    /// Makes one, with its link up.
    ///
    /// # Errors
    /// [`Lacking`] without root or `ip`, or where the kernel has no namespaces.
    pub(super) fn new() -> anyhow::Result<Self> {
        need(&["ip", "sh"])?;
        if !rustix::process::geteuid().is_root() {
            anyhow::bail!(Lacking("a network of its own needs root".to_owned()));
        }
        let id = std::process::id();
        let name = format!("windlass-{id}");
        run("ip", ["netns", "add", &name]).map_err(|error| Lacking(format!("{error:#}")))?;
        let namespace = Self {
            undertaker: undertaker(&name, &format!("wl{id}"))?,
            number: u8::try_from(id % 256).expect("less than 256"),
            name,
        };
        namespace.link(&format!("wl{id}"))?;
        Ok(namespace)
    }

    /// An address for a server outside, which clients inside can reach.
    pub(super) fn outside(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 203, self.number, 1)), 0)
    }

    /// Moves this thread, and all threads that it starts later, into the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub(super) fn enter(&self) -> anyhow::Result<()> {
        let path = format!("/run/netns/{}", self.name);
        let file = File::open(&path).context(path)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }

    /// Takes the link down: from now on no packet passes in either direction.
    ///
    /// # Errors
    /// `ip` fails.
    pub(super) fn cut(&self) -> anyhow::Result<()> {
        self.inside(&["link", "set", "inside", "down"])
    }

    /// Counts the open connections outside to clients inside.
    ///
    /// # Errors
    /// The table of connections cannot be read.
    pub(super) fn held_open(&self) -> anyhow::Result<usize> {
        const ESTABLISHED: &str = "01";
        let address = u32::from_ne_bytes([10, 203, self.number, 2]);
        let remote = format!("{address:08X}:");
        let table = std::fs::read_to_string("/proc/self/net/tcp")?;
        let is_held = |line: &&str| {
            let mut words = line.split_whitespace().skip(2);
            words.next().is_some_and(|word| word.starts_with(&remote))
                && words.next() == Some(ESTABLISHED)
        };
        Ok(table.lines().filter(is_held).count())
    }

    fn link(&self, outside: &str) -> anyhow::Result<()> {
        let address = |host| format!("10.203.{}.{host}/30", self.number);
        let pair = [
            "link", "add", outside, "type", "veth", "peer", "name", "inside",
        ];
        run("ip", pair.iter().copied().chain(["netns", &self.name]))?;
        run("ip", ["address", "add", &address(1), "dev", outside])?;
        run("ip", ["link", "set", outside, "up"])?;
        self.inside(&["address", "add", &address(2), "dev", "inside"])?;
        self.inside(&["link", "set", "inside", "up"])
    }

    fn inside(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let arguments = ["-netns", &self.name]
            .into_iter()
            .chain(arguments.iter().copied());
        run("ip", arguments).map(drop)
    }
}

/// Waits for the end of its input, which this process holds open, and then cleans up.
fn undertaker(name: &str, link: &str) -> anyhow::Result<Child> {
    let script =
        "trap '' INT TERM HUP; read -r line; ip link delete \"$1\"; ip netns delete \"$0\"";
    let child = Command::new("sh")
        .args(["-c", script, name, link])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child)
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.undertaker.stdin.take());
        self.undertaker.wait().ok();
    }
}
