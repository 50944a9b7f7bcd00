"""A library for JavaScript, in a process that takes a command a line and answers it with a line; see commands.mjs."""

import json
import subprocess


class Refused(Exception):
    """What the library threw: its code or message, and the status if it knows one."""

    def __init__(self, said):
        super().__init__(said["error"])
        self.status = said.get("status")


class Node:
    def __init__(self, script, *arguments):
        command = ["node", script, *arguments]
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
