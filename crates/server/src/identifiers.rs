//! Names that nobody can guess or that nobody else has.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use windlass_store::{MediaId, SessionId, Timestamp};

/// Random bytes in an `upload_id`: 192 bits, because it is a credential.
const UPLOAD_ID_BYTES: usize = 24;

/// A fresh `upload_id`: 32 characters of the URL-safe alphabet.
pub(crate) fn new_upload_id() -> String {
    URL_SAFE_NO_PAD.encode(random::<UPLOAD_ID_BYTES>())
}

/// The session that an `upload_id` opens. The hash is what is stored and logged.
pub(crate) fn session_id(upload_id: &str) -> SessionId {
    SessionId::from_bytes(Sha256::digest(upload_id.as_bytes()).into())
}

/// A fresh media id.
pub(crate) fn new_media_id() -> MediaId {
    MediaId::from_bytes(random())
}

/// A fresh resource id: 32 lower-case hexadecimal digits that sort by the time of their making.
pub(crate) fn new_resource_id(now: Timestamp) -> String {
    let random = u128::from_be_bytes(random());
    let time = u128::from(now.as_millis() & 0xffff_ffff_ffff) << 80;
    format!("{:032x}", time | (random >> 48))
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_id_is_192_bits_that_need_no_escaping_in_a_query() {
        let upload_id = new_upload_id();
        assert_eq!(upload_id.len(), 32);
        assert!(
            upload_id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        assert_ne!(upload_id, new_upload_id());
    }

    #[test]
    fn resource_ids_sort_by_time() {
        let early = new_resource_id(Timestamp::from_millis(1_000));
        let late = new_resource_id(Timestamp::from_millis(1_001));
        assert!(early < late, "{early} {late}");
        assert_eq!(early.len(), 32);
    }
}
