"""How many methods pass, flow by flow."""

import threading
import traceback

from report import Results

LIBRARY = "google-api-python-client"
# Those of docs/compatibility.md, by the names that they have here.
FLOWS = {
    "simple": "simple", "multipart": "multipart", "resumable, declared": "chunks", "resumable, not declared": "chunks",
    "resumable, torn and taken up": "cut",
}


class Tally:
    """Cases by flow and method. May be used by several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.flows = {}
        self.passed = self.failed = 0
        self.results = Results()

    def case(self, flow, method, function):
        """Runs a case; tells whether it passed."""
        try:
            function()
        except Exception as error:  # pylint: disable=broad-except
            self._count(flow, method, False)
            with self.lock:
                print(f"FAIL {flow}: {method}: {type(error).__name__}: {error}")
                traceback.print_exc()
            return False
        self._count(flow, method, True)
        return True

    def _count(self, flow, method, passed):
        with self.lock:
            if flow in FLOWS:
                self.results.add(f"{flow}: {method}", "pass" if passed else "fail", family=LIBRARY, flow=FLOWS[flow])
            counts = self.flows.setdefault(flow, [0, 0])
            counts[0] += passed
            counts[1] += 1
            self.passed += passed
            self.failed += not passed

    def end(self, to_the_table):
        if to_the_table:
            self.results.write()
        for flow, (passed, cases) in self.flows.items():
            print(f"{flow}: {passed} of {cases} methods")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0
