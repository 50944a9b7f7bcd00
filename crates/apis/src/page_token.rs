//! Page tokens: the position at which a list continues, and the list's identity.
//!
//! A token of another list or an invented token is refused, because the list would continue at a
//! wrong position. A token is not secret. It contains nothing that the previous page has not shown.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Returns the token that continues `list` at a position. `list` is the text that identifies the
/// list, such as its query.
pub(crate) fn write(list: &str, position: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<_> = [mark(list)].into_iter().chain(position).collect();
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&texts).expect("texts can be written"))
}

/// Returns the position of a token; `None` if it is not a token of `list`.
pub(crate) fn read(list: &str, token: &str) -> Option<Vec<String>> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let mut texts: Vec<String> = serde_json::from_slice(&bytes).ok()?;
    if texts.first() != Some(&mark(list)) {
        return None;
    }
    texts.remove(0);
    Some(texts)
}

/// A short text for a list: FNV-1a, because it is the same in every build.
fn mark(list: &str) -> String {
    let hash = list.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_in_its_own_list_alone() {
        let position = || ["zoo", "1abc"].map(str::to_owned);
        let token = write("animals", position());
        assert_eq!(read("animals", &token), Some(position().to_vec()));
        assert_eq!(read("plants", &token), None);
        for made_up in ["", "animals", "W10", "bm9uZQ", "%", &token[1..]] {
            assert_eq!(read("animals", made_up), None, "{made_up}");
        }
    }
}
