//! The tokens of Rust code, as far as paths need them.

use std::iter::Peekable;

use proc_macro2::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};

/// Returns the identifiers of a source, `::`, and all other punctuation by character. Comments,
/// literals and items under `#[cfg(test)]` are left out.
///
/// # Panics
/// If the source is not Rust.
pub(super) fn code(source: &str) -> Vec<String> {
    let mut code = Vec::new();
    flatten(source.parse().expect("a source is Rust"), &mut code);
    code
}

fn flatten(stream: TokenStream, code: &mut Vec<String>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let is_attribute = is(&tree, '#');
        match tree {
            _ if is_attribute && trees.peek().is_some_and(is_cfg_test) => skip_item(&mut trees),
            TokenTree::Punct(punct) => code.push(punctuation(&punct, &mut trees)),
            TokenTree::Ident(identifier) => code.push(identifier.to_string()),
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                let (open, close) = brackets(&group);
                code.push(open.to_owned());
                flatten(group.stream(), code);
                code.push(close.to_owned());
            }
        }
    }
}

/// Returns a character of punctuation, or `::` as a whole.
fn punctuation(first: &Punct, trees: &mut Peekable<impl Iterator<Item = TokenTree>>) -> String {
    let is_joint = first.as_char() == ':' && first.spacing() == Spacing::Joint;
    let is_path = is_joint && trees.next_if(|next| is(next, ':')).is_some();
    if is_path {
        "::".to_owned()
    } else {
        first.as_char().to_string()
    }
}

/// Skips an attribute and its item, up to a semicolon or the end of a body in braces.
fn skip_item(trees: &mut impl Iterator<Item = TokenTree>) {
    trees.find(|tree| is(tree, ';') || has_braces(tree));
}

fn is(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn has_braces(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Whether this is the part of an attribute in brackets, `[cfg(test)]` or `[cfg(all(test, ...))]`.
fn is_cfg_test(tree: &TokenTree) -> bool {
    let text = tree.to_string().replace(' ', "");
    text.starts_with("[cfg(test)") || text.starts_with("[cfg(all(test,")
}

fn brackets(group: &Group) -> (&'static str, &'static str) {
    match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}
