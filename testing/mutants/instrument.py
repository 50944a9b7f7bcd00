"""Puts many mutants into one copy of the sources, each behind its number in the environment.

cargo-mutants says what to mutate: it lists spans and replacements. It would build the tree for each
of them. Here each becomes a choice of the running program, so that one build serves all:

    a < b               (if crate::chosen_mutant(7) { a <= b } else { a < b })
    fn f() -> bool {    fn f() -> bool { if crate::chosen_mutant(8) { return true; }
"""

import dataclasses

import tree_sitter
import tree_sitter_rust

# Such code runs at compile time, where no environment is read.
CONSTANT = {
    "array_type", "attribute_item", "const_block", "const_item", "enum_variant", "static_item",
}
# What a program calls first. It opens the log, which a server that confines itself could not later.
BEGIN = "chosen_mutant(usize::MAX)"
# At the end of each crate's root.
CHOICE = """
#[allow(dead_code, missing_docs, unreachable_pub, clippy::all)]
pub fn chosen_mutant(number: usize) -> bool {
    use std::io::Write;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    static CHOSEN: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var("CHOSEN_MUTANT").ok()?.parse().ok());
    static LOG: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
        let path = std::env::var_os("REACHED_MUTANTS")?;
        std::fs::File::options().append(true).create(true).open(path).ok()
    });
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let log = LOG.as_ref();
    if number == usize::MAX {
        BEGIN_OF_DEPENDENCIES
        return false;
    }
    if let Some(mut log) = log {
        if !REACHED[number].swap(true, Ordering::Relaxed) {
            _ = log.write_all(format!("{number}\\n").as_bytes());
        }
    }
    *CHOSEN == Some(number)
}
"""


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replaces the bytes from `begin` to `end` of a file."""

    begin: int
    end: int
    text: bytes


class Source:
    """A file, parsed."""

    PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))

    def __init__(self, text):
        self.bytes = text
        self.lines = text.split(b"\n")
        self.root = self.PARSER.parse(text).root_node

    def at(self, place):
        """The byte of a line and a column, which counts letters from 1."""
        line = self.lines[place["line"] - 1]
        before = sum(len(it) + 1 for it in self.lines[: place["line"] - 1])
        return before + len(line.decode()[: place["column"] - 1].encode())

    def node(self, begin, end, kinds):
        """The smallest node of these kinds around these bytes, if a program evaluates it."""
        node = self.root.descendant_for_byte_range(begin, end)
        while node is not None and node.type not in kinds:
            node = node.parent
        return None if node is None or any(map(is_constant, ancestors(node))) else node

    def text(self, node):
        return self.bytes[node.start_byte : node.end_byte]


def ancestors(node):
    while node is not None:
        yield node
        node = node.parent


def is_constant(node):
    if node.type == "function_item":
        return any(b"const" in it.text for it in node.children if it.type == "function_modifiers")
    return node.type in CONSTANT


def edit_of(mutant, number, source):
    """How the mutant becomes a choice, or `None` if it cannot."""
    begin, end = (source.at(mutant["span"][side]) for side in ("start", "end"))
    chosen = b"crate::chosen_mutant(%d)" % number
    new = mutant["replacement"].encode()
    match mutant["genre"]:
        case "FnValue":
            if source.node(begin, begin, {"function_item"}) is None:
                return None
            return Edit(begin, begin, b"if %s { return %s; } " % (chosen, new))
        case "BinaryOperator":
            node = source.node(begin, end, {"binary_expression", "compound_assignment_expr"})
            if node is None or node.child_by_field_name("operator").start_byte != begin:
                return None
            own = source.text(node)
            mutated = own[: begin - node.start_byte] + new + own[end - node.start_byte :]
            return either(node, chosen, mutated, own)
        case "UnaryOperator":
            node = source.node(begin, end, {"unary_expression"})
            if node is None or node.start_byte != begin:
                return None
            return either(node, chosen, source.bytes[end : node.end_byte], source.text(node))
        case "MatchArmGuard":
            holds = b"(%s || (%s))" if new == b"true" else b"(!%s && (%s))"
            return Edit(begin, end, holds % (chosen, source.bytes[begin:end]))
        case "MatchArm":
            node = source.node(begin, end, {"match_arm"})
            if node is None or node.start_byte != begin:
                return None
            return without(node, chosen, source)
    return None


def either(node, chosen, mutated, own):
    # A statement needs no parentheses, but takes them.
    text = b"(if %s { %s } else { %s })" % (chosen, mutated, own)
    return Edit(node.start_byte, node.end_byte, text)


def without(arm, chosen, source):
    """An arm that does not match. Another one does: cargo-mutants leaves a `_` alone."""
    pattern = arm.child_by_field_name("pattern")
    guard = pattern.child_by_field_name("condition")
    if guard is None:
        return Edit(pattern.end_byte, pattern.end_byte, b" if !%s" % chosen)
    return Edit(guard.start_byte, guard.end_byte, b"!%s && (%s)" % (chosen, source.text(guard)))


def overlap(one, other):
    return one.begin < other.end and other.begin < one.end


def edited(text, edits):
    """The text with all edits, and by their keys the first and the last line that each then has."""
    lines, out, at = {}, b"", 0
    # Of two that begin at one byte, the one that only inserts comes first.
    for key, edit in sorted(edits.items(), key=lambda it: (it[1].begin, it[1].end)):
        out += text[at : edit.begin]
        first = out.count(b"\n") + 1
        out += edit.text
        lines[key] = (first, out.count(b"\n") + 1)
        at = edit.end
    return out + text[at:], lines
