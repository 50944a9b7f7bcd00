# A disk that fails while a file beside it says so: an nbdkit plugin.
#
# nbdkit python failing.py image=FILE faults=FILE
#
# The file `faults`, when it exists, holds the words `write`, `flush` or both. What they name fails with EIO.

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


def fail_if_told(word):
    try:
        with builtins.open(settings["faults"]) as faults:
            told = word in faults.read()
    except FileNotFoundError:
        told = False
    if told:
        nbdkit.set_error(errno.EIO)
        raise OSError(errno.EIO, "injected")


def pread(handle, buf, offset, flags):
    buf[:] = os.pread(disk, len(buf), offset)


def pwrite(handle, buf, offset, flags):
    fail_if_told("write")
    os.pwrite(disk, buf, offset)


def flush(handle, flags):
    fail_if_told("flush")
