"""Libraries for Rust by others than Google: opendal, and gcloud-storage."""

import os
import pathlib
import subprocess
import sys

import objects
from faults import LOST_DOWNLOAD, LOST_START

XML = "the library uploads parts by the XML API, which is not served"
ONCE = "the library repeats nothing"


def run(report, binary, folder):
    source = pathlib.Path(__file__).parent / "rust"
    # Beside the virtual environment, to be built once. There is no lock file: the newest versions are tested.
    target = pathlib.Path(sys.prefix).parent / "conformance-rust"
    command = ["cargo", "build", "--quiet", "--manifest-path", source / "Cargo.toml", "--target-dir", target]
    subprocess.run(command, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    programs = target / "debug"
    in_parts = "several chunks", *objects.FAULTS_OF_CHUNKS
    objects.run(report, binary, folder, objects.Program(
        "opendal", [programs / "with_opendal"], {"compose": "the library does not have it"}
        | {("put in chunks", what): XML for what in in_parts}))
    objects.run(report, binary, folder, objects.Program("gcloud-storage", [programs / "with_gcloud_storage"], {
        ("put in chunks", LOST_START): ONCE, ("get", LOST_DOWNLOAD): ONCE}
        | {("put", fault): ONCE for fault in objects.FAULTS}))
