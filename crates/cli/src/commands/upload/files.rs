//! The files that the sources of a command stand for: named files, and files in named directories.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::args::DirectoryArgs;

/// A file to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    /// The path at which it is opened.
    pub(super) path: PathBuf,
    /// The path below the directory that was named, or the name of a file that was named itself.
    pub(super) below: PathBuf,
}

impl SourceFile {
    /// A file that was named itself.
    pub(super) fn named(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            below: path.file_name().map(PathBuf::from).unwrap_or_default(),
        }
    }
}

/// An entry found in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file to upload.
    File(SourceFile),
    /// Something that is neither a file nor a directory.
    Special(PathBuf),
    /// A directory that cannot be read, and why.
    Unreadable(PathBuf, String),
}

/// Returns the files in a directory and below, by name. Links to files are files; links to
/// directories are not followed, because they can lead in a circle.
pub(super) fn in_directory(directory: &Path, filter: &DirectoryArgs) -> Vec<Found> {
    let mut found = Vec::new();
    visit(directory, Path::new(""), 1, filter, &mut found);
    found
}

/// Adds the contents of a directory. `below` is its path relative to the named directory.
fn visit(
    directory: &Path,
    below: &Path,
    depth: usize,
    filter: &DirectoryArgs,
    found: &mut Vec<Found>,
) {
    let entries = match entries(directory) {
        Ok(entries) => entries,
        Err(error) => {
            found.push(Found::Unreadable(directory.to_owned(), error.to_string()));
            return;
        }
    };
    for entry in entries {
        let (path, below) = (entry.path(), below.join(entry.file_name()));
        if matches_any(&filter.exclude, &below) {
            continue;
        }
        match kind(&entry) {
            Kind::Directory if filter.max_depth.is_none_or(|most| depth < most.get()) => {
                visit(&path, &below, depth + 1, filter, found);
            }
            Kind::File if filter.include.is_empty() || matches_any(&filter.include, &below) => {
                found.push(Found::File(SourceFile { path, below }));
            }
            Kind::Special => found.push(Found::Special(path)),
            Kind::Directory | Kind::File | Kind::LinkedDirectory => {}
        }
    }
}

/// Returns the entries of a directory, by name.
fn entries(directory: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

enum Kind {
    File,
    Directory,
    LinkedDirectory,
    Special,
}

/// Returns the kind of an entry. An entry that cannot be examined is taken as a file: its error is
/// reported when it is opened.
fn kind(entry: &DirEntry) -> Kind {
    let Ok(entry_type) = entry.file_type() else {
        return Kind::File;
    };
    if entry_type.is_dir() {
        return Kind::Directory;
    }
    match fs::metadata(entry.path()) {
        Ok(target) if target.is_dir() => Kind::LinkedDirectory,
        Ok(target) if !target.is_file() => Kind::Special,
        Ok(_) | Err(_) => Kind::File,
    }
}

/// Whether one of the patterns matches. A pattern with a slash is compared with the path below the
/// named directory. A pattern without a slash is compared with the name.
fn matches_any(patterns: &[Pattern], below: &Path) -> bool {
    let options = MatchOptions {
        require_literal_separator: true,
        ..MatchOptions::new()
    };
    let name = below.file_name().map_or(below, Path::new);
    patterns.iter().any(|pattern| {
        let subject = if pattern.as_str().contains('/') {
            below
        } else {
            name
        };
        pattern.matches_path_with(subject, options)
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        let patterns = texts.iter().map(|text| Pattern::new(text));
        patterns.collect::<Result<_, _>>().expect("they are right")
    }

    fn herd() -> tempfile::TempDir {
        let herd = tempfile::tempdir().expect("there is room");
        let path = |name: &str| herd.path().join(name);
        fs::create_dir_all(path("b/deep")).expect("there is room");
        fs::create_dir_all(path(".git")).expect("there is room");
        for name in ["c.jpg", "a.png", "b/d.jpg", "b/deep/e.jpg", ".git/f.jpg"] {
            fs::write(path(name), "a cow").expect("there is room");
        }
        std::os::unix::fs::symlink(path("b"), path("b/circle")).expect("there is room");
        std::os::unix::fs::symlink(path("c.jpg"), path("link.jpg")).expect("there is room");
        herd
    }

    #[track_caller]
    fn check(filter: &DirectoryArgs, expected: &[&str]) {
        let herd = herd();
        let found = in_directory(herd.path(), filter);
        let files = found.into_iter().map(|found| match found {
            Found::File(file) => {
                assert_eq!(file.path, herd.path().join(&file.below));
                file.below.display().to_string()
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(files.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn files_of_all_levels_are_found_by_name_and_linked_directories_are_not_followed() {
        let all = [
            ".git/f.jpg",
            "a.png",
            "b/d.jpg",
            "b/deep/e.jpg",
            "c.jpg",
            "link.jpg",
        ];
        check(&DirectoryArgs::default(), &all);
    }

    #[test]
    fn patterns_without_slash_match_names_and_others_paths() {
        let include = |texts| DirectoryArgs {
            include: patterns(texts),
            ..DirectoryArgs::default()
        };
        check(&include(&["*.png"]), &["a.png"]);
        check(&include(&["b/*.jpg"]), &["b/d.jpg"]);
        check(
            &include(&["b/**/*.jpg", "a.*"]),
            &["a.png", "b/d.jpg", "b/deep/e.jpg"],
        );
        check(&include(&["*.gif"]), &[]);
    }

    #[test]
    fn excluded_directories_are_not_entered() {
        let exclude = DirectoryArgs {
            include: patterns(&["*.jpg"]),
            exclude: patterns(&[".*", "b/deep", "link.*"]),
            ..DirectoryArgs::default()
        };
        check(&exclude, &["b/d.jpg", "c.jpg"]);
    }

    #[test]
    fn depth_of_one_is_the_directory_itself() {
        let depth = |levels| DirectoryArgs {
            exclude: patterns(&[".*", "link.*"]),
            max_depth: NonZeroUsize::new(levels),
            ..DirectoryArgs::default()
        };
        check(&depth(1), &["a.png", "c.jpg"]);
        check(&depth(2), &["a.png", "b/d.jpg", "c.jpg"]);
    }

    #[test]
    fn what_is_no_file_and_what_cannot_be_read_is_told() {
        let herd = herd();
        let socket = herd.path().join("b/socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("there is room");
        let found = in_directory(herd.path(), &DirectoryArgs::default());
        assert!(found.contains(&Found::Special(socket)), "{found:?}");
        let none = in_directory(&herd.path().join("none"), &DirectoryArgs::default());
        assert!(matches!(&none[..], [Found::Unreadable(..)]), "{none:?}");
    }
}
