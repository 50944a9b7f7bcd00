"""Random mutants of the lines that have changed since a revision: which does no test notice?

One build has all mutants, each behind its number (`instrument.py`). Each test runs once without a
mutant and notes which mutants its code reaches; then each mutant meets the tests that reach it, the
quickest first, until one fails (`tests.py`). A mutant that survives is a missing test, or one that
changes nothing that anybody could notice: a human reads it. The exit code is then 1.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import instrument
from scratch_tree import copy_of_the_tree, lend_what_is_built
from tests import Tests

ROOT = Path(__file__).resolve().parents[2]
OURS = Path(os.environ["CARGO_TARGET_DIR"])
SCRATCH = OURS / "mutants"
# Half of the mutants do not compile: cargo-mutants replaces results by values of other types.
SPARE = 3


def main():
    arguments = parse()
    candidates = listed(arguments.revision)
    random.Random(arguments.seed).shuffle(candidates)
    wanted = [it for it in candidates if re.search(arguments.matching, it["name"])]
    if arguments.list:
        print("\n".join(it["name"] for it in wanted[: arguments.count]))
        return 0
    begun = time.monotonic()
    mutants, messages = built(wanted, arguments.count)
    print(f"{seconds(begun)} s: {len(mutants)} of {len(wanted)} mutants are built", flush=True)
    tests = Tests(messages, arguments.tests, SCRATCH, arguments.jobs)
    tests.run_without_mutants()
    print(f"{seconds(begun)} s: {tests.summary()}", flush=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        fates = list(pool.map(lambda it: fate(*it, tests, arguments.patience), mutants.items()))
    survivors = [it for it in fates if it]
    print("\n".join(survivors))
    caught = f"{len(fates) - len(survivors)} caught, {len(survivors)} survived"
    print(f"\n{len(fates)} mutants, {caught}, {seconds(begun)} s")
    return 1 if survivors else 0


def parse():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("revision", help="the lines that have changed since it are mutated")
    for name, default, says in (
        ("count", 60, "how many mutants"),
        ("seed", 1, "which mutants"),
        ("jobs", os.cpu_count(), "how many tests at once"),
        ("patience", 300, "how many seconds of tests for one mutant"),
    ):
        says += f" (default: {default})"
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=says)
    parser.add_argument("--matching", default="", metavar="REGEX", help="only mutants of this name")
    says = "only tests of this name, as `server: lists::`"
    parser.add_argument("--tests", default="", metavar="REGEX", help=says)
    parser.add_argument("--list", action="store_true", help="name the mutants, and end")
    return parser.parse_args()


def seconds(begun):
    return round(time.monotonic() - begun)


def listed(revision):
    """The mutants of lines that differ from the revision, as cargo-mutants describes them."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    diff = SCRATCH / "changes.diff"
    command = ["git", "diff", "--merge-base", revision, "--", "crates/*/src/*.rs"]
    diff.write_bytes(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    if not diff.stat().st_size:
        sys.exit(f"no line of the product has changed since {revision}")
    command = ["cargo", "mutants", "--list", "--json", "--level", "error", "--in-diff", diff]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def built(candidates, count):
    """The first candidates that compile, by their numbers, and what cargo said of the build."""
    target = SCRATCH / "target" / "debug"
    if not target.exists():
        lend_what_is_built(OURS / "debug", target)
    chosen = choose(candidates, count * SPARE)
    broken = {None}
    # A crate is checked when those that it depends on compile, so this takes a few rounds.
    while broken:
        lines = write(chosen)
        broken = mutants_in(errors(cargo("check", "--workspace", "--keep-going")), lines)
        print(f"{len(broken)} of {len(chosen)} mutants do not compile", flush=True)
        chosen = {number: it for number, it in chosen.items() if number not in broken}
    # What is left over would only make the build slower.
    chosen = dict(list(chosen.items())[:count])
    write(chosen)
    messages = cargo("test", "--workspace", "--no-run", "--lib", "--bins", "--test", "*")
    if found := errors(messages):
        sys.exit(f"the mutants do not compile in tests:\n{found[0]['rendered']}")
    return {number: mutant for number, (mutant, _) in chosen.items()}, messages


def choose(candidates, count):
    """Mutants that can be choices beside each other, by their numbers."""
    sources, edits, chosen = {}, {}, {}
    for number, mutant in enumerate(candidates):
        if len(chosen) == count:
            break
        file = mutant["file"]
        if file not in sources:
            sources[file] = instrument.Source((ROOT / file).read_bytes())
        edit = instrument.edit_of(mutant, number, sources[file])
        others = edits.setdefault(file, [])
        if edit is None or any(instrument.overlap(edit, other) for other in others):
            continue
        others.append(edit)
        chosen[number] = (mutant, edit)
    return chosen


def write(chosen):
    """Writes the tree with these mutants, and returns their lines by file and number."""
    tree = SCRATCH / "tree"
    copy_of_the_tree(ROOT, tree)
    lines = {}
    for file in sorted({mutant["file"] for mutant, _ in chosen.values()}):
        edits = {number: it[1] for number, it in chosen.items() if it[0]["file"] == file}
        text, lines[file] = instrument.edited((ROOT / file).read_bytes(), edits)
        (tree / file).write_bytes(text)
    for manifest in sorted(tree.glob("crates/*/Cargo.toml")):
        let_choose(manifest, max(chosen, default=0) + 1)
    return lines


def let_choose(manifest, count):
    """Adds to a crate's root how it knows the chosen mutant."""
    source = manifest.parent / "src"
    root = next(source / name for name in ("lib.rs", "main.rs") if (source / name).exists())
    listed = tomllib.loads(manifest.read_text(encoding="utf-8"))["dependencies"]
    own = [name.replace("-", "_") for name in listed if name.startswith("windlass-")]
    dependencies = " ".join(f"{name}::{instrument.BEGIN};" for name in own)
    choice = instrument.CHOICE.replace("BEGIN_OF_DEPENDENCIES", dependencies)
    text = root.read_text(encoding="utf-8") + choice.replace("COUNT", str(count))
    begin = rf"\1 crate::{instrument.BEGIN};"
    root.write_text(re.sub(r"(?m)^(fn main\(\).*\{)$", begin, text), encoding="utf-8")


def cargo(*arguments):
    """What cargo says, as JSON. That it fails is in there."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(SCRATCH / "target")}
    command = ["cargo", *arguments, "--quiet", "--message-format", "json"]
    tree = SCRATCH / "tree"
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode and not errors(messages):
        sys.exit(done.stderr[-3000:])
    return messages


def errors(messages):
    found = [it["message"] for it in messages if it["reason"] == "compiler-message"]
    return [it for it in found if it["level"] == "error" and it["spans"]]


def mutants_in(found, lines):
    """The numbers of the mutants that these errors are about."""
    broken = set()
    for error in found:
        # A mutant may break what is elsewhere, as the head of a `match`; the hints then name it.
        for part in (error, *error["children"]):
            broken |= mutants_at(part["spans"], lines)
        broken = broken or next_mutant(error["spans"], lines)
        if not broken:
            sys.exit(f"no mutant is where this error is:\n{error['rendered']}")
    return broken


def mutants_at(spans, lines):
    return {
        number
        for span in spans
        for number, (first, last) in lines.get(span["file_name"], {}).items()
        if first <= span["line_end"] and span["line_start"] <= last
    }


def next_mutant(spans, lines):
    """The first mutant below an error: one that removes an arm breaks the head of its `match`."""
    below = [
        (first, number)
        for span in spans
        if span["is_primary"]
        for number, (first, _) in lines.get(span["file_name"], {}).items()
        if first > span["line_end"]
    ]
    return {number for _, number in sorted(below)[:1]}


def fate(number, mutant, tests, patience):
    """Runs the tests that reach a mutant. Returns the text of what survives, or nothing."""
    begun = time.monotonic()
    caught_by, ran, reached = tests.run_with(number, patience)
    survived = f"SURVIVED {ran} of the {reached} tests that reach it"
    how = f"caught by {caught_by}" if caught_by else survived
    print(f"{seconds(begun):4} s  {mutant['name']}: {how}", flush=True)
    return None if caught_by else f"\n{mutant['name']}: {how}\n{mutant['diff']}"


if __name__ == "__main__":
    sys.exit(main())
