"""Cases, one line each, and media that can be checked."""

import base64
import hashlib
import os
import struct
import time
import traceback

import google_crc32c


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


class Report:
    def __init__(self):
        self.passed = self.failed = self.without = 0

    def case(self, name, function):
        begun = time.monotonic()
        try:
            function()
        except Exception:  # pylint: disable=broad-except
            self.failed += 1
            print(f"FAIL {name}")
            traceback.print_exc()
        else:
            self.passed += 1
            print(f"ok   {name} ({time.monotonic() - begun:.2f} s)")

    def left_out(self, name, reason):
        """A case that cannot be: said, never skipped silently."""
        self.without += 1
        print(f"--   {name}: left out, {reason}")

    def end(self):
        without = f", {self.without} left out" if self.without else ""
        print(f"{self.passed} passed, {self.failed} failed{without}")
        return 1 if self.failed or not self.passed else 0
