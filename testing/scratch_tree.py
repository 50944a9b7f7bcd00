"""A copy of the tree that may be broken, with what cargo has built here lent to it."""

import os
import shutil
import subprocess


def lend_what_is_built(ours, theirs):
    """Lends the artifacts of a target directory to that of a copy.

    Cargo judges by times and by places relative to the tree's root, so they are as good there. The
    copy needs a target directory of its own, or its broken crates would pass for ours. Artifacts
    are linked, which takes no room: compilers write new ones and do not change them. Cargo's notes
    are changed in place and therefore copied.
    """
    shutil.rmtree(theirs, ignore_errors=True)
    for part, copy in [("deps", os.link), ("build", shutil.copy2), (".fingerprint", shutil.copy2)]:
        if (ours / part).is_dir():
            shutil.copytree(ours / part, theirs / part, copy_function=copy, symlinks=True)


def copy_of_the_tree(root, tree):
    """Copies files with their times, so that only what differs from the last copy is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root, check=True, capture_output=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copy = root / name, tree / name
        if not source.is_file():
            continue
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        fresh = not copy.exists()
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)
        if not fresh:
            os.utime(copy)  # It was broken before: cargo must see that it is another one again.
