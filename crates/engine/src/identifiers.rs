//! Time and randomness, and the identifiers that are made of them.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use windlass_store::{MediaId, SessionId, Timestamp};

/// Random bytes in an `upload_id` and in a secret: 192 bits, because they are credentials.
const SECRET_LEN: usize = 24;

/// Number of bytes of an identifier that hold its time.
const TIMESTAMP_LEN: usize = 6;

/// Returns a new `upload_id`: 40 characters of the URL-safe alphabet.
pub fn new_upload_id(now: Timestamp) -> String {
    URL_SAFE_NO_PAD.encode(timed::<{ TIMESTAMP_LEN + SECRET_LEN }>(now))
}

/// Returns the session id of an `upload_id`: its time and its hash. Only the hash is stored and
/// logged.
pub fn session_id(upload_id: &str) -> SessionId {
    const TIMESTAMP_CHARACTERS: usize = TIMESTAMP_LEN * 4 / 3;
    let mut id: [u8; 32] = Sha256::digest(upload_id.as_bytes()).into();
    let characters = upload_id.as_bytes().get(..TIMESTAMP_CHARACTERS);
    let moment = characters.and_then(|moment| URL_SAFE_NO_PAD.decode(moment).ok());
    // An `upload_id` without a time was not made by this server, and is treated as unknown.
    if let Some(moment) = moment {
        id[..TIMESTAMP_LEN].copy_from_slice(&moment);
    }
    SessionId::from_bytes(id)
}

/// Returns a text for the log with `..` in place of each word that may contain an `upload_id`. A
/// client may put an `upload_id` anywhere, such as into the path, and it is sufficient for an
/// upload to its session.
pub fn without_upload_ids(text: &str) -> Cow<'_, str> {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_%".contains(byte);
    let words = text
        .as_bytes()
        .chunk_by(|a, b| is_inside(a) == is_inside(b));
    if !words.clone().any(has_upload_id) {
        return Cow::Borrowed(text);
    }
    let mut shown = Vec::with_capacity(text.len());
    for word in words {
        shown.extend_from_slice(if has_upload_id(word) { b".." } else { word });
    }
    // Words end at ASCII characters, so no other character was cut.
    Cow::Owned(String::from_utf8_lossy(&shown).into_owned())
}

/// Whether a word may contain an `upload_id`: it is long enough, and has letters of both cases. An
/// `upload_id` lacks one case once in ten million times. Hexadecimal digests have letters of only
/// one case.
fn has_upload_id(word: &[u8]) -> bool {
    const LEN: usize = (TIMESTAMP_LEN + SECRET_LEN) * 4 / 3;
    word.len() >= LEN
        && word.iter().any(u8::is_ascii_uppercase)
        && word.iter().any(u8::is_ascii_lowercase)
}

/// Returns a new media id for the vault. Its first bytes are random, since they name the directory.
pub fn new_media_id() -> MediaId {
    MediaId::from_bytes(random())
}

/// Returns a new media id for the ledger.
pub fn new_small_media_id(now: Timestamp) -> MediaId {
    MediaId::from_bytes(timed(now))
}

/// Returns a new resource id: 32 lower-case hexadecimal digits that sort by creation time.
pub fn new_resource_id(now: Timestamp) -> String {
    format!("{:032x}", u128::from_be_bytes(timed(now)))
}

/// Returns the version of a new resource: a random number below 2^62. A resource that is deleted
/// and created again under the same id then has no version that a call may have read before.
pub fn first_version() -> u64 {
    random_number() >> 2
}

/// Returns a new secret, such as a token that a handler gives out: 32 characters of the URL-safe
/// alphabet, of 192 random bits.
pub fn new_secret() -> String {
    URL_SAFE_NO_PAD.encode(random::<SECRET_LEN>())
}

/// Returns a random number.
pub fn random_number() -> u64 {
    u64::from_be_bytes(random())
}

/// Returns a time followed by random bytes.
fn timed<const N: usize>(now: Timestamp) -> [u8; N] {
    let mut bytes = random();
    bytes[..TIMESTAMP_LEN].copy_from_slice(&now.to_sortable_bytes());
    bytes
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Tells the time. Tests drive their own.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);
    const LATER: Timestamp = Timestamp::from_millis(1_001);

    #[test]
    fn an_upload_id_is_192_bits_behind_a_moment_and_needs_no_escaping_in_a_query() {
        let upload_id = new_upload_id(NOW);
        assert_eq!(upload_id.len(), (6 + 24) * 4 / 3);
        assert!(
            upload_id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        assert_ne!(upload_id, new_upload_id(NOW));
    }

    #[test]
    fn secret_is_192_bits_of_the_url_safe_alphabet() {
        let secret = new_secret();
        assert_eq!(URL_SAFE_NO_PAD.decode(&secret).unwrap().len(), SECRET_LEN);
        assert_ne!(secret, new_secret());
    }

    #[test]
    fn sessions_and_small_media_sort_by_time() {
        let id = |now| session_id(&new_upload_id(now));
        assert!(id(NOW) < id(LATER));
        assert!(SessionId::least_at(NOW) < id(NOW) && id(NOW) < SessionId::least_at(LATER));
        assert!(new_small_media_id(NOW) < new_small_media_id(LATER));
    }

    #[test]
    fn upload_ids_are_hidden_wherever_they_are() {
        let id = new_upload_id(NOW);
        for (text, shown) in [
            (format!("/upload/farm/{id}"), "/upload/farm/..".to_owned()),
            (
                format!("/a/upload_id={id}/b"),
                "/a/upload_id=../b".to_owned(),
            ),
            (format!("/a{id}b/é"), "/../é".to_owned()),
        ] {
            assert_eq!(without_upload_ids(&text), shown);
        }
        let digest = "aa".repeat(32);
        for text in ["/farm/v1/animals/17", "", "/é", &id[1..], &digest] {
            assert_eq!(without_upload_ids(text), text);
        }
    }

    #[test]
    fn every_character_of_an_upload_id_counts() {
        let upload_id = new_upload_id(NOW);
        for at in 0..upload_id.len() {
            let mut other = upload_id.clone().into_bytes();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            let other = String::from_utf8(other).unwrap();
            assert_ne!(session_id(&upload_id), session_id(&other), "{at}");
        }
        for foreign in ["", "short", "%%%%%%%%%%%%", "\u{e9}\u{e9}\u{e9}\u{e9}"] {
            assert_ne!(session_id(&upload_id), session_id(foreign), "{foreign}");
        }
    }

    #[test]
    fn resource_ids_sort_by_time() {
        let early = new_resource_id(NOW);
        let late = new_resource_id(LATER);
        assert!(early < late, "{early} {late}");
        assert_eq!(early.len(), 32);
    }
}
