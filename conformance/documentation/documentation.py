"""The command lines of the documents, run as they stand.

    documentation.py BINARY

Each document has a directory, a shell and a server of its own, with the files that its lines speak of. A command fails if its exit code is
not 0, or if it prints anything else than the document shows below it. `...` stands for any lines; ids, dates and what follows from them may
differ (VARYING). `# 404: WORDS` behind a command says that it fails with this status, and that the reply has these words.

Other than in the document are the port, and the directories of a machine (MACHINE), which are below that of the document.

Invisible lines before a block: `<!-- not run: REASON -->`; `<!-- serve: ARGUMENTS -->`, which stops the server and starts it with these arguments; `<!-- with: NAME=VALUE -->`, a variable of
the block's commands. A block in TOML that names an API is written to NAME.toml.
"""

import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib

import googleapiclient

from report import Report, media
from server import free_port

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 120

SHELLS = ("sh", "bash", "console")
# What a server of the document serves until it says something else; of docs/apis, the API of the page.
SERVED = {
    "README.md": "farm",
    "docs/apis.md": "farm",
    "docs/cli.md": "farm",
    **{f"docs/tasks/{page}.md": "farm" for page in ("client", "embed", "own-api", "production", "test-google")},
    "docs/protocol.md": "files",
    "docs/apis/any.md": "farm",
    "docs/apis/games_configuration.md": "gamesConfiguration",
}
MACHINE = re.compile(r"(?<![\w/.])(?=/(?:var/lib|mnt)/)")
# What differs from one run to the next: ids, dates, ports, checksums of random media, offsets at which a connection was broken.
VARYING = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"\b[0-9a-f]{32}\b", "ID"),
        (r"(?<=upload_id=)[\w-]+|(?<=/-tus/)[\w-]+|(?<=x-guploader-uploadid: )[\w-]+", "ID"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "DATE"),
        (r"(?<=^date: ).*", "DATE"),
        (r'\\"v\d+\\"', "ETAG"),
        (r'(?<="crc32c": ")[^"]+', "CRC32C"),
        (r"(?<=range: bytes=0-)\d+", "LAST"),
        (r"(?<=content-length: )[1-9]\d*", "LENGTH"),
    )
]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060f80f0001040100"
    "5fe5c34b0000000049454e44ae426082")
FILES = {"cow.jpg": media(1_500_000), "cow.mp4": media(300_000), "herd/cow.jpg": media(3000), "herd/more/goat.jpg": media(4000),
         **{name: PIXEL for name in ("cow.png", "llama.png", "logo.png", "icon.png")}, "llama.mp4": media(9000),
         # For descriptions with services, and for signed links.
         "backends.key": b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
         "auth.toml": b'[[links.keys]]\nid = "2026"\nsecret = "TWZLUTlyOEdLWXFyVHdqVVBEOElMUFpJbzJMYUxhU3c="\n'}
# Documents as they are published, which come with Google's library for Python.
PUBLISHED = ("dfareporting.v5.json", "gamesConfiguration.v1configuration.json")

PRELUDE = """
set -eo pipefail
exec 2>&1 </dev/null
curl() { command curl -sS --fail-with-body "$@"; }
server=
ended() { [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true; }
trap ended EXIT
serve() {
  ended
  : > server.out
  command windlass serve --listen 127.0.0.1:8080 --allow-unsafe-filesystem "$@" > server.out 2> server.log & server=$!
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
    """The blocks of a document, with the directive before each. Whatever looks like a block and would be passed over is an error."""
    language, note = None, ("", "")
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        if language is None and (fence := re.match(r"(\s*)(```+|~~~+)\s*([\w-]*)(.*)", line)):
            language, lines, begun = fence[3], [], number
            if fence[1] or fence[2] != "```" or fence[4] or (language not in SHELLS and re.search("sh|term|console", language)):
                raise ValueError(f"{path}:{number}: begin a block with ``` and one of {SHELLS}: {line}")
        elif line == "```" and language is not None:
            yield Block(path, begun, language, lines, note)
            language, note = None, ("", "")
        elif language is not None:
            lines.append(line)
        elif line.startswith("<!--"):
            if not (directive := re.fullmatch(r"<!-- (not run|serve|with): (\S.*) -->", line)):
                raise ValueError(f"{path}:{number}: not a directive: {line}")
            note = directive.groups()
        elif line.strip():
            note = ("", "")


def refusal_of(command):
    """The status with which a command fails, and words of the reply, if the document says so."""
    return re.search(r"# (4\d\d)(?:: (.*))?$", command)


def script_of(command):
    """The command as the script has it."""
    if serve := re.match(r"windlass serve\s*([^#]*)", command):
        return "serve " + re.sub(r"--listen \S+|&\s*$", "", serve[1])
    if refusal_of(command):
        return f"{{ {command}\n}} && false || [ $? = 22 ]"
    if command.startswith("timeout "):
        return f"{{ {command}\n}} || [ $? = 124 ]"
    return command


def lines_of(text):
    for pattern, replacement in VARYING:
        text = [pattern.sub(replacement, line) for line in text]
    return [line.rstrip() for line in text if line.strip()]


def differs(shown, printed):
    """Why what was printed is not what the document shows, in which `...` stands for any lines; `None` if it is."""
    shown, printed = lines_of(shown), lines_of(printed.splitlines())
    at, anywhere = 0, False
    for line in shown:
        if line == "...":
            anywhere = True
            continue
        while anywhere and at < len(printed) and printed[at] != line:
            at += 1
        if at == len(printed) or printed[at] != line:
            return f"{line!r} is shown, and {printed[at] if at < len(printed) else 'nothing'!r} was printed"
        at, anywhere = at + 1, False
    return f"more is printed than shown: {printed[at]!r}" if shown and at < len(printed) and not anywhere else None


class Document:
    """A document as one script, which prints a mark before each command."""

    def __init__(self, path):
        self.path, self.script, self.commands, self.ran, self.left_out = path, [], [], 0, []
        self.script += [PRELUDE, f"serve --api {SERVED.get(path, pathlib.Path(path).stem)}"]
        for block in blocks(path):
            if block.language == "toml":
                self.description(block)
            elif block.language in SHELLS:
                self.block(block)
        self.script.append("printf '\\n@@end@@\\n'\n")

    def description(self, block):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            text = "\n".join(block.lines)
            if name := tomllib.loads(text).get("name"):
                self.script.append(f"cat > {name}.toml <<'END_OF_BLOCK'\n{text}\nEND_OF_BLOCK")

    def block(self, block):
        kind, text = block.note
        if kind == "not run":
            self.left_out.append((block.place, text))
            return
        self.ran += 1
        if kind == "serve":
            self.script.append(f"serve {text}")
        elif kind == "with":
            self.script.append(f"export {text}")
        for command, shown in block.commands():
            self.script.append(f"printf '\\n@@{len(self.commands)}@@\\n'\n{script_of(command)}")
            self.commands.append((block.place, command, shown))
        if kind == "with":
            self.script.append(f"unset {text.partition('=')[0]}")

    def run(self, binary, directory):
        """What was printed, by the marks."""
        script = MACHINE.sub(str(directory), "\n".join(self.script)).replace("127.0.0.1:8080", f"127.0.0.1:{free_port()}")
        environment = {"PATH": f"{pathlib.Path(binary).resolve().parent}:{os.environ['PATH']}", "HOME": str(directory), "LC_ALL": "C.UTF-8",
                       "WINDLASS_BACKENDS_SECRET_FILE": str(directory / "backends.key")}
        with open(directory / "printed", "wb") as printed:
            # In a group of its own, so that the servers of a script that hangs end with it.
            with subprocess.Popen(["bash", "-c", script], cwd=directory, env=environment, stdout=printed, start_new_session=True) as shell:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    shell.wait(timeout=PATIENCE)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
        printed = (directory / "printed").read_text(encoding="utf-8", errors="replace")
        start, *parts = re.split(r"\n@@(\w+)@@\n", printed)
        return {"start": start, **dict(zip(parts[::2], parts[1::2]))}

    def check(self, number, printed):
        _, command, shown = self.commands[number]
        after = "end" if number + 1 == len(self.commands) else str(number + 1)
        assert (said := printed.get(str(number))) is not None, f"it was not reached: {printed['start']}"
        assert after in printed, f"it failed: {said}"
        assert (difference := differs(shown, said)) is None, f"{difference}, in {said}"
        if refusal := refusal_of(command):
            assert f"error: {refusal[1]}" in said, f"the status is not {refusal[1]}: {said}"
            assert (refusal[2] or "") in said, f"the reply does not say {refusal[2]!r}: {said}"


def fill(directory):
    """Writes the files that the documents speak of."""
    for folder in ("var/lib", "mnt/backup"):
        (directory / folder).mkdir(parents=True)
    for name, data in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    published = pathlib.Path(googleapiclient.__file__).parent / "discovery_cache/documents"
    for name in PUBLISHED:
        shutil.copy(published / name, directory)


def main():
    binary, report, ran = sys.argv[1], Report(), 0
    folders = (ROOT / "docs" / it for it in ("tasks", "apis"))
    pages = [str(page.relative_to(ROOT)) for folder in folders for page in sorted(folder.glob("*.md"))]
    documents = ["README.md", "docs/apis.md", "docs/cli.md", "docs/protocol.md", *pages]
    for document in map(Document, documents):
        # Beside the program: a temporary file system may be one that the server refuses.
        with tempfile.TemporaryDirectory(prefix="documentation-", dir=pathlib.Path(binary).resolve().parent) as directory:
            directory = pathlib.Path(directory)
            fill(directory)
            printed = document.run(binary, directory)
        for number, (place, command, _) in enumerate(document.commands):
            report.case(f"{place} {command.splitlines()[0][:70]}", functools.partial(document.check, number, printed))
        for place, reason in document.left_out:
            report.left_out(place, reason)
        ran += document.ran
    print(f"blocks: {ran} ran, {report.without} did not")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
