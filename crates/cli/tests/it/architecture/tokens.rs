//! The tokens of Rust code, as far as paths need them: identifiers, `::` and single characters.

/// Splits a source into tokens. Comments, strings and characters are left out.
pub(super) fn tokens(source: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let token = token_len(rest, first);
        if is_code(rest, first) {
            tokens.push(rest[..token].to_owned());
        }
        rest = &rest[token..];
    }
    tokens
}

/// Leaves out every item under `#[cfg(test)]`.
pub(super) fn without_tests(tokens: &[String]) -> Vec<String> {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut rest = tokens;
    while let Some((first, others)) = rest.split_first() {
        let is_test = rest.len() > CFG_TEST.len() && rest.iter().zip(CFG_TEST).all(|(a, b)| a == b);
        if is_test {
            rest = &rest[CFG_TEST.len()..];
            rest = &rest[item_len(rest)..];
        } else {
            kept.push(first.clone());
            rest = others;
        }
    }
    kept
}

/// The number of tokens of the item at the beginning: up to its semicolon or its closing brace.
fn item_len(tokens: &[String]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return at,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(token.as_str(), ";" | "}") {
            return at + 1;
        }
    }
    tokens.len()
}

/// Whether what begins here is code: no space, comment, string or character.
fn is_code(rest: &str, first: char) -> bool {
    let is_comment = rest.starts_with("//") || rest.starts_with("/*");
    let is_quoted = first == '"' || first == '\'' || raw_string_len(rest).is_some();
    !first.is_whitespace() && !is_comment && !is_quoted
}

/// The length in bytes of the token at the beginning.
fn token_len(rest: &str, first: char) -> usize {
    let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    if rest.starts_with("//") {
        until("\n")
    } else if rest.starts_with("/*") {
        until("*/")
    } else if let Some(len) = raw_string_len(rest) {
        len
    } else if first == '"' {
        quoted_len(rest, '"')
    } else if first == '\'' {
        character_len(rest)
    } else if rest.starts_with("::") {
        2
    } else if is_word(first) {
        rest.find(|c| !is_word(c)).unwrap_or(rest.len())
    } else {
        first.len_utf8()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a raw string, with or without a `b` before it; `None` if there is none.
fn raw_string_len(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = inner.find(|c| c != '#')?;
    let text = inner[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let before = rest.len() - text.len();
    Some(
        text.find(&end)
            .map_or(rest.len(), |at| before + at + end.len()),
    )
}

/// The length of a text in quotes, in which a backslash escapes the next character.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == quote {
            return at + 1;
        }
        if c == '\\' {
            characters.next();
        }
    }
    rest.len()
}

/// The length of a character such as `'"'`; of a lifetime only the quote.
fn character_len(rest: &str) -> usize {
    let mut characters = rest.chars().skip(1);
    match (characters.next(), characters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted_len(rest, '\''),
        _ => 1,
    }
}
