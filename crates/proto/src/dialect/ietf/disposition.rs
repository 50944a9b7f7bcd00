//! The name of a file in `Content-Disposition` (RFC 6266).

use percent_encoding::percent_decode;

/// Returns the file's name. `filename*`, in UTF-8, is preferred. `None` without a name.
pub(super) fn file_name(disposition: &[u8]) -> Option<String> {
    let mut plain = None;
    for (name, value) in Pairs::of(disposition) {
        if name.eq_ignore_ascii_case("filename*") {
            let (charset, rest) = value.split_once('\'')?;
            let (_, coded) = rest.split_once('\'')?;
            let decoded = percent_decode(coded.as_bytes()).decode_utf8();
            if let Some(decoded) = decoded
                .ok()
                .filter(|_| charset.eq_ignore_ascii_case("utf-8"))
            {
                return Some(decoded.into_owned());
            }
        } else if name.eq_ignore_ascii_case("filename") {
            plain.get_or_insert(value);
        }
    }
    plain.filter(|name| !name.is_empty())
}

/// The parameters after the disposition's type, unquoted.
struct Pairs {
    rest: String,
}

impl Pairs {
    fn of(disposition: &[u8]) -> Self {
        let text = String::from_utf8_lossy(disposition);
        let (_, rest) = text.split_once(';').unwrap_or_default();
        Self {
            rest: rest.to_owned(),
        }
    }
}

impl Iterator for Pairs {
    type Item = (String, String);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.rest.split_once('=')?;
        let (name, rest) = (name.trim().to_owned(), rest.trim_start());
        let Some(quoted) = rest.strip_prefix('"') else {
            let (value, rest) = rest.split_once(';').unwrap_or((rest, ""));
            let value = value.trim().to_owned();
            self.rest = rest.to_owned();
            return Some((name, value));
        };
        let mut value = String::new();
        let mut characters = quoted.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(characters.next()?),
                other => value.push(other),
            }
        }
        let rest = characters.as_str();
        self.rest = rest.split_once(';').unwrap_or_default().1.to_owned();
        Some((name, value))
    }
}
