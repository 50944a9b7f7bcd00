#!/usr/bin/env python3
"""Compares the speed of `windlass upload` with that of curl, against the same server, in the same run.

    testing/perf/client_rate.py [--size GIB] [--rounds N] [--keep DIRECTORY]

Builds the release binary, starts it as a server on 127.0.0.1 with data in a directory of its own, and uploads
the same file in turn with both clients: one PUT to a session, durable on the server's side. Prints each round,
medians, the median of the ratios inside the rounds, CPU seconds and peak memory of the clients. Needs curl, and
disk space of three times the size.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1024 * 1024


def build():
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "windlass"], cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "windlass"


def media(path, size):
    """Bytes that nothing on the way can compress."""
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))


class Server:
    def __init__(self, binary, data):
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--allow-unsafe-filesystem", "--data", data],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.process.stdout.readline()
        self.base = re.fullmatch(r"listening on (http://\S+)\n", line).group(1)
        self.uploads = self.base + "/upload/farm/v1/animals"

    def session(self):
        request = urllib.request.Request(
            self.uploads + "?uploadType=resumable", data=b"", headers={"X-Upload-Content-Type": "application/zip"}
        )
        with urllib.request.urlopen(request) as reply:
            return reply.headers["Location"]

    def clear(self):
        """Deletes all animals, so that the disk does not fill."""
        with urllib.request.urlopen(self.base + "/farm/v1/animals") as reply:
            animals = json.load(reply).get("items", [])
        for animal in animals:
            url = f"{self.base}/farm/v1/animals/{animal['id']}"
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE")).close()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def peak_memory(pid):
    """The most memory that a process has held so far, in bytes; 0 when it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found.group(1)) * 1024 if found else 0


def timed(command):
    """Seconds, CPU seconds and peak memory in bytes of a command that must succeed."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    memory = 0
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        memory = max(memory, peak_memory(process.pid))
        time.sleep(0.01)
    took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with {process.returncode}")
    return took, usage.ru_utime + usage.ru_stime, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4, help="GiB per upload (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--keep", type=pathlib.Path, help="directory for file and data (default: a temporary one)")
    arguments = parser.parse_args()
    if not shutil.which("curl"):
        sys.exit("curl is not installed")
    size = arguments.size * 1024 * MIB
    binary = build()
    with tempfile.TemporaryDirectory(dir=arguments.keep or ROOT / "target") as scratch:
        file = os.path.join(scratch, "media.zip")
        media(file, size)
        server = Server(binary, os.path.join(scratch, "data"))
        try:
            rounds(server, binary, file, size, arguments.rounds)
        finally:
            server.stop()


def rounds(server, binary, file, size, count):
    results = {"curl": [], "windlass": []}
    for number in range(count):
        commands = {
            "curl": lambda: ["curl", "--silent", "--fail", "--upload-file", file, server.session()],
            "windlass": lambda: [binary, "upload", "--quiet", "--no-journal", "--type", "resumable", file, server.uploads],
        }
        # Who goes first changes from round to round.
        for name in sorted(commands, reverse=number % 2 == 1):
            # What the run before left to write must not slow this one.
            os.sync()
            time.sleep(1)
            results[name].append(timed(commands[name]()))
            server.clear()
        rates = {name: size / MIB / results[name][-1][0] for name in results}
        print(f"round {number + 1}: " + ", ".join(f"{name} {rate:.0f} MiB/s" for name, rate in rates.items()), flush=True)
    for name, runs in results.items():
        rate = size / MIB / statistics.median(run[0] for run in runs)
        cpu = statistics.median(run[1] for run in runs)
        memory = max(run[2] for run in runs)
        print(f"{name}: median {rate:.0f} MiB/s, {cpu:.2f} CPU s, at most {memory / MIB:.1f} MiB of memory")
    ratios = [curl[0] / ours[0] for curl, ours in zip(results["curl"], results["windlass"])]
    print(f"windlass / curl inside the rounds: median {statistics.median(ratios):.3f}, all {[round(r, 3) for r in ratios]}")


if __name__ == "__main__":
    main()
