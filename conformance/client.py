"""The windlass binary as a client."""

import json
import os
import subprocess


def environment():
    """What a process is given: nothing that would send it elsewhere than to 127.0.0.1, or change it."""
    strange = ("_PROXY", "WINDLASS_")
    return {name: value for name, value in os.environ.items() if not any(part in name.upper() for part in strange)}


class Outcome:
    """What a command said and how it ended."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def events(self, kind):
        return [event for event in map(json.loads, self.stdout.splitlines()) if event["event"] == kind]

    def one(self, kind):
        events = self.events(kind)
        assert len(events) == 1, f"{len(events)} events `{kind}`\n{self}"
        return events[0]

    def __str__(self):
        return f"exit code {self.code}\n{self.stdout[-2000:].decode(errors='replace')}\n{self.stderr.decode(errors='replace')}"


class Client:
    """Has a journal of its own."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.journal = folder / "journal"

    def run(self, *args, stdin=b"", code=0):
        """Runs a command to its end, which must be `code`."""
        done = subprocess.run(self._command(args), input=stdin, capture_output=True, timeout=30, env=environment(), check=False)
        outcome = Outcome(done.returncode, done.stdout, done.stderr)
        assert outcome.code == code, f"not exit code {code}\n{outcome}"
        return outcome

    def upload(self, source, url, *args, stdin=b"", code=0):
        return self.run("upload", source, url, "--json", *self._remember(), *args, stdin=stdin, code=code)

    def unfinished(self):
        """What the journal holds."""
        return [json.loads(line) for line in self.run("uploads", "--json", *self._remember()).stdout.splitlines()]

    def resume(self):
        return self.run("resume", "--json", *self._remember())

    def cancel(self, upload):
        return self.run("cancel", upload, *self._remember())

    def killed(self, source, url, *args, committed):
        """Uploads, and dies without warning as soon as more than this is committed."""
        command = self._command(["upload", source, url, "--json", *self._remember(), *args])
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment()) as process:
            try:
                for line in process.stdout:
                    event = json.loads(line)
                    assert event["event"] == "progress", f"it ended before it was killed: {event}"
                    if event["committed"] > committed:
                        return event
            finally:
                process.kill()
        raise AssertionError("it ended before it was killed")

    def _command(self, args):
        return [str(part) for part in (self.binary, *args)]

    def _remember(self):
        return "--journal", self.journal
