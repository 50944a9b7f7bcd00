"""Rules: what a case is called, which public reports it comes from, and what it expects."""

import dataclasses
from collections.abc import Callable

# A failure quotes replies, which may be long.
MAX_QUOTED = 600


@dataclasses.dataclass(frozen=True)
class Rule:
    """A case. Its sources are threads on GitHub (`owner/repository#number`) and pages."""

    name: str
    sources: tuple[str, ...]
    function: Callable


def reported(*sources):
    """Makes a function the rule of these public reports, with its docstring as the name."""
    def of(function):
        assert sources, f"{function.__name__} names no public report"
        module = function.__module__.replace("_", " ")
        name = function.__doc__.splitlines()[0].rstrip(".")
        function.rule = Rule(f"{module}: {name}", sources, function)
        return function
    return of


def rules_of(module):
    """The rules of a module, in the order in which they are written."""
    return [it.rule for it in vars(module).values() if hasattr(it, "rule")]


class Expect:
    """Collects what is not as expected, so that one run of a case shows all of it."""

    def __init__(self):
        self.failures = []

    def same(self, got, right, *about):
        self.true(got == right, *about, f"got {got!r}, right is {right!r}")

    def true(self, holds, *about):
        if not holds:
            self.failures.append(" ".join(map(str, about))[:MAX_QUOTED])
