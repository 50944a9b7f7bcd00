"""A library for JavaScript, in a process that takes a command a line and answers it with a line; see commands.mjs."""

import json
import subprocess


class Refused(Exception):
    """What the library threw: its code or message, its name, and the status if it knows one."""

    def __init__(self, said):
        super().__init__(said["error"])
        self.name, self.status = said["name"], said.get("status")


def words_of(error):
    """What the library threw, in a word or two: its name, and its status or its code."""
    return f"`{error.name}` {error.status or error}"


def thrown(call):
    """The words of what the library throws."""
    try:
        call()
    except Refused as error:
        return words_of(error)
    raise AssertionError("not refused")


class Node:
    def __init__(self, script, *arguments):
        # What libraries warn their authors of is not for the log of a suite.
        command = ["node", "--no-warnings", script, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        if "error" in said:
            raise Refused(said)
        return said.get("result")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)
