//! The admission of requests: every stage that admits a request or refuses it, in order.
//!
//! [`STAGES`] is the whole order. `connections` and `uploads` keep to it by themselves; the other
//! modules run their stages from the list. A stage compares one property of the request with a
//! limit or a rule. If the request passes, the stage may add a permit to the request's [`Ticket`]. The first
//! stage that refuses answers the request, except a stage without room for it (503): the answer is
//! kept in the ticket, because probes have another one. Clients and operators rely on the order: a
//! reply to a page of a foreign origin, for example, must not reveal who has access.
//!
//! Stages that need the same knowledge about the request form a phase. A module runs the stages of
//! its phase in the order of the list:
//!
//! | phase | begins when | run by |
//! |---|---|---|
//! | connection | a client connects | `connections` |
//! | [`Arrival`] | the head of a request has arrived | `service` |
//! | [`Credentials`] | the kind of the request's target is known | `routes` |
//! | [`CalledMethod`] | the method is known | `routes` |
//! | [`DeclaredUpload`] | the request is an upload, of known length if it has one | `routes` |
//! | media | the metadata is read, and the media begins | `uploads` |
//!
//! The checks between the phases concern the form of a request. They are no stages: they have no
//! limit and hold nothing.

mod arrival;
mod call;
mod principal;
mod ticket;
mod upload;

pub(crate) use arrival::Arrival;
use arrival::ArrivalCheck;
use call::CallCheck;
pub(crate) use call::CalledMethod;
pub(crate) use principal::Credentials;
use principal::PrincipalCheck;
pub(crate) use ticket::Ticket;
pub(crate) use upload::DeclaredUpload;
use upload::UploadCheck;

/// All stages, in the order in which a request meets them.
static STAGES: [Stage; 14] = [
    // Before the accept: a connection above the limit waits in the kernel, where it takes no memory
    // of the server.
    Stage::new("connections", &["limits.connections"], Check::Connection),
    // Before TLS: a handshake costs more than the rest of a short connection.
    Stage::new(
        "connections_per_address",
        &[
            "limits.connections_per_address",
            "limits.resets_per_address",
        ],
        Check::Connection,
    ),
    // Before the slot: a request that waits for a slot holds its head in memory.
    Stage::new(
        "metadata",
        &["limits.metadata_memory"],
        Check::Arrival(ArrivalCheck::HeadMemory),
    ),
    // Before everything that takes work. Only probes and calls of a batch go on without a slot.
    Stage::new(
        "requests",
        &["limits.requests"],
        Check::Arrival(ArrivalCheck::RequestSlot),
    ),
    // Before every check that a client can fail on purpose: a flood of invalid requests counts.
    Stage::new(
        "requests_per_address",
        &["limits.requests_per_address"],
        Check::Arrival(ArrivalCheck::AddressRate),
    ),
    // Before the origin, which is compared with the origin of the host.
    Stage::new("host", &["hosts"], Check::Arrival(ArrivalCheck::Host)),
    // Before the credentials: a preflight has none.
    Stage::new(
        "origin",
        &["cors.origins", "cors.apis"],
        Check::Arrival(ArrivalCheck::Origin),
    ),
    // After the origin: a preflight is answered at once and needs no permit.
    Stage::new(
        "concurrent_requests_per_address",
        &["limits.connections_per_address"],
        Check::Arrival(ArrivalCheck::AddressRequests),
    ),
    // Before the path is looked up: a caller without credentials must not learn which paths exist.
    Stage::new(
        "authentication",
        &["auth.file"],
        Check::Principal(PrincipalCheck::Authentication),
    ),
    // Before the method is looked up: calls that are forbidden, or do not exist, are counted.
    Stage::new(
        "requests_per_principal",
        &["limits.requests_per_principal"],
        Check::Principal(PrincipalCheck::Rate),
    ),
    // Before the parameters are checked: their errors describe the method.
    Stage::new(
        "authorization",
        &["auth.file"],
        Check::Call(CallCheck::Authorization),
    ),
    // Before the body: the client need not send a body that would be refused. Before the slot: an
    // upload that its quota refuses must not occupy one.
    Stage::new(
        "quota",
        &[
            "limits.sessions_per_principal",
            "limits.bytes_per_principal",
        ],
        Check::Upload(UploadCheck::Quota),
    ),
    // After the metadata: a client that sends it slowly must not occupy a slot.
    Stage::new("uploads", &["limits.uploads"], Check::Media),
    // Last: space is set aside only for media that arrives next. A disk that has too little space
    // already is refused before the slot.
    Stage::new(
        "space",
        &["free_space.soft", "free_space.hard"],
        Check::Media,
    ),
];

/// One stage of admission.
#[derive(Debug)]
struct Stage {
    /// The name in docs/configuration.md. If a metric counts the refusals of the stage, the name is
    /// also the metric's label.
    name: &'static str,
    /// The keys of the configuration that set the limit.
    limits: &'static [&'static str],
    check: Check,
}

/// The check of a stage, by its phase.
#[derive(Debug, Clone, Copy)]
enum Check {
    /// Made by `connections`: the permits belong to the connection, which outlives its requests.
    Connection,
    Arrival(ArrivalCheck),
    Principal(PrincipalCheck),
    Call(CallCheck),
    Upload(UploadCheck),
    /// Made by `uploads`: an upload continues after its client has gone, and takes its permits with
    /// it. After the stages of its principal, a session's chunk meets only these, and reserves space
    /// before quota.
    Media,
}

impl Stage {
    const fn new(name: &'static str, limits: &'static [&'static str], check: Check) -> Self {
        Self {
            name,
            limits,
            check,
        }
    }

    /// Logs a refusal, so that the operator learns which settings to change. The error is logged
    /// with the reply.
    fn log_refusal(&self) {
        // At debug level: any client can cause refusals, and the metrics count them.
        tracing::debug!(stage = self.name, limits = ?self.limits, "not admitted");
    }
}

#[cfg(test)]
mod tests;
