//! Lists of sessions, page by page.

use crate::records::{Session, SessionId, SessionState, Timestamp};

/// Maximum number of sessions in a page.
pub const MAX_SESSIONS_PER_PAGE: usize = 256;

/// Maximum number of sessions that are read for one page, whether they are selected or not. It
/// bounds the time of a query that selects few sessions of many.
pub const MAX_SESSIONS_READ_PER_PAGE: usize = 1024;

/// A query for one page of sessions. The default selects all sessions, and the page has the oldest
/// of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuery {
    /// Selects the sessions of this principal; `None` for the sessions of all principals and for
    /// those without an owner.
    pub owner: Option<String>,
    /// Selects the sessions in this state; `None` for all states.
    pub state: Option<SessionState>,
    /// Order of the list.
    pub order: SessionOrder,
    /// Position in the list after which the page begins; `None` for the beginning of the list.
    ///
    /// The position is an id, and a session with this id need not exist. To continue a list, pass
    /// [`SessionPage::next`]. To begin at an age, pass [`SessionId::least_at`].
    pub after: Option<SessionId>,
    /// Maximum number of sessions in the page. Less than 1 counts as 1, and more than
    /// [`MAX_SESSIONS_PER_PAGE`] counts as that.
    pub limit: usize,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self {
            owner: None,
            state: None,
            order: SessionOrder::default(),
            after: None,
            limit: MAX_SESSIONS_PER_PAGE,
        }
    }
}

impl SessionQuery {
    /// Returns the number of sessions in a full page: [`SessionQuery::limit`] within its bounds.
    pub fn page_len(&self) -> usize {
        self.limit.clamp(1, MAX_SESSIONS_PER_PAGE)
    }

    /// Returns whether a session has the owner and the state of the query.
    pub fn selects(&self, session: &SessionSummary) -> bool {
        let is_owner = |owner: &String| session.owner.as_ref() == Some(owner);
        self.owner.as_ref().is_none_or(is_owner)
            && self.state.is_none_or(|state| session.state == state)
    }
}

/// The order of a list of sessions: by their ids, which begin with the time of the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionOrder {
    /// Ascending ids.
    #[default]
    OldestFirst,
    /// Descending ids.
    NewestFirst,
}

/// One page of a list of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The selected sessions, in the order of the query.
    pub sessions: Vec<SessionSummary>,
    /// Position after which the next page begins; `None` at the end of the list.
    pub next: Option<SessionId>,
}

/// A session in a list: a [`Session`] without its request and its reply, which may be large and may
/// hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Id of the session.
    pub id: SessionId,
    /// Principal that started it, as the server writes it; `None` if nobody was asked who they are.
    pub owner: Option<String>,
    /// State of the session.
    pub state: SessionState,
    /// Time of the start.
    pub created: Timestamp,
    /// Time after which the session is treated as unknown, whether it has been deleted or not.
    pub expires: Timestamp,
    /// Number of committed bytes.
    pub offset: u64,
    /// Length of the complete media in bytes, once a request has declared it.
    pub total: Option<u64>,
    /// Name of the wire dialect that started it, such as `google`.
    pub dialect: String,
}

impl From<&Session> for SessionSummary {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id,
            owner: session.owner.clone(),
            state: session.state,
            created: session.created,
            expires: session.expires,
            offset: session.progress.offset,
            total: session.progress.total,
            dialect: session.dialect.clone(),
        }
    }
}
