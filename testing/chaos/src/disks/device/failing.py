# A disk that fails while a file next to it says so: an nbdkit plugin.
#
# nbdkit python failing.py image=FILE faults=FILE
#
# The file `faults`, when it exists, holds words: `write`, `flush`, or `write=FROM-TO` for writes that begin in these bytes. What
# they name fails with EIO.

import builtins
import errno
import os

import nbdkit

API_VERSION = 2
settings = {}
disk = None


def config(key, value):
    settings[key] = value


def get_ready():
    global disk
    disk = os.open(settings["image"], os.O_RDWR)


def open(readonly):
    return 1


def get_size(handle):
    return os.fstat(disk).st_size


def can_flush(handle):
    return True


def told():
    try:
        with builtins.open(settings["faults"]) as faults:
            return faults.read().split()
    except FileNotFoundError:
        return []


def is_for(word, offset):
    name, _, place = word.partition("=")
    if name != "write" or not place:
        return word == "write"
    first, end = map(int, place.split("-"))
    return first <= offset < end


def fail():
    nbdkit.set_error(errno.EIO)
    raise OSError(errno.EIO, "injected")


def pread(handle, buf, offset, flags):
    buf[:] = os.pread(disk, len(buf), offset)


def pwrite(handle, buf, offset, flags):
    if any(is_for(word, offset) for word in told()):
        fail()
    os.pwrite(disk, buf, offset)


def flush(handle, flags):
    if "flush" in told():
        fail()
