"""gsutil, unmodified, against Cloud Storage over https: it speaks nothing else."""

import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile

import trustme

import gsutil_folders
from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, UNAVAILABLE, FaultProxy
from report import media
from server import Server

TOOL = "gsutil"
KIB, MB = 1024, 1_000_000
# Below 2 MB it uploads in a multipart request, else in a session.
SIZES = {"100 MB": (100 * MB, "resumable"), "1 MB": (MB, "multipart"), "empty": (0, "empty")}


class Gsutil:
    """A server with a certificate of an authority of its own, and gsutil that trusts it."""

    def __init__(self, binary, folder, api="storage", **settings):
        self.folder = folder
        authority, files = trustme.CA(), {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}
        self.authority = files["ca"]
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        authority.cert_pem.write_to_path(files["ca"])
        certificate.private_key_pem.write_to_path(files["key"])
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(files["cert"], append=True)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(files["cert"], files["key"])
        self.server = Server(binary, "--api", api, "--tls-cert", files["cert"], "--tls-key", files["key"], **settings)

    def settings(self, port):
        """A file of settings that leads to this port."""
        settings = self.folder / f"boto-{port}"
        settings.write_text(f"""
[Credentials]
gs_json_host = localhost
gs_json_port = {port}
[Boto]
ca_certificates_file = {self.authority}
num_retries = 2
[GSUtil]
resumable_threshold = {2 * MB}
json_resumable_chunk_size = {256 * KIB}
state_dir = {self.folder}
software_update_check_period = 0
disable_analytics_prompt = True
default_project_id = test
""")
        return str(settings)

    def ended(self, *args, stdin=b"", port=None):
        """A command of gsutil that has ended, however it did."""
        environment = {**os.environ, "BOTO_CONFIG": self.settings(port or self.server.port), "HOME": str(self.folder)}
        environment.pop("CLOUDSDK_CONFIG", None)
        command = [str(pathlib.Path(sys.executable).parent / "gsutil"), *map(str, args)]
        return subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=120, check=False)

    def run(self, *args, code=0, **how):
        """Runs a command of gsutil; gives what it prints."""
        done = self.ended(*args, **how)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stderr.decode()}"
        return done.stdout.decode()


def run(report, binary):
    with scratch(binary) as folder:
        gsutil = Gsutil(binary, pathlib.Path(folder))
        try:
            cases(report, gsutil)
            faults(report, gsutil)
            objects(report, gsutil)
        finally:
            gsutil.server.remove()
    limits(report, binary)


def scratch(binary):
    return tempfile.TemporaryDirectory(prefix="conformance-", dir=pathlib.Path(binary).resolve().parent)


def cases(report, gsutil):
    folder = gsutil.folder

    def there_and_back(data, name):
        there, back = folder / name, folder / f"{name}-back"
        there.write_bytes(data)
        gsutil.run("cp", there, f"gs://barn/{name}")
        gsutil.run("cp", f"gs://barn/{name}", back)
        assert back.read_bytes() == data, "other bytes came back"
        there.unlink()
        back.unlink()

    def from_stdin():
        data = media(3 * MB, seed=5)
        gsutil.run("cp", "-", "gs://barn/piped", stdin=data)
        back = folder / "piped"
        gsutil.run("cp", "gs://barn/piped", back)
        assert back.read_bytes() == data, "other bytes came back"

    print("gsutil")
    report.case("gsutil mb", lambda: gsutil.run("mb", "gs://barn"))
    for size, (length, flow) in SIZES.items():
        name = size.replace(" ", "-")
        report.case(f"gsutil cp, {size} there and back", lambda: there_and_back(media(length), name), TOOL, flow)
    report.case("gsutil cp from standard input", from_stdin, TOOL, "unknown length")


def faults(report, gsutil):
    data = media(3 * MB, seed=6)

    def struck(line, source, stdin):
        gsutil.run("cp", source, "gs://barn/struck", stdin=stdin, port=line.own_port)
        assert line.struck == 1, "the fault did not strike"
        back = gsutil.folder / "struck-back"
        gsutil.run("cp", "gs://barn/struck", back)
        assert back.read_bytes() == data, "other bytes came back"

    def of_file(fault):
        def case():
            there = gsutil.folder / "struck"
            there.write_bytes(data)
            with FaultProxy(gsutil.server.port, fault, tls=gsutil.tls) as line:
                struck(line, there, b"")
        return case

    def of_pipe(fault, **how):
        def case():
            with FaultProxy(gsutil.server.port, fault, tls=gsutil.tls, **how) as line:
                struck(line, "-", data)
        return case

    report.case("gsutil cp, 503", of_file(UNAVAILABLE), TOOL, "503 in the middle")
    report.case("gsutil cp, the line breaks", of_file(CUT), TOOL, "cut")
    report.case("gsutil cp, the final reply is lost", of_file(LOST_FINAL_REPLY), TOOL, "lost final reply")
    report.case("gsutil cp from standard input, 503 to a chunk", of_pipe(UNAVAILABLE, skip=2), TOOL, "chunks")
    report.case("gsutil cp from standard input, the line breaks in a chunk", of_pipe(CUT, skip=2), TOOL, "cut")
    report.case("gsutil cp from standard input, the reply to a chunk is lost", of_pipe(LOST_REPLY, skip=2), TOOL, "lost reply")


def limits(report, binary):
    """What it says, of servers with lower limits."""
    def said(folder, gsutil, *args, **how):
        there = folder / "media"
        there.write_bytes(media(3 * MB))
        gsutil.run("mb", "gs://barn")
        done = gsutil.ended(*args, "cp", there, "gs://barn/cow", **how)
        found = re.search(r"(\w+Exception): (\d+)", done.stderr.decode())
        return done.returncode, f"`{found[1]}` {found[2]}" if found else done.stderr.decode()

    def expired():
        with scratch(binary) as folder:
            folder = pathlib.Path(folder)
            # Long enough for the session after the one that expires.
            gsutil = Gsutil(binary, folder, sessions_lifetime="4s")
            with gsutil.server, FaultProxy(gsutil.server.port, EXPIRED, tls=gsutil.tls) as line:
                code, text = said(folder, gsutil, port=line.own_port)
                assert code == 0, text
                assert line.struck == 1, "the fault did not strike"
        return "nothing: it starts another session"

    def limited(accept, max_size):
        def case():
            with scratch(binary) as folder:
                folder = pathlib.Path(folder)
                with Server(binary, "--api", "storage") as plain:
                    description = plain.limited("storage", "v1", folder, accept, max_size)
                gsutil = Gsutil(binary, folder, api=description)
                with gsutil.server:
                    code, text = said(folder, gsutil, "-h", "Content-Type:image/png")
                    assert code == 1, "not refused"
            return text
        return case

    report.case("gsutil cp, an expired session", expired, TOOL, "expired")
    report.case("gsutil cp, a type that is not accepted", limited("video/*", 10 * MB), TOOL, "wrong type")
    report.case("gsutil cp, too large", limited("image/*", MB), TOOL, "too large")


def objects(report, gsutil):
    folder = gsutil.folder

    def listed():
        gsutil.run("cp", "-", "gs://barn/stall/cow", stdin=b"moo")
        assert gsutil.run("ls", "gs://barn/stall/").split() == ["gs://barn/stall/cow"]
        assert "gs://barn/stall/" in gsutil.run("ls", "gs://barn").split()
        assert gsutil.run("ls", "-a", "gs://barn/stall/cow").startswith("gs://barn/stall/cow#")
        assert "gs://barn/" in gsutil.run("ls").split()

    def told_of():
        said = gsutil.run("stat", "gs://barn/stall/cow")
        for line in "Content-Length:", "Hash (crc32c):", "Hash (md5):", "Generation:", "Storage class:":
            assert line in said, said
        gsutil.run("stat", "gs://barn/none", code=1)

    def changed():
        gsutil.run("setmeta", "-h", "Cache-Control:no-store", "-h", "x-goog-meta-herd:north", "gs://barn/stall/cow")
        said = gsutil.run("stat", "gs://barn/stall/cow")
        assert "no-store" in said and "herd:" in said, said

    def copied():
        gsutil.run("cp", "gs://barn/stall/cow", "gs://barn/stall/calf")
        gsutil.run("mv", "gs://barn/stall/calf", "gs://barn/stall/heifer")
        assert gsutil.run("cat", "gs://barn/stall/heifer") == "moo"
        gsutil.run("stat", "gs://barn/stall/calf", code=1)

    def several():
        herd = folder / "herd"
        (herd / "north").mkdir(parents=True)
        for n in range(5):
            (herd / "north" / f"{n}.bin").write_bytes(media(1000 + n, seed=n))
        gsutil.run("-m", "cp", "-r", herd, "gs://barn")
        gsutil.run("-m", "rsync", "-r", "gs://barn/herd", herd)
        back = folder / "back"
        back.mkdir()
        gsutil.run("-m", "cp", "-r", "gs://barn/herd", back)
        for n in range(5):
            data = (back / "herd" / "north" / f"{n}.bin").read_bytes()
            assert data == media(1000 + n, seed=n), "other bytes came back"

    def access_control():
        cow = "gs://barn/stall/cow"
        gsutil.run("acl", "ch", "-u", "AllUsers:R", cow)
        assert '"allUsers"' in gsutil.run("acl", "get", cow)
        gsutil.run("acl", "ch", "-d", "AllUsers", cow)
        assert '"allUsers"' not in gsutil.run("acl", "get", cow)
        gsutil.run("acl", "ch", "-u", "AllAuthenticatedUsers:R", cow)
        assert '"allAuthenticatedUsers"' in gsutil.run("acl", "get", cow)
        gsutil.run("acl", "ch", "-u", "ann@example.com:W", "gs://barn")
        assert '"user-ann@example.com"' in gsutil.run("acl", "get", "gs://barn")
        gsutil.run("defacl", "ch", "-u", "AllUsers:R", "gs://barn")
        assert '"allUsers"' in gsutil.run("defacl", "get", "gs://barn")
        gsutil.run("defacl", "ch", "-d", "AllUsers", "gs://barn")
        gsutil.run("cp", "-a", "public-read", cow, "gs://barn/stall/bull")
        assert '"allUsers"' in gsutil.run("acl", "get", "gs://barn/stall/bull")

    def composed():
        for n in range(3):
            gsutil.run("cp", "-", f"gs://barn/parts/{n}", stdin=media(MB + n, seed=n))
        gsutil.run("compose", *(f"gs://barn/parts/{n}" for n in range(3)), "gs://barn/parts/whole")
        back = folder / "whole"
        gsutil.run("cp", "gs://barn/parts/whole", back)
        assert back.read_bytes() == b"".join(media(MB + n, seed=n) for n in range(3)), "other bytes came back"
        assert "Component-Count:        3" in gsutil.run("stat", "gs://barn/parts/whole")

    def in_parallel():
        """The parts are uploaded at once, composed, and deleted."""
        data = media(40 * MB, seed=6)
        there, back = folder / "parallel", folder / "parallel-back"
        there.write_bytes(data)
        options = "parallel_composite_upload_threshold=10M", "parallel_composite_upload_component_size=5M"
        gsutil.run(*(it for option in options for it in ("-o", f"GSUtil:{option}")), "cp", there, "gs://barn/parallel")
        said = gsutil.run("stat", "gs://barn/parallel")
        assert "Component-Count:" in said and "Hash (md5):" not in said, said
        gsutil.run("cp", "gs://barn/parallel", back)
        assert back.read_bytes() == data, "other bytes came back"
        names = gsutil.run("ls", "gs://barn/**").split()
        assert [name for name in names if "parallel" in name] == ["gs://barn/parallel"], names

    def removed():
        gsutil.run("rm", "gs://barn/stall/cow")
        gsutil.run("stat", "gs://barn/stall/cow", code=1)
        gsutil.run("rb", "gs://barn", code=1)
        gsutil.run("-m", "rm", "-r", "gs://barn")
        gsutil.run("ls", "gs://barn", code=1)

    report.case("gsutil ls", listed)
    report.case("gsutil stat", told_of)
    report.case("gsutil setmeta", changed)
    report.case("gsutil cp and mv inside", copied)
    report.case("gsutil -m cp and rsync of folders", several)
    report.case("gsutil acl and defacl", access_control)
    report.case("gsutil compose", composed)
    report.case("gsutil cp, 40 MB in parallel parts", in_parallel)
    gsutil_folders.run(report, gsutil)
    report.case("gsutil rm and rb", removed)
