//! The normal form of output: the same in each run.

use std::path::Path;

use regex_lite::Regex;

/// Words in capital letters that stand for values that differ in each run.
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    /// With the directory in which commands run.
    pub(super) fn new(directory: &Path) -> Self {
        let directory = directory.display().to_string();
        Self(vec![("DIRECTORY/".to_owned(), directory)])
    }

    pub(super) fn add(&mut self, name: &str, value: &dyn ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// Adds the ids of uploads that have no name yet, in their order.
    pub(super) fn add_uploads(&mut self, ids: impl IntoIterator<Item = String>) {
        for id in ids {
            let is_known = self.0.iter().any(|(_, value)| *value == id);
            if !is_known {
                let count = self.0.iter().filter(|(name, _)| is_upload(name)).count();
                // As long as an id, so that tables keep their columns.
                self.0.push((format!("UPLOAD_{}", count + 1), id));
            }
        }
    }

    /// Replaces the words by their values.
    pub(super) fn filled_in(&self, command: &str) -> String {
        let fill = |text: String, (name, value): &(String, String)| text.replace(name, value);
        self.0.iter().fold(command.to_owned(), fill)
    }
}

fn is_upload(line: &str) -> bool {
    line.starts_with("UPLOAD_")
}

/// Patterns of values that differ in each run, and the word that stands for each.
const PATTERNS: [(&str, &str); 6] = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\bv\d{10,}\b", "VERSION"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"windlass \d+\.\d+\.\d+\b", "windlass VERSION"),
    // They depend on the features of the build.
    (r"\(there is [a-zA-Z, ]+\)", "(there is APIS)"),
    (r"\b\d+ s( +[a-z]+\.mp4| ago)", "AGE$1"),
];

/// Returns a text with names in place of their values, and with words in place of all further
/// varying values.
pub(super) fn normalised(text: &str, names: &Names) -> String {
    let replace = |text: String, (name, value): &(String, String)| text.replace(value, name);
    let text = names.0.iter().rev().fold(text.to_owned(), replace);
    let text = PATTERNS.iter().fold(text, |text, (pattern, word)| {
        let pattern = Regex::new(pattern).expect("it is one");
        pattern.replace_all(&text, *word).into_owned()
    });
    with_sorted_tables(&text)
}

/// Uploads that were begun in the same second are listed in any order.
fn with_sorted_tables(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().collect();
    for rows in lines.chunk_by_mut(|a, b| is_upload(a) && is_upload(b)) {
        rows.sort_unstable();
    }
    lines.join("\n")
}
