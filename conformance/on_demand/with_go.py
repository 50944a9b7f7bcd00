"""cloud.google.com/go/storage as Debian has it."""

import os
import pathlib
import subprocess

import objects
from faults import LOST_DOWNLOAD, LOST_FINAL_REPLY, LOST_REPLY, LOST_START

EOF = "this version takes the end of a connection without a reply for final; what is reset, or answered 503, it sends again"
ONCE = "without chunks the library keeps nothing that it could send again"
LACKS = {("get", LOST_DOWNLOAD): EOF}
LACKS |= {("put", fault): ONCE for fault in objects.FAULTS}
LACKS |= {("put in chunks", fault): EOF for fault in (LOST_START, LOST_REPLY, LOST_FINAL_REPLY)}


def run(report, binary, folder):
    source = pathlib.Path(__file__).parent / "go"
    # Debian's packages of Go libraries are for the mode without modules.
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""}
    subprocess.run(["go", "build", "-o", folder / "storage", "."], cwd=source, env=environment, check=True)
    objects.run(report, binary, folder, objects.Program("go", [folder / "storage"], LACKS))
