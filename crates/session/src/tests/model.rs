//! A simple model of a session, which keeps the bytes themselves.

use super::*;

fn media(len: u64) -> Vec<u8> {
    (0..251).cycle().take(index(len)).collect()
}

/// Returns the offsets that a request with these bytes stores.
fn expected(first: u64, len: u64, offset: u64, last: bool) -> std::ops::Range<u64> {
    let kept = if last { len } else { len / Q * Q };
    offset..(first + kept).max(offset)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn body_filter_agrees_with_the_model(
        offset in 0..2 * Q,
        back in 0..2 * Q,
        length in Q..3 * Q,
        last in any::<bool>(),
        cuts in proptest::collection::vec(0..3 * Q, 0..5),
        broken in any::<bool>(),
    ) {
        let first = offset.saturating_sub(back);
        let end = first + length;
        prop_assume!(!last || end >= offset);
        let total = if last { end.to_string() } else { "*".to_owned() };
        let range = format!("bytes {first}-{}/{total}", end - 1);
        let mut filter = filter(ranged(active(offset, None), &range));

        let media = media(end.max(offset));
        let sent = if broken { length / 2 } else { length };
        let mut cuts: Vec<u64> = cuts.into_iter().filter(|cut| *cut < sent).chain([0, sent]).collect();
        cuts.sort_unstable();
        let mut stored = Vec::new();
        for pair in cuts.windows(2) {
            let bounds = index(first + pair[0])..index(first + pair[1]);
            let piece = filter.accept(Bytes::copy_from_slice(&media[bounds])).expect("it is within the range");
            stored.extend_from_slice(&piece);
        }

        let whole = expected(first, length, offset, last);
        let stored_end = whole.end.min(first + sent).max(offset);
        prop_assert_eq!(&stored, &media[index(offset)..index(stored_end)]);
        prop_assert_eq!(filter.remaining_hint(), Some(whole.end - stored_end));
        let outcome = match (broken, last) {
            (true, _) => Outcome::Interrupted,
            (false, true) => Outcome::Finished { total: end },
            (false, false) => Outcome::Committed,
        };
        prop_assert_eq!(filter.end(if broken { Ending::Broken } else { Ending::Complete }), Ok(outcome));
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..4u64, Q - 2..Q + 2, u64::MAX - 3..=u64::MAX, any::<u64>()]
}

fn content_range() -> impl Strategy<Value = ContentRange> {
    let total = || proptest::option::of(number());
    prop_oneof![
        (number(), number(), total()).prop_map(|(first, last, total)| ContentRange::Bounded {
            first,
            last,
            total
        }),
        (number(), total()).prop_map(|(first, total)| ContentRange::ToEnd { first, total }),
        total().prop_map(|total| ContentRange::Query { total }),
    ]
}

/// A body whose request says itself where it begins and what it ends.
fn any_part() -> impl Strategy<Value = SessionAction> {
    let overlap = prop_oneof![Just(Overlap::Skip), Just(Overlap::Conflict)];
    let end = prop_oneof![Just(End::Never), Just(End::AtLength), Just(End::Always)];
    let parts = (number(), overlap, end, proptest::option::of(number()));
    parts.prop_map(|(first, overlap, end, length)| SessionAction::AppendAt {
        first,
        overlap,
        end,
        length,
    })
}

fn action() -> impl Strategy<Value = SessionAction> {
    prop_oneof![
        proptest::option::of(content_range()).prop_map(|range| SessionAction::Ranged(Ok(range))),
        any_part(),
        Just(SessionAction::Finish),
        Just(SessionAction::Query(Query::Undisturbed)),
        Just(SessionAction::Query(Query::SettledAtLength)),
    ]
}

proptest! {
    #[test]
    fn any_numbers_are_handled_without_panic(
        offset in number(),
        total in proptest::option::of(number()),
        max_size in proptest::option::of(number()),
        action in action(),
        body in proptest::option::of(number()),
        lenient in any::<bool>(),
    ) {
        let chunks = if lenient { ChunkRule::Lenient } else { ChunkRule::Strict };
        let body = body.map_or(BodyLength::Unknown, BodyLength::Exact);
        let request = SessionRequest { action, body };
        let rules = Rules::default().with_chunks(chunks).with_max_size(max_size);
        let step = step(&active(offset, total), &rules, &request);
        if let Ok(Step::Append(mut filter)) = step {
            let _ = filter.remaining_hint();
            let _ = filter.accept(Bytes::from_static(b"some bytes"));
            let _ = filter.remaining_hint();
            let _ = filter.end(Ending::Complete);
        }
    }
}
