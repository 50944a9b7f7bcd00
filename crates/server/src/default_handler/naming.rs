//! What names in a description have to do with each other: `ragFile` with `ragFiles`, `fileId` with
//! `policyDeclarationFiles`.

/// Whether `word` is the plural of `stem`, or ends in it as in `policyDeclarationFiles`. Case is of no
/// account, but where the stem begins inside of the word.
pub(super) fn is_plural_of(word: &str, stem: &str) -> bool {
    plurals(stem).any(|plural| ends_in(word, &plural))
}

/// Whether `name` is a word for one of `word`, or begins with one, as `attachmentDataRef` does.
pub(super) fn begins_with_one_of(word: &str, name: &str) -> bool {
    let ends = name.char_indices().filter(|(_, char)| char.is_uppercase());
    ends.map(|(at, _)| at)
        .chain([name.len()])
        .filter(|at| *at > 0)
        .any(|at| is_plural_of(word, &name[..at]))
}

/// Whether two words for many are the same, or `word` ends in `name`, as `creativeAssets` in `assets`.
pub(super) fn is_same_or_ends_in(word: &str, name: &str) -> bool {
    ends_in(word, &name.to_ascii_lowercase())
}

fn plurals(stem: &str) -> impl Iterator<Item = String> {
    let stem = stem.to_ascii_lowercase();
    let by_y = stem.strip_suffix('y').map(|stem| format!("{stem}ies"));
    let regular = (!stem.is_empty()).then(|| [format!("{stem}s"), format!("{stem}es")]);
    regular.into_iter().flatten().chain(by_y)
}

/// Whether `word` is `end`, which is in lower case, or ends in it where a capital begins.
fn ends_in(word: &str, end: &str) -> bool {
    let Some(start) = word.len().checked_sub(end.len()) else {
        return false;
    };
    let Some(tail) = word.get(start..) else {
        return false;
    };
    let begins = start == 0 || tail.starts_with(char::is_uppercase);
    begins && !end.is_empty() && tail.eq_ignore_ascii_case(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plural_is_regular_and_may_have_words_before_it() {
        let table = [
            ("ragFiles", "ragFile", true),
            ("policyDeclarationFiles", "file", true),
            ("deobfuscationfiles", "deobfuscationFile", true),
            ("policies", "policy", true),
            ("boxes", "box", true),
            ("files", "profile", false),
            ("profiles", "file", false),
            ("files", "", false),
            ("media", "media", false),
        ];
        for (word, stem, expected) in table {
            assert_eq!(is_plural_of(word, stem), expected, "{word} {stem}");
        }
    }

    #[test]
    fn a_name_may_say_more_than_the_word() {
        let table = [
            ("attachments", "attachment", true),
            ("attachments", "attachmentDataRef", true),
            ("attachments", "attachmented", false),
            ("files", "uploadRagFileConfig", false),
        ];
        for (word, name, expected) in table {
            assert_eq!(begins_with_one_of(word, name), expected, "{word} {name}");
        }
    }

    #[test]
    fn a_list_may_leave_out_the_first_words() {
        assert!(is_same_or_ends_in("creativeAssets", "assets"));
        assert!(is_same_or_ends_in("aptArtifacts", "aptArtifacts"));
        assert!(!is_same_or_ends_in("warnings", "rings"));
    }
}
