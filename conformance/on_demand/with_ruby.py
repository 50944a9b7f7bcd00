"""google-api-client for Ruby as Debian has it, with Drive: it uploads by X-Goog-Upload-Protocol alone."""

import hashlib
import json
import pathlib

from faults import CUT, LOST_FINAL_REPLY, LOST_START, UNAVAILABLE, FaultProxy
from objects import LARGE, SMALL, Program
from server import Server

SIZES = {"empty": b"", "small": SMALL, "large": LARGE}


def run(report, binary, folder):
    program = Program("ruby", ["ruby", pathlib.Path(__file__).parent / "drive.rb"])
    with Server(binary, "--api", "drive") as server:
        cases(report, server, folder, program)


def cases(report, server, folder, program):
    path = folder / "cow.bin"

    def check(file, data):
        assert int(file["size"]) == len(data), file
        assert file["md5Checksum"] == hashlib.md5(data).hexdigest(), file
        assert (file["name"], file["mimeType"]) == ("cow.bin", "video/mp4"), file
        assert program.call(server.url, "download", file["id"]) == data, "other bytes came back"

    def upload(data, url=server.url):
        path.write_bytes(data)
        return json.loads(program.call(url, "create", path, "video/mp4"))

    def created(data):
        check(upload(data), data)

    def updated():
        file = upload(SMALL)
        path.write_bytes(LARGE)
        again = json.loads(program.call(server.url, "update", file["id"], path, "video/mp4"))
        assert again["id"] == file["id"], again
        check(again, LARGE)

    def life():
        file = upload(SMALL)
        assert file["id"] in program.call(server.url, "list").decode().split()
        program.call(server.url, "delete", file["id"])
        program.call(server.url, "download", file["id"], code=1)

    def struck(fault):
        with FaultProxy(server.port, fault) as line:
            file = upload(LARGE, line.url)
            assert line.struck, "the fault did not strike"
        check(file, LARGE)

    for size, data in SIZES.items():
        report.case(f"ruby: files.create, {size}", lambda data=data: created(data))
    report.case("ruby: files.update", updated)
    report.case("ruby: files.list, delete, and one that is not there", life)
    for fault in LOST_START, UNAVAILABLE, CUT, LOST_FINAL_REPLY:
        report.case(f"ruby: files.create, {fault}", lambda fault=fault: struck(fault))
