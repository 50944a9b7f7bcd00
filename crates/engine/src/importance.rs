//! The order in which a nearly full server refuses requests. The first to be refused are requests
//! that cost the client little to repeat: starts, then queries, then chunks of an upload, then the
//! final bytes of an upload. The last slots are kept for clients that have few requests while other
//! clients have many.

/// The cost of a request's refusal for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// Nothing has been sent yet: the start of an upload, an upload in one request, or another
    /// write.
    Start,
    /// A query of an upload's state, or a call that reads.
    Query,
    /// More bytes of an upload.
    Append,
    /// The final bytes of an upload, or a request that frees room: a cancel or a deletion.
    Finish,
    /// Any request of a client that has few requests while other clients have many. This highest
    /// class follows from the client's other requests.
    Modest,
}

impl Importance {
    /// Returns how many sixteenths of a pool this class leaves free for higher classes.
    pub fn leaves(self) -> u32 {
        match self {
            Self::Start => 4,
            Self::Query => 3,
            Self::Append => 2,
            Self::Finish => 1,
            Self::Modest => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_important_requests_leave_less() {
        let all = [
            Importance::Start,
            Importance::Query,
            Importance::Append,
            Importance::Finish,
            Importance::Modest,
        ];
        assert!(all.is_sorted());
        assert!(all.is_sorted_by_key(|it| std::cmp::Reverse(it.leaves())));
    }
}
