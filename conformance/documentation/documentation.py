"""The command lines of the documents, run as they stand.

    documentation.py BINARY

Each document has a directory, a shell and a server of its own, with the files that its lines speak of. A line fails if it does, or if a
line of output that the document shows has no counterpart in what was printed: values may differ, names may not. `# 404` behind a
command says that it fails with this status.

Invisible lines before a block: `<!-- not run: REASON -->`, or `<!-- serve: ARGUMENTS -->`, which starts the server anew. A block in TOML that names an
API is written to NAME.toml.
"""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import tomllib

from report import Report, media

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 120

BUILT_IN = ("farm", "gmail", "dfareporting", "gamesConfiguration", "storage", "drive", "youtube")
# What a server of the document serves until it says something else.
SERVED = {
    "README.md": BUILT_IN,
    "docs/apis.md": ("farm",),
    "docs/cli.md": ("farm",),
    "docs/apis/any.md": ("farm",),
    "docs/apis/games_configuration.md": ("gamesConfiguration",),
}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060f80f0001040100"
    "5fe5c34b0000000049454e44ae426082")
FILES = {"cow.jpg": media(1_500_000), "cow.mp4": media(300_000), "herd/cow.jpg": media(3000), "herd/more/goat.jpg": media(4000),
         **{name: PIXEL for name in ("cow.png", "llama.png", "logo.png", "icon.png")}, "llama.mp4": media(9000)}

PRELUDE = """
set -eo pipefail
exec 2>&1 </dev/null
curl() { command curl -sS --fail-with-body "$@"; }
server=
ended() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; }
trap ended EXIT
serve() {
  ended; [ -z "$server" ] || wait "$server" || true
  : > server.out
  command windlass serve --listen 127.0.0.1:PORT --allow-unsafe-filesystem "$@" > server.out 2> server.log & server=$!
  until grep -q listening server.out; do kill -0 "$server" 2>/dev/null || { cat server.log; return 1; }; sleep 0.05; done
}
"""


class Block:
    def __init__(self, path, number, language, lines, note):
        self.place, self.language, self.lines, self.note = f"{path}:{number}", language, lines, note

    def commands(self):
        """Each command with the lines that the document shows below it."""
        found = []
        for line in self.lines:
            is_command = line.startswith("$ ") if self.language == "console" else bool(line.strip())
            if found and found[-1][0].endswith("\\"):
                found[-1][0] += "\n" + line
            elif is_command:
                found.append([line.removeprefix("$ "), []])
            elif found:
                found[-1][1].append(line)
        return [(command, shown) for command, shown in found if not command.lstrip().startswith("#")]


def blocks(path):
    language, note = None, ""
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        if language is None and (fence := re.fullmatch(r"```(\w+)", line)):
            language, lines, begun = fence[1], [], number
        elif line == "```" and language is not None:
            yield Block(path, begun, language, lines, note)
            language, note = None, ""
        elif language is not None:
            lines.append(line)
        elif directive := re.fullmatch(r"<!-- ((?:not run|serve): .*) -->", line):
            note = directive[1]
        elif line.strip():
            note = ""


def script_of(command):
    """The command as the script has it."""
    if serve := re.match(r"windlass serve\s*([^#]*)", command):
        arguments = re.sub(r"--listen \S+|&", "", serve[1])
        return f"serve {arguments}"
    if re.search(r"# 4\d\d", command):
        return f"{{ {command}\n}} && false || [ $? = 22 ]"
    if command.startswith("timeout "):
        return f"{{ {command}\n}} || [ $? = 124 ]"
    return command


def missing(shown, printed):
    """The first shown line without a counterpart. The values of JSON and of header fields may differ."""
    for line in shown:
        line = line.strip()
        name = re.match(r'"[\w-]+":|[\w-]+:|HTTP/1.1 \d+', line)
        wanted = name[0] if name else line
        if line and line not in ("...", "{", "}") and wanted.lower() not in printed.lower():
            return line
    return None


def free_port():
    with contextlib.closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(path, binary, directory, report):
    """Runs the blocks of a document; returns the places that were not run."""
    port, script, expected, skipped = str(free_port()), [PRELUDE], [], []
    names = SERVED.get(path, (pathlib.Path(path).stem,))
    script.append("serve " + " ".join(f"--api {name}" for name in names))
    for block in blocks(path):
        if block.language == "toml":
            with contextlib.suppress(tomllib.TOMLDecodeError):
                if name := tomllib.loads("\n".join(block.lines)).get("name"):
                    script.append(f"cat > {name}.toml <<'END_OF_BLOCK'\n" + "\n".join(block.lines) + "\nEND_OF_BLOCK")
        if block.language not in ("sh", "bash", "console"):
            continue
        kind, _, text = block.note.partition(": ")
        if kind == "not run":
            skipped.append(f"{block.place}: {text}")
            continue
        if kind == "serve":
            script.append(f"serve {text}")
        for command, shown in block.commands():
            script.append(f"printf '\\n@@{len(expected)}@@\\n'\n{script_of(command)}")
            expected.append((block.place, command, shown))
    script = "\n".join([*script, "printf '\\n@@end@@\\n'", ""]).replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("PORT", port)
    # For descriptions with services.
    (directory / "backends.key").write_text("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", encoding="utf-8")
    environment = {**os.environ, "PATH": f"{pathlib.Path(binary).resolve().parent}:{os.environ['PATH']}", "HOME": str(directory),
                   "WINDLASS_BACKENDS_SECRET_FILE": str(directory / "backends.key")}
    with open(directory / "printed", "wb") as printed:
        subprocess.run(["bash", "-c", script], cwd=directory, env=environment, stdout=printed, timeout=PATIENCE, check=False)
    printed = (directory / "printed").read_text(encoding="utf-8", errors="replace")
    parts = re.split(r"\n@@(\w+)@@\n", printed)
    printed = dict(zip(parts[1::2], parts[2::2]))

    def succeeds(number, shown):
        after = "end" if number + 1 == len(expected) else str(number + 1)
        assert str(number) in printed, f"it was not reached: {parts[0]}"
        assert after in printed, f"it failed: {printed[str(number)]}"
        assert (line := missing(shown, printed[str(number)])) is None, f"no line like {line!r} in {printed[str(number)]}"

    for number, (place, command, shown) in enumerate(expected):
        first = command.splitlines()[0]
        report.case(f"{place} {first[:70]}", lambda number=number, shown=shown: succeeds(number, shown))
    return skipped


def main():
    binary, report, skipped = sys.argv[1], Report(), []
    documents = ["README.md", "docs/apis.md", "docs/cli.md", *sorted(str(it.relative_to(ROOT)) for it in (ROOT / "docs/apis").glob("*.md"))]
    for path in documents:
        # Beside the program: a temporary file system may be one that the server refuses.
        with tempfile.TemporaryDirectory(prefix="documentation-", dir=pathlib.Path(binary).resolve().parent) as directory:
            directory = pathlib.Path(directory)
            for name, data in FILES.items():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_bytes(data)
            skipped += run(path, binary, directory, report)
    for place in skipped:
        print(f"not run: {place}")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
