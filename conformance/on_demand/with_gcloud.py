"""gcloud storage, unmodified, with its defaults."""

import json
import os
import subprocess

from faults import CUT, LOST_FINAL_REPLY, UNAVAILABLE, FaultProxy
from objects import Barn
from report import media

MB = 1_000_000
# From 8 MiB on in a session, beyond 150 MiB in parts that are composed.
SIZES = {"empty": 0, "1 MB": MB, "20 MB": 20 * MB, "160 MB": 160 * MB}


class Gcloud:
    def __init__(self, folder, port):
        self.folder, self.port = folder, port

    def output(self, *arguments, code=0, stdin=b""):
        environment = {
            **os.environ, "CLOUDSDK_CONFIG": str(self.folder / "settings"), "CLOUDSDK_CORE_PROJECT": "test",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"http://127.0.0.1:{self.port}/storage/v1/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true", "CLOUDSDK_CORE_DISABLE_PROMPTS": "true",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true", "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true"}
        done = subprocess.run(["gcloud", "storage", *map(str, arguments)], env=environment, input=stdin,
                              capture_output=True, timeout=300, check=False)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stderr.decode()}"
        return done.stdout

    def run(self, *arguments, **how):
        return self.output(*arguments, **how).decode()


def run(report, binary, folder):
    barn = Barn(binary)
    with barn.server:
        cases(report, barn, folder)


def cases(report, barn, folder):
    gcloud = Gcloud(folder, barn.server.port)
    print(subprocess.run(["gcloud", "version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])

    def bucket():
        gcloud.run("buckets", "create", "gs://stall", "--location=EU")
        assert "gs://stall/" in gcloud.run("ls").split()
        gcloud.run("buckets", "delete", "gs://stall")
        gcloud.run("ls", "gs://stall", code=1)

    def there_and_back(length):
        there, back, data = folder / "there", folder / "back", media(length, seed=length)
        there.write_bytes(data)
        gcloud.run("cp", there, "gs://barn/cow")
        barn.verify("cow", data)
        gcloud.run("cp", "gs://barn/cow", back)
        assert back.read_bytes() == data, "other bytes came back"
        back.unlink()
        there.unlink()

    def piped():
        data = media(20 * MB, seed=5)
        gcloud.run("cp", "-", "gs://barn/piped", stdin=data)
        barn.verify("piped", data)
        assert gcloud.output("cat", "gs://barn/piped") == data
        assert gcloud.output("cat", "--range=10-19", "gs://barn/piped") == data[10:20]

    def folders():
        herd = folder / "herd"
        for n in range(5):
            (herd / f"{n % 2}").mkdir(parents=True, exist_ok=True)
            (herd / f"{n % 2}" / f"{n}.bin").write_bytes(media(1000 + n, seed=n))
        gcloud.run("cp", "-r", herd, "gs://barn")
        gcloud.run("mv", "gs://barn/herd", "gs://barn/moved")
        found = gcloud.run("ls", "gs://barn/moved/**").split()
        assert found == [f"gs://barn/moved/{n % 2}/{n}.bin" for n in (0, 2, 4, 1, 3)], found
        (herd / "0" / "0.bin").unlink()
        (herd / "1" / "1.bin").write_bytes(media(1001, seed=9))
        gcloud.run("rsync", "-r", "--checksums-only", "--delete-unmatched-destination-objects", herd, "gs://barn/moved")
        assert not barn.exists("moved/0/0.bin")
        barn.verify("moved/1/1.bin", media(1001, seed=9))
        gcloud.run("rm", "-r", "gs://barn/moved")
        gcloud.run("ls", "gs://barn/moved", code=1)

    def told_of():
        gcloud.run("cp", "-", "gs://barn/cow", "--cache-control=no-store", stdin=b"moo")
        gcloud.run("objects", "update", "gs://barn/cow", "--custom-metadata=herd=north")
        said = json.loads(gcloud.run("objects", "describe", "gs://barn/cow", "--format=json"))
        assert (said["cache_control"], said["custom_fields"], said["size"]) == ("no-store", {"herd": "north"}, 3), said

    def composed():
        for name in "one", "two":
            gcloud.run("cp", "-", f"gs://barn/{name}", stdin=name.encode())
        gcloud.run("objects", "compose", "gs://barn/one", "gs://barn/two", "gs://barn/both")
        barn.verify("both", b"onetwo")

    def struck(fault):
        there, data = folder / "there", media(20 * MB, seed=7)
        there.write_bytes(data)
        with FaultProxy(barn.server.port, fault) as line:
            Gcloud(folder, line.own_port).run("cp", there, "gs://barn/struck")
            assert line.struck, "the fault did not strike"
        barn.verify("struck", data)

    report.case("gcloud: buckets create, ls, delete", bucket)
    for size, length in SIZES.items():
        report.case(f"gcloud: cp, {size} there and back", lambda length=length: there_and_back(length))
    report.case("gcloud: cp from standard input, cat, cat --range", piped)
    report.case("gcloud: cp -r, mv, rsync, rm -r of folders", folders)
    report.case("gcloud: objects update and describe", told_of)
    report.case("gcloud: objects compose", composed)
    for fault in UNAVAILABLE, CUT, LOST_FINAL_REPLY:
        report.case(f"gcloud: cp, {fault}", lambda fault=fault: struck(fault))
