"""Gmail: searches, history and ids."""

import uuid

from rules import reported
from samples import mail, user
from wire import escaped


@reported(
    "asweigart/ezgmail#39", "googleapis/google-api-python-client#747", "dcparker/ruby-gmail#49",
    "dcparker/ruby-gmail#62", "owainlewis/clojure-mail#70", "support.google.com/mail/answer/7190",
)
def searches_mean_what_the_help_says(server, expect):
    """Searches know dates, labels, OR, braces and rfc822msgid, next to labelIds."""
    mailbox = Mailbox(server)
    for query, right in mailbox.queries():
        expect.same(mailbox.find(query), right, query)
    for query, more, right in (
        ("subject:quote", "labelIds=INBOX", ""),
        ("subject:quote", "labelIds=STARRED", "c"),
        ("subject:lunch", f"labelIds=INBOX&labelIds={mailbox.label}", "b"),
        ("pay", "includeSpamTrash=true", "at"),
    ):
        expect.same(mailbox.find(query, f"&{more}"), right, query, more)


class Mailbox:
    """Five messages, named by a letter: a and d are new, b is old, c is sent, t is in the trash."""

    def __init__(self, server):
        self.server, self.user = server, user()
        self.base = f"/gmail/v1/users/{self.user}"
        name = {"name": "My Label/sub one"}
        self.label = server.call("POST", f"{self.base}/labels", name).json["id"]
        self.letters = {}
        self.insert("a", "Pay your reminders now", ["INBOX", "UNREAD"])
        self.insert("b", "Lunch", ["INBOX", self.label], date="Mon, 05 Jul 2021 10:00:00 +0000")
        self.insert("c", "Quote 42", ["STARRED"], sender=self.user, body="see the report")
        self.insert("d", "Invoice", ["INBOX"], to=self.user, body="Rechnung \u00fcber 5 \u20ac")
        self.insert("t", "Trashed pay", ["TRASH"])

    def insert(
        self, letter, subject, labels, date="Mon, 10 Jan 2022 10:00:00 +0000",
        sender="ann@example.com", to="x@example.com", body="hello",
    ):
        text = (
            f"From: {sender}\nTo: {to}\nSubject: {subject}\nDate: {date}\n"
            f"Message-ID: <{letter}{uuid.uuid4().hex}@ex>\n\n{body}\n"
        )
        made = mail(self.server, self.user, text, "&internalDateSource=dateHeader")["id"]
        self.server.call("POST", f"{self.base}/messages/{made}/modify", {"addLabelIds": labels})
        self.letters[made] = letter

    def queries(self):
        """Searches, and the letters of what they find."""
        message_id = self.message_id()
        return (
            ("subject:(pay reminders) after:1/1/2022", "a"),
            ("subject:(pay reminders) after:2022/1/1", "a"),
            ("after:01/01/2022", "acd"), ("before:2022/01/01", "b"),
            ("after:2021/7/1 before:2021/7/31", "b"), ("after:1641772800", "acd"),
            ("-label:my-label-sub-one", "acd"), ("label:my-label-sub-one", "b"),
            ('label:"My Label/sub one"', "b"), ("has:userlabels", "b"),
            ("in:anywhere pay", "at"), ("pay", "a"), ("in:trash", "t"), ("-in:inbox", "c"),
            (f"rfc822msgid:<{message_id}>", "a"), (f"rfc822msgid:{message_id}", "a"),
            ("subject:lunch OR subject:quote", "bc"), ("{subject:lunch subject:quote}", "bc"),
            ("is:unread in:inbox", "a"), ("is:read", "bcd"), ('"your reminders"', "a"),
            ("rechnung", "d"), ("subject:lunch -subject:lunch", ""), ("older_than:1y", "abcd"),
            ("SUBJECT:LUNCH", "b"), ("-{from:ann pay}", "c"), ("from:ann@example.com", "abd"),
            ("from:(ann OR bob)", "abd"),
        )

    def message_id(self):
        made = next(made for made, letter in self.letters.items() if letter == "a")
        message = self.server.get(f"{self.base}/messages/{made}?format=metadata").json
        headers = {it["name"].lower(): it["value"] for it in message["payload"]["headers"]}
        return headers["message-id"].strip("<>")

    def find(self, query, more=""):
        reply = self.server.get(f"{self.base}/messages?q={escaped(query)}{more}")
        if reply.status != 200:
            return reply.status
        found = [self.letters.get(it["id"], "?") for it in reply.json.get("messages", [])]
        return "".join(sorted(found))


@reported(
    "mesozoic/gmail-yaml-filters#4", "TiagoGouvea/gmail-to-google-sheets-script#3",
    "support.google.com/mail/answer/7190",
)
def me_is_the_owner_of_the_mailbox(server, expect):
    """from:me and to:me find what the owner of the mailbox has sent and received."""
    owner = user()
    text = f"From: Ann <{owner}>\nTo: x@example.com\nSubject: mine\n\nx\n"
    sent = mail(server, owner, text)["id"]
    text = f"From: x@example.com\nTo: {owner}\nSubject: yours\n\nx\n"
    got = mail(server, owner, text)["id"]
    for query, right in (
        ("from:me", [sent]), ("to:me", [got]), ("-from:me", [got]),
        ("from:me to:x@example.com", [sent]),
        ("{from:me to:me}", [got, sent]), (f"from:{owner}", [sent]),
    ):
        reply = server.get(f"/gmail/v1/users/{owner}/messages?q={escaped(query)}")
        expect.same([it["id"] for it in reply.json.get("messages", [])], right, query)


@reported("brekkylab/backlot#39", "brekkylab/backlot#41", "LeoIannacone/goopg#34")
def malformed_ids_are_400_and_unknown_ones_404(server, expect):
    """An id that is no hexadecimal number below 2^63 is 400, one that does not exist is 404."""
    owner = user()
    base = f"/gmail/v1/users/{owner}"
    made = mail(server, owner, "From: a@example.com\nSubject: s\n\nx\n")
    own = made["id"]
    expect.true(len(own) == 16 and int(own, 16) < 1 << 63 and own == own.lower(), "id", own)
    expect.same(made["threadId"], own, "a lone message is its thread")
    for kind in ("messages", "threads"):
        for unknown in ("1", "abc123", "DEADBEEF", "7fffffffffffffff", "18c9a1b2c3d4e5f6"):
            expect.same(server.get(f"{base}/{kind}/{unknown}").status, 404, kind, unknown)
        for malformed in (
            "ffffffffffffffff", "8000000000000000", "18c9a1b2c3d4e5f6aa", "nosuchmessageid",
            "1g", "-1",
        ):
            expect.same(server.get(f"{base}/{kind}/{malformed}").status, 400, kind, malformed)
    expect.same(server.get(f"{base}/labels/nosuch").status, 404, "label")


@reported(
    "relaticle/relaticle#612", "googleworkspace/python-samples#200", "gauteh/lieer#24",
    "googleapis/google-api-nodejs-client#978",
)
def history_has_exactly_what_happened(server, expect):
    """History needs a start, has the types that are asked for, and no page of it is empty."""
    owner = user()
    base = f"/gmail/v1/users/{owner}"
    starred = mail(server, owner, "From: a@example.com\nSubject: one\n\nx\n")["id"]
    begin = server.get(f"{base}/profile").json["historyId"]
    history = f"{base}/history?startHistoryId={begin}"
    expect.same(server.get(f"{base}/history").status, 400, "no startHistoryId")
    expect.same(server.get(history).json, {"historyId": begin}, "nothing since")
    texts = [f"From: a@example.com\nSubject: {number}\n\nx\n" for number in range(5)]
    added = [mail(server, owner, text)["id"] for text in texts]
    server.call("POST", f"{base}/messages/{starred}/modify", {"addLabelIds": ["STARRED"]})
    server.call("DELETE", f"{base}/messages/{added[4]}")

    for bad in ("labelsAdded", "labelsRemoved", "nonsense"):
        expect.same(server.get(f"{history}&historyTypes={bad}").status, 400, bad)
    found = server.get(f"{history}&historyTypes=messageAdded").json["history"]
    ids = [it["message"]["id"] for record in found for it in record.get("messagesAdded", [])]
    expect.same(ids[:4], added[:4], "added")
    expect.true(all("labelsAdded" not in record for record in found), "other types", found)
    found = server.get(f"{history}&historyTypes=labelAdded").json["history"]
    labels = [it for record in found for it in record["labelsAdded"]]
    got = [(it["message"]["id"], it["labelIds"]) for it in labels]
    expect.same(got, [(starred, ["STARRED"])], "labels")
    both = "historyTypes=messageDeleted&historyTypes=labelAdded"
    found = server.get(f"{history}&{both}").json["history"]
    for kind in ("messagesDeleted", "labelsAdded"):
        expect.same(sum(kind in record for record in found), 1, "two types", kind)
    seen = ids_of_pages(server, expect, f"{history}&maxResults=2")
    expect.true(len(seen) == len(set(seen)) >= 7, "pages", seen)
    future = server.get(f"{base}/history?startHistoryId=99999999999999").status
    expect.true(future in (200, 404), "an id of the future", future)


def ids_of_pages(server, expect, path):
    token, seen = "", []
    for _ in range(20):
        page = server.get(path + (f"&pageToken={escaped(token)}" if token else "")).json
        seen += [record["id"] for record in page.get("history", [])]
        token = page.get("nextPageToken")
        expect.true(not token or page.get("history"), "a page with a token and no history")
        if not token:
            break
    return seen
