//! `orderBy`: in which order files are listed.
//!
//! What files are compared by is made a text for each key, so that a page token can say where a page
//! ended. Texts are cut off: names that begin with the same 128 characters are in the order of ids.

use std::cmp::Ordering;

use thiserror::Error;
use windlass_store::Resource;

use crate::record::{Fields, fields_of, text};

use super::file::{flag, is_folder};

/// How much of a text counts.
const COMPARED: usize = 128;

/// The most keys that are read.
const MOST_KEYS: usize = 10;

/// Why an order cannot be read.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum OrderError {
    #[error("{name} is not a key to sort by")]
    UnknownKey { name: String },
    #[error("{word} is not desc")]
    UnknownDirection { word: String },
    #[error("there are more than {MOST_KEYS} keys")]
    TooManyKeys,
}

/// What files are sorted by, the most important first. By ids, after all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    keys: Vec<(Key, Direction)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Created,
    Folder,
    Modified,
    Name,
    NaturalName,
    QuotaBytesUsed,
    Starred,
    Viewed,
    /// What no file has here.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

/// Where a file stands in an [`Order`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    texts: Vec<(String, Direction)>,
    pub(super) id: String,
}

impl Order {
    /// Reads keys with commas between them; `desc` behind a key turns it around.
    pub(super) fn parse(text: &str) -> Result<Self, OrderError> {
        let keys = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let keys = keys.map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.len() > MOST_KEYS {
            return Err(OrderError::TooManyKeys);
        }
        Ok(Self { keys })
    }

    /// Whether files are in the order of their ids.
    pub(super) fn is_by_id(&self) -> bool {
        self.keys.is_empty()
    }

    /// Where a file stands.
    pub(super) fn position(&self, file: &Resource) -> Position {
        let fields = fields_of(file);
        let texts = self.keys.iter();
        let texts = texts.map(|(key, direction)| (key.text(file, &fields), *direction));
        Position {
            texts: texts.collect(),
            id: file.id.clone(),
        }
    }

    /// The position that a page token names. `None` when it is another order's.
    pub(super) fn position_of(&self, mut texts: Vec<String>) -> Option<Position> {
        let id = texts.pop()?;
        if texts.len() != self.keys.len() {
            return None;
        }
        let directions = self.keys.iter().map(|(_, direction)| *direction);
        Some(Position {
            texts: texts.into_iter().zip(directions).collect(),
            id,
        })
    }
}

impl Position {
    /// What a page token says of it.
    pub(super) fn into_texts(self) -> Vec<String> {
        let texts = self.texts.into_iter().map(|(text, _)| text);
        texts.chain([self.id]).collect()
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.texts.iter().zip(&other.texts);
        let compared = pairs.map(|((one, direction), (other, _))| match direction {
            Direction::Ascending => one.cmp(other),
            Direction::Descending => other.cmp(one),
        });
        compared
            .fold(Ordering::Equal, Ordering::then)
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    fn text(self, file: &Resource, fields: &Fields) -> String {
        let field = |name| text(fields, name).unwrap_or_default().to_owned();
        // What is first in ascending order has to be the smaller text.
        let first = |is_first: bool| if is_first { "0" } else { "1" }.to_owned();
        match self {
            Self::Created => field("createdTime"),
            Self::Modified => field("modifiedTime"),
            Self::Viewed => field("viewedByMeTime"),
            Self::Folder => first(is_folder(fields)),
            Self::Starred => first(flag(fields, "starred")),
            Self::Name => comparable(&field("name")),
            Self::NaturalName => natural(&comparable(&field("name"))),
            Self::QuotaBytesUsed => {
                let length = file.media.as_ref().map_or(0, |media| media.length);
                format!("{length:020}")
            }
            Self::Nothing => String::new(),
        }
    }
}

fn key(written: &str) -> Result<(Key, Direction), OrderError> {
    let (name, word) = written.split_once(' ').unwrap_or((written, "asc"));
    let direction = match word.trim() {
        "asc" => Direction::Ascending,
        "desc" => Direction::Descending,
        word => {
            let word = word.to_owned();
            return Err(OrderError::UnknownDirection { word });
        }
    };
    let key = match name {
        "createdTime" => Key::Created,
        "folder" => Key::Folder,
        // All that is done here is done by the one user.
        "modifiedTime" | "modifiedByMeTime" | "recency" => Key::Modified,
        "name" => Key::Name,
        "name_natural" => Key::NaturalName,
        "quotaBytesUsed" => Key::QuotaBytesUsed,
        "starred" => Key::Starred,
        "viewedByMeTime" => Key::Viewed,
        "sharedWithMeTime" => Key::Nothing,
        name => {
            let name = name.to_owned();
            return Err(OrderError::UnknownKey { name });
        }
    };
    Ok((key, direction))
}

fn comparable(name: &str) -> String {
    name.to_lowercase().chars().take(COMPARED).collect()
}

/// Numbers as wide as the widest that fits, so that 9 comes before 10.
fn natural(name: &str) -> String {
    let mut text = String::new();
    let mut digits = String::new();
    for char in name.chars().chain(['\0']) {
        if char.is_ascii_digit() {
            digits.push(char);
            continue;
        }
        if !digits.is_empty() {
            let number = std::mem::take(&mut digits);
            text.extend([format!("{number:0>20}")]);
        }
        text.push(char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_commas_between_them_and_desc_behind() {
        let order = Order::parse("folder, modifiedTime desc,name").unwrap();
        let keys = [
            (Key::Folder, Direction::Ascending),
            (Key::Modified, Direction::Descending),
            (Key::Name, Direction::Ascending),
        ];
        assert_eq!(order.keys, keys);
        assert!(Order::parse("").unwrap().is_by_id());
        let size = OrderError::UnknownKey {
            name: "size".into(),
        };
        assert_eq!(Order::parse("size"), Err(size));
        let down = OrderError::UnknownDirection {
            word: "down".into(),
        };
        assert_eq!(Order::parse("name down"), Err(down));
        let many = "name,".repeat(MOST_KEYS + 1);
        assert_eq!(Order::parse(&many), Err(OrderError::TooManyKeys));
    }

    #[test]
    fn natural_names_count_and_others_spell() {
        let mut names = ["a10", "a9", "b1", "a", "a9b"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a", "a9", "a9b", "a10", "b1"]);
        names.sort_by_key(|name| comparable(name));
        assert_eq!(names, ["a", "a10", "a9", "a9b", "b1"]);
    }

    #[test]
    fn a_position_comes_back_from_its_texts_and_only_in_its_own_order() {
        let order = Order::parse("name desc,folder").unwrap();
        let texts = ["zoo", "0", "1abc"].map(str::to_owned).to_vec();
        let position = order.position_of(texts.clone()).unwrap();
        assert_eq!(position.clone().into_texts(), texts);
        let earlier = order.position_of(["zoos", "1", "1abc"].map(str::to_owned).to_vec());
        assert!(earlier.unwrap() < position);
        assert_eq!(Order::default().position_of(texts), None);
        assert_eq!(Order::default().position_of(vec![]), None);
    }
}
