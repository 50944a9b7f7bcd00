"""The rules that public bug reports of servers, emulators and clients are about, one case each.

    public_reports.py BINARY [WORD...]

With words only the cases are run that have one of them in their name or among their sources. All
cases share one server with all built-in APIs; each has buckets and mailboxes of its own.
"""

import subprocess
import sys

import buckets
import calls
import creatives
import downloads
import drive
import firebase
import mailboxes
import mails
import names
import objects
import photos_and_videos
import sessions
from report import Report
from rules import Expect, rules_of
from server import Server
from wire import Client

MODULES = (
    buckets, objects, downloads, names, sessions, calls, drive, mails, mailboxes, firebase,
    photos_and_videos, creatives,
)
APIS = (
    "farm", "gmail", "dfareporting", "gamesConfiguration", "storage", "drive", "youtube",
    "firebasestorage", "generativelanguage", "photoslibrary",
)


def main():
    binary, words, report = sys.argv[1], sys.argv[2:], Report()
    Server.log = subprocess.DEVNULL
    with Server(binary, *(word for api in APIS for word in ("--api", api))) as server:
        client = Client(server.url)
        for rule in (rule for module in MODULES for rule in rules_of(module)):
            texts = (rule.name, *rule.sources)
            if not words or any(word in text for word in words for text in texts):
                report.case(rule.name, lambda rule=rule: holds(rule, client))
    return report.end()


def holds(rule, client):
    """Runs a case to its end, and raises all that was not as expected."""
    expect = Expect()
    rule.function(client, expect)
    said = [f"reported in {', '.join(rule.sources)}", *expect.failures]
    assert not expect.failures, "\n  ".join(said)


if __name__ == "__main__":
    sys.exit(main())
