"""How many methods pass, flow by flow."""

import threading
import traceback


class Tally:
    """Cases by flow and method. May be used by several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.flows = {}
        self.passed = self.failed = 0

    def case(self, flow, method, function):
        """Runs a case; tells whether it passed."""
        try:
            function()
        except Exception as error:  # pylint: disable=broad-except
            self._count(flow, False)
            with self.lock:
                print(f"FAIL {flow}: {method}: {type(error).__name__}: {error}")
                traceback.print_exc()
            return False
        self._count(flow, True)
        return True

    def _count(self, flow, passed):
        with self.lock:
            counts = self.flows.setdefault(flow, [0, 0])
            counts[0] += passed
            counts[1] += 1
            self.passed += passed
            self.failed += not passed

    def end(self):
        for flow, (passed, cases) in self.flows.items():
            print(f"{flow}: {passed} of {cases} methods")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0
