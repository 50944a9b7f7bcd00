"""Cases about a library, each with its name."""


class Family:
    """A report whose cases are about one library, the package of this name; those with a flow of flows.py are in the table."""

    def __init__(self, report, name):
        self.report, self.name = report, name

    def case(self, what, function, flow=None, **how):
        self.report.case(f"{self.name}: {what}", function, flow and self.name, flow, **how)

    def left_out(self, what, reason, flow=None):
        self.report.left_out(f"{self.name}: {what}", reason, flow and self.name, flow)
