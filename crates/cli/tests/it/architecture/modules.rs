//! Circles among the modules of a crate, found in its sources.
//!
//! Two siblings, each with its submodules, form a circle when each imports the other, directly or
//! by way of further siblings. Paths that begin with `crate` or `super` count, in `use`
//! declarations and in code; comments, strings and items under `#[cfg(test)]` do not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use super::tokens::code;

/// The path of a module within its crate: `["display", "view"]`; empty for the root.
type ModulePath = Vec<String>;

/// The sources of a crate by module.
pub(super) type Sources = BTreeMap<ModulePath, String>;

/// A path in the source of one module that leads to another module.
struct Import {
    from: ModulePath,
    to: ModulePath,
    /// The path as written, its braces expanded: `crate::output::escaped`.
    path: String,
}

/// The imports between the children of one module: importer, imported, and the place of each
/// import.
type Graph = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Reads the sources below a `src` directory, without the tests.
pub(super) fn read_sources(src: &Path) -> Sources {
    let mut sources = Sources::new();
    read_directory(src, &mut Vec::new(), &mut sources);
    sources
}

/// Returns a message for each circle: the modules in it, and the imports of every edge.
pub(super) fn circles(sources: &Sources) -> Vec<String> {
    let imports: Vec<_> = sources
        .iter()
        .flat_map(|(module, source)| imports_of(module, source, sources))
        .collect();
    let parents: BTreeSet<_> = sources
        .keys()
        .filter_map(|module| module.split_last())
        .map(|(_, parent)| parent)
        .collect();
    let circle_below = |parent: &[String]| {
        let graph = graph_below(parent, &imports);
        let circle = find_circle(&graph)?;
        Some(describe(parent, &circle, &graph))
    };
    parents.into_iter().filter_map(circle_below).collect()
}

fn read_directory(directory: &Path, parent: &mut ModulePath, sources: &mut Sources) {
    for entry in std::fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the directory can be read").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("the names of sources are UTF-8").to_owned();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            parent.push(name);
            read_directory(&path, parent, sources);
            parent.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut module = parent.clone();
            if !(parent.is_empty() && (name == "lib" || name == "main")) {
                module.push(name);
            }
            let source = std::fs::read_to_string(&path).expect("a source is UTF-8");
            sources.insert(module, source);
        }
    }
}

/// The imports of a module that lead to other modules of the crate.
fn imports_of(module: &ModulePath, source: &str, sources: &Sources) -> Vec<Import> {
    let import = |path: Vec<String>| {
        let to = target(module, &path, sources);
        (to != *module).then(|| Import {
            from: module.clone(),
            to,
            path: path.join("::"),
        })
    };
    paths_in(&code(source))
        .into_iter()
        .filter_map(import)
        .collect()
}

/// All paths in the code that begin with `crate` or `super`, with the trees of `use` expanded.
fn paths_in(code: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let is_root = matches!(code[at].as_str(), "crate" | "super");
        if is_root && code.get(at + 1).is_some_and(|next| next == "::") {
            at = expand(code, at, &[], &mut paths);
        } else {
            at += 1;
        }
    }
    paths
}

/// Collects the paths of the tree that begins at `at`, and returns where the tree ends.
fn expand(
    code: &[String],
    mut at: usize,
    prefix: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match code.get(at).map(String::as_str) {
            Some("{") => return expand_list(code, at + 1, &path, paths),
            Some(segment) if is_identifier(segment) => path.push(segment.to_owned()),
            _ => {}
        }
        if code.get(at + 1).is_some_and(|next| next == "::") {
            at += 2;
        } else {
            paths.push(path);
            return at + 1;
        }
    }
}

/// Collects the paths of a list in braces, and returns where the list ends.
fn expand_list(
    code: &[String],
    mut at: usize,
    prefix: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    while let Some(token) = code.get(at) {
        at = match token.as_str() {
            "}" => return at + 1,
            "," => at + 1,
            // The new name of an import says nothing about its module.
            "as" => at + 2,
            _ => expand(code, at, prefix, paths),
        };
    }
    at
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The innermost module that a path written in `module` leads to.
fn target(module: &[String], path: &[String], sources: &Sources) -> ModulePath {
    let (mut at, mut rest) = match path.split_first() {
        Some((first, rest)) if first == "crate" => (Vec::new(), rest),
        _ => (module.to_vec(), path),
    };
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    for segment in rest {
        at.push(segment.clone());
        if !sources.contains_key(&at) {
            at.pop();
            break;
        }
    }
    at
}

/// The imports between different children of `parent`, each child with its submodules.
fn graph_below(parent: &[String], imports: &[Import]) -> Graph {
    let child = |module: &[String]| module.strip_prefix(parent)?.first().cloned();
    let mut graph = Graph::new();
    for import in imports {
        if let (Some(from), Some(to)) = (child(&import.from), child(&import.to))
            && from != to
        {
            let place = format!("{} in {}", import.path, import.from.join("::"));
            let imported = graph.entry(from).or_default();
            imported.entry(to).or_default().push(place);
        }
    }
    graph
}

/// A shortest circle through the first module that is in one; its first module is also its last.
fn find_circle(graph: &Graph) -> Option<Vec<String>> {
    graph.keys().find_map(|module| way_back(graph, module))
}

/// The shortest way from a module to itself, by breadth-first search.
fn way_back(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start.to_owned()]]);
    while let Some(way) = ways.pop_front() {
        let last = way.last().expect("a way has a beginning");
        for next in graph.get(last).into_iter().flat_map(BTreeMap::keys) {
            let longer = || way.iter().cloned().chain([next.clone()]).collect();
            if next == start {
                return Some(longer());
            }
            if seen.insert(next) {
                ways.push_back(longer());
            }
        }
    }
    None
}

fn describe(parent: &[String], circle: &[String], graph: &Graph) -> String {
    let place = match parent {
        [] => String::new(),
        _ => format!(" in {}", parent.join("::")),
    };
    let edge = |edge: &[String]| {
        let imports = graph[&edge[0]][&edge[1]].join(", ");
        format!("\n  {} -> {}: {imports}", edge[0], edge[1])
    };
    let edges: String = circle.windows(2).map(edge).collect();
    format!("circle {}{place}{edges}", circle.join(" -> "))
}

/// Sources that are made up for a test, by module path with `::`.
fn made_up(sources: &[(&str, &str)]) -> Sources {
    let module = |name: &str| match name {
        "" => ModulePath::new(),
        _ => name.split("::").map(str::to_owned).collect(),
    };
    sources
        .iter()
        .map(|(name, source)| (module(name), (*source).to_owned()))
        .collect()
}

#[test]
fn siblings_that_import_each_other_are_a_circle() {
    let found = circles(&made_up(&[
        ("", "mod a; mod b;"),
        ("a", "use crate::b::Barn;"),
        ("b", "fn feed(cow: super::a::Cow) {}"),
    ]));
    let expected =
        "circle a -> b -> a\n  a -> b: crate::b::Barn in a\n  b -> a: super::a::Cow in b";
    assert_eq!(found, [expected]);
}

#[test]
fn imports_of_submodules_count_to_their_parent() {
    let found = circles(&made_up(&[
        ("a", ""),
        ("a::inner", "use super::super::{b::{Barn, Door as D}, c};"),
        ("b", "use crate::c;"),
        ("c", "use crate::a::inner::{self, Cow};"),
    ]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("circle a -> c -> a\n"), "{found:?}");
}

#[test]
fn a_circle_below_a_module_names_that_module() {
    let found = circles(&made_up(&[
        ("a", ""),
        ("a::left", "use super::right::R;"),
        ("a::right", "use crate::a::left::L;"),
    ]));
    assert!(found[0].starts_with("circle left -> right -> left in a\n"));
}

#[test]
fn a_chain_is_no_circle() {
    let found = circles(&made_up(&[
        ("a", "use crate::b::B; use crate::c::C;"),
        ("b", "use super::c::C; use super::Root;"),
        ("c", "use std::fmt; pub(super) struct C;"),
    ]));
    assert_eq!(found, [""; 0]);
}

#[test]
fn imports_in_tests_comments_and_strings_do_not_count() {
    let b = r##"
        //! See [`crate::a`].
        const TEXT: &str = "crate::a::A"; /* use crate::a::A; */
        const RAW: &str = r#"" crate::a::A "#; const QUOTE: char = '"';
        #[cfg(test)]
        use crate::a::A;
        #[cfg(test)]
        mod tests { use crate::a::A; fn nested() {} use super::super::a; }
        fn after<'a>(text: &'a str) -> &'a str { text }
    "##;
    assert_eq!(
        circles(&made_up(&[("a", "use crate::b;"), ("b", b)])),
        [""; 0]
    );
}

#[test]
fn an_import_after_a_test_module_counts() {
    let b = "#[cfg(test)] mod tests { fn f() {} } use crate::a::A;";
    assert_eq!(
        circles(&made_up(&[("a", "use crate::b;"), ("b", b)])).len(),
        1
    );
}
