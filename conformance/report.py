"""Cases, one line each, their results for the table of compatibility, and media that can be checked."""

import base64
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import struct
import sys
import time
import traceback

import google_crc32c

from flows import FLOWS, REFUSALS


def media(length, seed=1):
    """Bytes no two blocks of which are alike, so that a lost, doubled or moved stretch changes them."""
    blocks = (hashlib.sha256(b"%d:%d" % (seed, n)).digest() for n in range((length + 31) // 32))
    return b"".join(blocks)[:length]


def write(directory, data):
    """A file with these bytes; its path. There is one at a time."""
    path = os.path.join(directory, "media")
    with open(path, "wb") as file:
        file.write(data)
    return path


def check(resource, data, **fields):
    """The resource must describe the bytes that were sent."""
    assert isinstance(resource, dict), f"not an object: {resource!r}"
    assert int(resource["size"]) == len(data), f"size {resource['size']}, sent {len(data)}"
    crc32c = base64.b64encode(struct.pack(">I", google_crc32c.value(data))).decode()
    assert resource["crc32c"] == crc32c, f"crc32c {resource['crc32c']}, sent {crc32c}"
    for name, value in fields.items():
        assert resource.get(name) == value, f"{name} is {resource.get(name)!r}, not {value!r}"
    return resource


class Gone(Exception):
    """The library is better than the case says: a fault is gone, or it tries again. No failure, but families.toml is out of date."""


class Report:
    """The cases of a suite.

    A case that shows a flow of a library names its `family`, the library's package, and its `flow`, one of FLOWS. With `throws` it shows
    that the library does not try again, and that the application can. A case that shows a fault of a library names the `fault`, as
    families.toml has it; with a flow, that flow fails in the library.
    """

    def __init__(self):
        self.passed = self.failed = self.without = 0
        self.results = Results()

    def case(self, name, function, family=None, flow=None, fault=None, throws=False):
        begun = time.monotonic()
        try:
            said = function()
            if flow in REFUSALS:
                assert any(word in said for word in REFUSALS[flow]), f"thrown was {said}"
        except Gone as gone:
            self.passed += 1
            print(f"gone {name}: {gone}")
            self.results.add(name, "throws" if throws else "pass", family=family, flow=flow, fault=fault, gone=str(gone))
        except Exception:  # pylint: disable=broad-except
            self.failed += 1
            print(f"FAIL {name}")
            traceback.print_exc()
            self.results.add(name, "fail", family=family, flow=flow, fault=fault)
        else:
            self.passed += 1
            print(f"ok   {name} ({time.monotonic() - begun:.2f} s)")
            says = said if flow in REFUSALS else None
            self.results.add(name, "throws" if throws else "pass", family=family, flow=flow, fault=fault, says=says)

    def left_out(self, name, reason, family=None, flow=None):
        """A case that cannot be: said, never skipped silently."""
        self.without += 1
        print(f"--   {name}: left out, {reason}")
        self.results.add(name, "left out", family=family, flow=flow, reason=reason)

    def end(self):
        self.results.write()
        without = f", {self.without} left out" if self.without else ""
        print(f"{self.passed} passed, {self.failed} failed{without}")
        return 1 if self.failed or not self.passed else 0


class Results:
    """What a suite has to say for docs/compatibility.md: a file of JSON, from which conformance/table writes it."""

    def __init__(self):
        self.suite = pathlib.Path(sys.argv[0]).resolve().parent.name
        self.all = []

    def add(self, name, result, family=None, flow=None, fault=None, **more):
        if flow is not None and flow not in FLOWS:
            raise ValueError(f"no flow: {flow}")
        if (family is None) != (flow is None):
            raise ValueError(f"{name}: a family and a flow need each other")
        if family is None and fault is None:
            return
        of = {"family": family, "version": family and version(family), "flow": flow, "fault": fault, "case": name}
        self.all.append({**of, "result": result, **{key: value for key, value in more.items() if value is not None}})

    def write(self):
        """The `run` of a suite says where; a suite that is started without it writes nothing."""
        folder = os.environ.get("CONFORMANCE_RESULTS")
        if not folder or not self.all:
            return
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{self.suite}.json"), "w", encoding="utf-8") as file:
            json.dump({"suite": self.suite, "results": self.all}, file, indent=1)


@functools.cache
def version(family):
    """That of the package that is installed for the suite, from npm or PyPI."""
    of_npm = os.path.join(os.environ.get("NODE_PACKAGES", ""), family, "package.json")
    if os.path.isabs(of_npm) and os.path.exists(of_npm):
        with open(of_npm, encoding="utf-8") as file:
            return json.load(file)["version"]
    return importlib.metadata.version(family)
