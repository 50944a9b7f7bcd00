//! Tests by their names, in the form of docs/protocol.md: `apis: storage::listing::NAME` is in
//! `crates/apis`, and a name without a crate is in `crates/cli/tests/it`.

use std::path::Path;

/// A test that exists.
pub(super) struct NamedTest {
    /// The source of the file that has it, in lower case.
    file: String,
}

impl NamedTest {
    pub(super) fn find(name: &str) -> Option<Self> {
        let (krate, path) = match name.split_once(": ") {
            Some((krate, path)) => (krate, path),
            None => ("cli", name),
        };
        let (module, test) = path.rsplit_once("::")?;
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
        let module = module.replace("::", "/");
        let places = [
            format!("{krate}/tests/it/{module}.rs"),
            format!("{krate}/src/{module}.rs"),
            format!("{krate}/src/{module}/tests.rs"),
        ];
        let sources = places.iter();
        let mut sources = sources.filter_map(|it| std::fs::read_to_string(crates.join(it)).ok());
        let file = sources.find(|source| has_test(source, test))?;
        let file = file.to_ascii_lowercase();
        Some(Self { file })
    }

    /// Whether the file of the test has the name of an input. `*` at its end stands for any rest.
    pub(super) fn names(&self, input: &str) -> bool {
        let name = input.trim_end_matches('*').to_ascii_lowercase();
        self.file.contains(&name)
    }
}

fn has_test(source: &str, test: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let head = format!("fn {test}(");
    let mut at = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(&head));
    at.any(|(at, _)| {
        let attributes = lines[..at].iter().rev();
        let mut attributes = attributes.take_while(|line| line.starts_with(['#', '/']));
        attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

#[test]
fn test_is_found_by_its_crate_and_module() {
    assert!(
        NamedTest::find("apis: inputs::each_row_names_inputs_and_methods_that_exist").is_some()
    );
    assert!(NamedTest::find("apis: storage::listing::a_list_shows_what_was_asked_for").is_some());
    assert!(
        NamedTest::find("start::a_start_by_post_ends_with_201_and_by_put_or_patch_with_200")
            .is_some()
    );
    for absent in [
        "start::no_such_test",
        "apis: storage::listing::page",
        "nowhere::x",
        "x",
    ] {
        assert!(NamedTest::find(absent).is_none(), "{absent}");
    }
}
