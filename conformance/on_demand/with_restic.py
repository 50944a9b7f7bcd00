"""restic, whose repository is in a bucket."""

import json
import os
import shutil
import subprocess

from certificates import Certificates
from connect import ConnectProxy
from faults import CUT, LOST_FINAL_REPLY, UNAVAILABLE, FaultProxy
from objects import MIB
from report import media
from server import Server


class Restic:
    """The server's name is fixed, so it comes through a proxy to one that has this name."""

    def __init__(self, folder, port, authority):
        self.folder, self.port, self.authority = folder, port, authority

    def run(self, *arguments, code=0):
        with ConnectProxy(self.port) as proxy:
            # It wants a token and a project; nobody asks for either here.
            environment = {**os.environ, "HTTPS_PROXY": proxy.url, "GOOGLE_ACCESS_TOKEN": "any", "GOOGLE_PROJECT_ID": "test",
                           "RESTIC_REPOSITORY": "gs:barn:/", "RESTIC_PASSWORD": "moo", "RESTIC_CACHE_DIR": str(self.folder / "cache")}
            done = subprocess.run(["restic", "--cacert", self.authority, *map(str, arguments)], cwd=self.folder,
                                  env=environment, capture_output=True, timeout=300, check=False)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stderr.decode()}"
        return done.stdout.decode()


def run(report, binary, folder):
    certificates = Certificates(folder, "storage.googleapis.com")
    with Server(binary, "--api", "storage", *certificates.options) as server:
        cases(report, server, folder, certificates)


def cases(report, server, folder, certificates):
    restic = Restic(folder, server.port, certificates.authority)
    herd = folder / "herd"
    (herd / "north").mkdir(parents=True)
    files = {"empty": b"", "small": media(1000), "north/large": media(60 * MIB, seed=2), "north/ü ☃": b"moo"}
    for name, data in files.items():
        (herd / name).write_bytes(data)

    def restored():
        back = folder / "back"
        restic.run("restore", "latest", "--target", back)
        for name, data in files.items():
            assert (back / "herd" / name).read_bytes() == data, f"{name} differs"
        shutil.rmtree(back)

    def changed():
        files["small"] = media(2000, seed=3)
        (herd / "small").write_bytes(files["small"])
        restic.run("backup", "herd")
        assert len(json.loads(restic.run("snapshots", "--json"))) == 2
        restored()

    def pruned():
        restic.run("forget", "--keep-last", 1, "--prune")
        restic.run("check", "--read-data")
        restored()

    def struck(fault):
        files["struck"] = media(30 * MIB, seed=len(fault))
        (herd / "struck").write_bytes(files["struck"])
        with FaultProxy(server.port, fault, times=2, tls=certificates.context) as line:
            Restic(folder, line.own_port, certificates.authority).run("backup", "herd")
            assert line.struck == 2, "the faults did not strike"
        restic.run("check", "--read-data")
        restored()

    report.case("restic: init, which makes the bucket", lambda: restic.run("init"))
    report.case("restic: init, where there is one", lambda: restic.run("init", code=1))
    report.case("restic: backup", lambda: restic.run("backup", "herd"))
    report.case("restic: check, with all data", lambda: restic.run("check", "--read-data"))
    report.case("restic: restore", restored)
    report.case("restic: backup of what has changed", changed)
    report.case("restic: forget and prune", pruned)
    for fault in UNAVAILABLE, CUT, LOST_FINAL_REPLY:
        report.case(f"restic: backup, {fault}", lambda fault=fault: struck(fault))
