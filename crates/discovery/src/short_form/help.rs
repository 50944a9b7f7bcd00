//! Suggested corrections of mistakes.

use super::key_path::Step;

/// The message of serde about a value, taken apart.
pub(super) struct Quoted<'a> {
    message: &'a str,
    /// The unknown key and the known keys; `None` if the message is about something else.
    unknown: Option<(&'a str, Vec<&'a str>)>,
}

impl<'a> Quoted<'a> {
    pub(super) fn of(message: &'a str) -> Self {
        let unknown = message.strip_prefix("unknown field ").map(|rest| {
            // Names in grave accents: the unknown one, then the known ones.
            let mut names = rest.split('`').skip(1).step_by(2);
            (names.next().unwrap_or_default(), names.collect())
        });
        Self { message, unknown }
    }

    /// The problem, on one line.
    pub(super) fn problem(&self) -> String {
        match &self.unknown {
            Some(_) => "unknown key".to_owned(),
            None => self.message.replace('\n', ", "),
        }
    }
}

/// Returns the suggested correction for the mistake at this path.
pub(super) fn help_for(path: &[Step], quoted: &Quoted<'_>) -> Option<String> {
    let keys: Vec<_> = path.iter().map(key).collect();
    match keys[..] {
        // TOML reads an unquoted name with dots as this path.
        ["methods", collection, verb] if quoted.unknown.is_some() => {
            let quoted_name = format!("write [methods.\"{collection}.{verb}\"] with quotes");
            return quoted.nearest().or(Some(quoted_name));
        }
        ["collections", outer, inner] if quoted.unknown.is_some() => {
            return quoted.nearest().or_else(|| Some(inside(outer, inner)));
        }
        ["collections", name] => {
            if let Some((outer, inner)) = name.split_once('.') {
                return Some(inside(outer, inner));
            }
        }
        _ => {}
    }
    quoted.nearest().or_else(|| quoted.known())
}

fn inside(outer: &str, inner: &str) -> String {
    format!("a collection inside of another one is [collections.{inner}] with parent = \"{outer}\"")
}

fn key(step: &Step) -> &str {
    match step {
        Step::Key(key) => key,
        Step::Element(_) => "",
    }
}

impl Quoted<'_> {
    fn nearest(&self) -> Option<String> {
        let (name, known) = self.unknown.as_ref()?;
        nearest(name, known.iter().copied())
    }

    fn known(&self) -> Option<String> {
        let (_, known) = self.unknown.as_ref()?;
        Some(format!("the keys here are {}", known.join(", ")))
    }
}

/// Returns the question whether the most similar name was meant, if one is similar.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&plain(name), &plain(known));
    let known: Vec<_> = known.collect();
    // `minimum` for `min`.
    let longer = known
        .iter()
        .copied()
        .find(|known| known.len() > 2 && name.starts_with(known));
    let nearest = known
        .into_iter()
        .min_by_key(|known| (distance(known), known.to_string()))?;
    // Two typing errors, but not a name of which nothing is left.
    let is_like = distance(nearest) <= 2.min(name.len() / 2);
    let meant = if is_like { Some(nearest) } else { longer };
    meant.map(|meant| format!("did you mean `{meant}`?"))
}
