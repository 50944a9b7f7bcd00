//! A simple reference implementation: it splits the whole body line by line.

use super::*;

/// Returns the contents between the delimiter lines, up to the final one; `None` without a final
/// one.
fn contents(body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut contents = vec![Vec::new()];
    let mut bare = false;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let after = line.strip_prefix(b"--b");
        let is_final = after.is_some_and(|after| after.starts_with(b"--"));
        if is_final || after.is_some_and(|after| after.ends_with(b"\n") && is_padding(after)) {
            let before = contents.last_mut()?;
            let ends = [&b"\r\n"[..], b"\n"];
            let end = ends[usize::from(bare)..]
                .iter()
                .find_map(|end| before.strip_suffix(*end))
                .map(<[u8]>::len);
            before.truncate(end.unwrap_or(before.len()));
            if is_final {
                return Some(contents);
            }
            bare = !line.ends_with(b"\r\n");
            contents.push(Vec::new());
        } else {
            contents.last_mut()?.extend_from_slice(line);
        }
    }
    None
}

fn is_padding(after: &[u8]) -> bool {
    let line = after.strip_suffix(b"\n").unwrap_or(after);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

fn tricky_bytes() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&str; 12] = [
        "\r\n--b",
        "\n--b",
        "--b",
        "--",
        "-",
        "b",
        "\r",
        "\n",
        " ",
        "\t",
        "media",
        "\r\n--b--",
    ];
    let piece = proptest::sample::select(&PIECES);
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Returns the body in pieces that end at the given positions.
fn cut(body: &[u8], mut cuts: Vec<usize>) -> Vec<&[u8]> {
    cuts.retain(|cut| *cut < body.len());
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| &body[pair[0]..pair[1]])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn splitter_agrees_with_the_reference(
        media in tricky_bytes(),
        bare in any::<bool>(),
        cuts in proptest::collection::vec(0..200usize, 0..6),
    ) {
        let end: &[u8] = if bare { b"\n" } else { b"\r\n" };
        let parts: [&[u8]; 10] = [b"--b", end, end, b"{}", end, b"--b", end, end, &media, end];
        let body = [&parts.concat()[..], b"--b--"].concat();
        let contents = contents(&body).expect("the body ends with the final delimiter");
        let found = split(splitter(&boundary("multipart/related; boundary=b")), cut(&body, cuts));
        // With more parts the headers matter as well, which the reference does not parse.
        if let [_, metadata, media] = contents.as_slice() {
            let found = found.expect("it has two parts");
            // The empty line precedes the content.
            prop_assert_eq!(found.metadata.as_deref(), metadata.strip_prefix(end));
            prop_assert_eq!(found.media, media.strip_prefix(end).unwrap_or_default());
        }
    }

    #[test]
    fn splitting_does_not_depend_on_the_pushed_pieces(
        body in tricky_bytes(),
        cuts in proptest::collection::vec(0..100usize, 0..6),
    ) {
        let boundary = boundary("multipart/related; boundary=b");
        let whole = split(splitter(&boundary), [body.as_slice()]);
        prop_assert_eq!(split(splitter(&boundary), cut(&body, cuts)), whole);
    }

    #[test]
    fn any_bytes_are_split_without_panic(
        content_type in proptest::collection::vec(any::<u8>(), 0..64),
        parameters in "[ ;='\"\\\\a-c]{0,24}",
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = Boundary::from_content_type(&content_type);
        let _ = Boundary::from_content_type(format!("multipart/related;{parameters}").as_bytes());
        let _ = split(splitter(&boundary("multipart/related; boundary=b")), [body.as_slice()]);
    }
}
