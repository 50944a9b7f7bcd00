"""google-cloud-bigquery, unmodified: load jobs whose media is uploaded, against a server of the published document.

    bigquery.py BINARY
"""

import importlib.resources
import io
import json
import os
import sys
import tempfile

from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client, DatasetReference, LoadJob, LoadJobConfig, SourceFormat

from family import Family
from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, LOST_START, UNAVAILABLE, FaultProxy
from flows import REFUSALS
from held import held
from report import Report, media
from server import Server

KIB, MIB = 1024, 1024 * 1024
# A known size below 10 MiB goes in one multipart request; all else in a session, in chunks of 100 MiB.
SIZES = {"empty": (0, "empty", "empty"), "small": (1000, "multipart", "unknown length"),
         "3 MiB and a bit": (3 * MIB + 12_345, "multipart", "unknown length")}
TWO_CHUNKS = 101 * MIB
TABLE = DatasetReference("test", "barn").table("cows")
ROWS = [{"cow": "Elsie", "litres": 20}, {"cow": "Müh", "litres": 31}]


def published():
    """The discovery document that comes with Google's generic library."""
    documents = importlib.resources.files("googleapiclient.discovery_cache.documents")
    return str(documents / "bigquery.v2.json")


def client(url):
    return Client(project="test", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})


def main():
    report = Report()
    family = Family(report, "google-cloud-bigquery")
    with Server(sys.argv[1], "--api", published()) as server:
        uploads(family, server)
        faults(family, server)
        refusals(family, server)
    return report.end()


class Load:
    """A load job that the library has begun."""

    def __init__(self, server, job):
        self.server, self.job = server, job

    def verify(self, data, source_format=SourceFormat.CSV):
        """The library has a load job with what it has asked for, and the server has exactly these bytes."""
        job = self.job
        assert isinstance(job, LoadJob), job
        assert (job.project, job.destination, job.source_format) == ("test", TABLE, source_format), job.to_api_repr()
        assert job.etag and job.self_link, job.to_api_repr()
        stored = held(self.server.data, job.job_id)
        assert stored == data, f"{len(stored)} bytes are held, {len(data)} were sent, or they are others"


def uploads(report, server):
    library = client(server.url)
    csv = LoadJobConfig(source_format=SourceFormat.CSV, labels={"herd": "north"})

    def load(source, data, **how):
        job = library.load_table_from_file(source, TABLE, job_config=csv, **how)
        Load(server, job).verify(data)
        assert job.labels == {"herd": "north"}, job.labels

    def multipart(length):
        data = media(length, seed=length + 1)
        load(io.BytesIO(data), data, size=length)

    def resumable(length):
        data = media(length, seed=length + 2)
        load(io.BytesIO(data), data)

    def from_a_file():
        data = media(12 * MIB, seed=3)
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            with open(file.name, "rb") as source:
                load(source, data, size=os.path.getsize(file.name))

    def rewound():
        data = media(1000, seed=4)
        source = io.BytesIO(data)
        source.seek(500)
        load(source, data, rewind=True)

    def rows():
        job = library.load_table_from_json(ROWS, TABLE)
        data = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode()
        Load(server, job).verify(data, SourceFormat.NEWLINE_DELIMITED_JSON)

    def wrong():
        config = LoadJobConfig(source_format=SourceFormat.CSV)
        config._properties["load"]["skipLeadingRows"] = "many"
        for how in {"size": 3}, {}:
            said = thrown(lambda: library.load_table_from_file(io.BytesIO(b"moo"), TABLE, job_config=config, **how))
            assert said == "`BadRequest` 400", said

    for size, (length, flow_of_known, flow_of_unknown) in SIZES.items():
        report.case(f"load_table_from_file with a size, {size}", lambda length=length: multipart(length), flow_of_known)
        report.case(f"load_table_from_file without a size, {size}", lambda length=length: resumable(length), flow_of_unknown)
    report.case("load_table_from_file, two chunks", lambda: resumable(TWO_CHUNKS), "chunks")
    report.case("load_table_from_file with a size, 12 MiB", from_a_file, "resumable")
    report.case("load_table_from_file, rewound", rewound)
    report.case("load_table_from_json", rows)
    report.case("a field of the wrong type", wrong)
    report.left_out("LoadJob.result", "it waits for `status.state`, which is the service's: here nothing loads the table")
    report.left_out("Client.get_job", "a resource has the id that the server has chosen, not that of `jobReference`")


def thrown(function):
    """What the library throws, in a word or two."""
    try:
        function()
    except GoogleAPICallError as error:
        return f"`{type(error).__name__}` {error.code}"
    raise AssertionError("not refused")


def faults(report, server):
    def upload(fault, length=20 * MIB):
        data = media(length, seed=6)
        with FaultProxy(server.port, fault) as line:
            job = client(line.url).load_table_from_file(io.BytesIO(data), TABLE)
            assert line.struck, "the fault did not strike"
        Load(server, job).verify(data, source_format=None)

    report.case("the reply to the start is lost", lambda: upload(LOST_START))
    for fault in UNAVAILABLE, CUT, LOST_FINAL_REPLY:
        report.case(fault, lambda fault=fault: upload(fault), fault)
    report.case(LOST_REPLY, lambda: upload(LOST_REPLY, TWO_CHUNKS), LOST_REPLY)


def refusals(report, server):
    """What the library throws, of servers that take less."""
    def load(url, **how):
        return thrown(lambda: client(url).load_table_from_file(io.BytesIO(media(2 * MIB)), TABLE, **how))

    def expired():
        with Server(server.binary, *server.options, sessions_lifetime="1s") as short:
            with FaultProxy(short.port, EXPIRED) as line:
                return load(line.url)

    def limited(accept, max_size):
        with tempfile.TemporaryDirectory() as folder:
            description = server.limited("bigquery", "v2", folder, accept, max_size)
            with Server(server.binary, "--api", description) as low:
                said = {load(low.url, **how) for how in ({"size": 2 * MIB}, {})}
        assert len(said) == 1, said
        return said.pop()

    cases = expired, lambda: limited("video/*", 100 * MIB), lambda: limited("*/*", MIB)
    for flow, case in zip(REFUSALS, cases, strict=True):
        report.case(flow, case, flow)


if __name__ == "__main__":
    sys.exit(main())
