"""Clients that take more than PyPI and npm to run, unmodified, against a windlass server.

    on_demand.py BINARY NAME
"""

import pathlib
import sys
import tempfile

import with_gcloud
import with_go
import with_restic
import with_ruby
import with_rust
from report import Report

CLIENTS = {"gcloud": with_gcloud, "go": with_go, "restic": with_restic, "ruby": with_ruby, "rust": with_rust}


def main():
    binary, name = sys.argv[1:]
    report = Report()
    beside = pathlib.Path(binary).resolve().parent
    with tempfile.TemporaryDirectory(prefix="conformance-", dir=beside) as folder:
        CLIENTS[name].run(report, binary, pathlib.Path(folder))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
