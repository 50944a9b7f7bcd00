//! What an upload costs, in counts that do not depend on the machine: system calls, syncs, bytes that pass between server and kernel,
//! allocations. A change that makes an upload dearer is noticed by them, be the machine fast, slow or shared.
//!
//! Each [`scenario`] is carried out some times, and then some times more; what the difference came to, divided by the uploads
//! in it, is the count. So the start, the end and what is done once fall out. The counts are held against `limits.toml`
//! ([`limits`]).
//!
//! - System calls are counted on the real binary, by strace: `windlass-guard` ([`calls`], [`tracer`]).
//! - Allocations are counted inside of a process that holds the server and a client that allocates nothing ([`client`]):
//!   `tests/allocations.rs`.
//!
//! What is not counted: futexes, epoll, wakes between threads and memory taken from the kernel, whose number is a matter of timing; memory
//! that SQLite takes for itself, which does not go through Rust's allocator; and copies inside of the process into memory that it has
//! already. A copy into memory that is allocated for it shows as allocated bytes. What went to the kernel by `io_uring` would not be seen.

pub mod calls;
pub mod client;
pub mod limits;
pub mod scenario;
pub mod tracer;
