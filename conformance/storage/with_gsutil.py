"""gsutil, unmodified, against Cloud Storage over https: it speaks nothing else."""

import os
import pathlib
import subprocess
import sys
import tempfile

import trustme

from report import media
from server import Server

MB = 1_000_000
SIZES = {"100 MB": 100 * MB, "1 MB": MB, "empty": 0}


class Gsutil:
    """A server with a certificate of an authority of its own, and gsutil that trusts it."""

    def __init__(self, binary, folder):
        self.folder = folder
        authority, files = trustme.CA(), {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        authority.cert_pem.write_to_path(files["ca"])
        certificate.private_key_pem.write_to_path(files["key"])
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(files["cert"], append=True)
        self.server = Server(binary, "--api", "storage", "--tls-cert", files["cert"], "--tls-key", files["key"])
        self.settings = folder / "boto"
        self.settings.write_text(f"""
[Credentials]
gs_json_host = localhost
gs_json_port = {self.server.port}
[Boto]
ca_certificates_file = {files["ca"]}
num_retries = 2
[GSUtil]
state_dir = {folder}
software_update_check_period = 0
disable_analytics_prompt = True
default_project_id = test
""")

    def run(self, *args, code=0, stdin=b""):
        """Runs a command of gsutil; gives what it prints."""
        environment = {**os.environ, "BOTO_CONFIG": str(self.settings), "HOME": str(self.folder)}
        environment.pop("CLOUDSDK_CONFIG", None)
        command = [str(pathlib.Path(sys.executable).parent / "gsutil"), *map(str, args)]
        done = subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=120, check=False)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stderr.decode()}"
        return done.stdout.decode()


def run(report, binary):
    beside = pathlib.Path(binary).resolve().parent
    with tempfile.TemporaryDirectory(prefix="conformance-", dir=beside) as folder:
        gsutil = Gsutil(binary, pathlib.Path(folder))
        try:
            cases(report, gsutil)
        finally:
            gsutil.server.remove()


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

    def removed():
        gsutil.run("rm", "gs://barn/stall/cow")
        gsutil.run("stat", "gs://barn/stall/cow", code=1)
        gsutil.run("rb", "gs://barn", code=1)
        gsutil.run("-m", "rm", "-r", "gs://barn")
        gsutil.run("ls", "gs://barn", code=1)

    print("gsutil")
    report.case("gsutil mb", lambda: gsutil.run("mb", "gs://barn"))
    for size, length in SIZES.items():
        name = size.replace(" ", "-")
        report.case(f"gsutil cp, {size} there and back", lambda: there_and_back(media(length), name))
    report.case("gsutil cp from standard input", from_stdin)
    report.case("gsutil ls", listed)
    report.case("gsutil stat", told_of)
    report.case("gsutil setmeta", changed)
    report.case("gsutil cp and mv inside", copied)
    report.case("gsutil -m cp and rsync of folders", several)
    report.case("gsutil rm and rb", removed)
