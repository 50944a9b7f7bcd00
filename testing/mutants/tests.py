"""The tests of a build with mutants: which mutants each one reaches, and which it notices."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# A test without a mutant that takes longer has no end.
MAX_SECONDS = 300
# A test that takes so much longer with a mutant hangs, which is noticed.
SLOWER, MORE_SECONDS = 5, 30
# Tests of the sources' text see that they are not the product's. More failures are no such tests.
MAX_FAILED = 0.01


@dataclasses.dataclass
class Test:
    """A test in a process of its own."""

    program: Path
    package: Path
    name: str
    seconds: float = 0.0
    passed: bool = False
    reaches: frozenset = frozenset()

    def __str__(self):
        return f"{self.package.name}: {self.name}"

    def run(self, timeout, **environment):
        """Whether it passes in this time. All processes that it started end with it."""
        command = [self.program, "--exact", self.name, "--test-threads=1"]
        environment = {**os.environ, **cargo_says(self.package), **environment}
        with subprocess.Popen(
            command, cwd=self.package, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as running:
            try:
                said, _ = running.communicate(timeout=timeout)
                return running.returncode == 0 and "1 passed" in said
            except subprocess.TimeoutExpired:
                return False
            finally:
                end_all(running.pid)


def end_all(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def cargo_says(package):
    """What cargo tells a test about its package."""
    text = (package / "Cargo.toml").read_text(encoding="utf-8")
    name = re.search(r'^name = "(.*)"', text, re.MULTILINE)[1]
    return {"CARGO_MANIFEST_DIR": str(package), "CARGO_PKG_NAME": name}


class Tests:
    """All tests of a build, from what cargo said of it."""

    def __init__(self, messages, matching, scratch, jobs):
        self.scratch, self.jobs = scratch, jobs
        artifacts = [it for it in messages if it["reason"] == "compiler-artifact"]
        programs = [it for it in artifacts if it["profile"]["test"] and it["executable"]]
        tests = [test for it in programs for test in tests_of(it)]
        self.all = [test for test in tests if re.search(matching, str(test))]

    def run_without_mutants(self):
        """Learns how long each test takes, and which mutants it reaches."""
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self.learn, range(len(self.all)), self.all))
        # Once more, alone: the first time many others ran.
        for number, test in enumerate(self.all):
            if not test.passed:
                self.learn(number, test)
        failed = [str(test) for test in self.all if not test.passed]
        if not self.all or len(failed) > MAX_FAILED * len(self.all):
            said = f"{len(failed)} of {len(self.all)} tests fail without a mutant"
            sys.exit(f"{said}: {', '.join(failed[:20])}")
        self.all = sorted((test for test in self.all if test.passed), key=lambda it: it.seconds)
        self.failed = failed

    def learn(self, number, test):
        log = self.scratch / f"reached-{number}"
        log.unlink(missing_ok=True)
        begun = time.monotonic()
        test.passed = test.run(MAX_SECONDS, REACHED_MUTANTS=str(log))
        test.seconds = time.monotonic() - begun
        if log.exists():
            # A process that is killed may leave half a line.
            test.reaches = frozenset(int(it) for it in log.read_text().split() if it.isdigit())
            log.unlink()

    def summary(self):
        said = f"{len(self.all)} tests"
        if self.failed:
            said += f"; these fail without a mutant and are left out: {', '.join(self.failed)}"
        return said

    def run_with(self, number, patience):
        """The first test that notices the mutant, and how many ran of how many that reach it."""
        reaching = [test for test in self.all if number in test.reaches]
        begun = time.monotonic()
        for ran, test in enumerate(reaching):
            if time.monotonic() - begun > patience:
                return None, ran, len(reaching)
            timeout = SLOWER * test.seconds + MORE_SECONDS
            # A test may fail for another reason, as the load of the machine: then also without.
            if not test.run(timeout, CHOSEN_MUTANT=str(number)) and test.run(timeout):
                return test, ran + 1, len(reaching)
        return None, len(reaching), len(reaching)


def tests_of(artifact):
    """The tests of a program, by its own list."""
    program, package = Path(artifact["executable"]), Path(artifact["manifest_path"]).parent
    command = [program, "--list", "--format", "terse"]
    listed = subprocess.run(command, cwd=package, check=True, capture_output=True, text=True)
    lines = [line for line in listed.stdout.splitlines() if line.endswith(": test")]
    return [Test(program, package, line.removesuffix(": test")) for line in lines]
