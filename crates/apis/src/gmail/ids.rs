//! Ids of messages and threads: 16 hexadecimal digits, which stand for a number below 2^63.
//!
//! The service answers 400 for a malformed id and 404 for the id of a deleted message. Programs
//! take 400 for their own error and 404 for a deletion.

use windlass_rest::handler::Rejection;

use super::{invalid, not_found};

/// Returns the id of a message or a thread as the ledger has it.
///
/// # Errors
/// [`Rejection::InvalidArgument`] if the text has something else than up to 16 hexadecimal digits.
pub(super) fn canonical(text: &str) -> Result<String, Rejection> {
    let is_hex = (1..=16).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit());
    if is_hex {
        Ok(format!("{:0>16}", text.to_ascii_lowercase()))
    } else {
        Err(malformed(text))
    }
}

/// Returns the refusal of a [`canonical`] id that no message or thread has. Earlier versions gave
/// notifications of failed deliveries ids from 2^63 on, so that these are refused only now.
pub(super) fn unknown(what: &str, id: &str) -> Rejection {
    match i64::from_str_radix(id, 16) {
        Ok(_) => not_found(what, id),
        Err(_) => malformed(id),
    }
}

fn malformed(text: &str) -> Rejection {
    let shown: String = text.chars().take(100).collect();
    invalid(format!(
        "Invalid id value: {shown}; ids of messages and threads are hexadecimal numbers below 2^63"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_has_up_to_16_hexadecimal_digits() {
        for (text, expected) in [
            ("1", "0000000000000001"),
            ("18C9a1b2c3d4e5f6", "18c9a1b2c3d4e5f6"),
            ("ffffffffffffffff", "ffffffffffffffff"),
        ] {
            assert_eq!(canonical(text).unwrap(), expected);
        }
        for text in ["", "00000000000000001", "1g", "-1", "+1", " 1", "r1", "é"] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_id_from_two_to_the_63_on_is_malformed() {
        let is_malformed = |id| matches!(unknown("message", id), Rejection::InvalidArgument { .. });
        assert!(is_malformed("8000000000000000"));
        assert!(!is_malformed("7fffffffffffffff"));
    }
}
