"""google-api-python-client, unmodified, against the Gmail API, built from the document that Google publishes.

    gmail.py BINARY

Only the document's rootUrl is another one: that of the server.
"""

import base64
import hashlib
import io
import json
import os
import sys
import tempfile
from email.message import EmailMessage

import googleapiclient
import googleapiclient.errors as errors
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build, build_from_document
from googleapiclient.http import MediaInMemoryUpload, MediaIoBaseUpload

import corpus
from report import Report
from server import Server

ME, BOB, EVE = (f"{name}@windlass.localhost" for name in ("me", "bob", "eve"))
DOCUMENT = os.path.join(
    os.path.dirname(googleapiclient.__file__), "discovery_cache", "documents", "gmail.v1.json"
)
CHUNK = 256 * 1024


def published(url):
    with open(DOCUMENT, encoding="utf-8") as file:
        document = json.load(file)
    document["rootUrl"] = url + "/"
    document["mtlsRootUrl"] = url + "/"
    return document


def letter(subject, text="Hello\n", to=ME, **headers):
    message = EmailMessage()
    message["From"] = "Ann <ann@farm.test>"
    message["To"] = to
    message["Subject"] = subject
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message.as_bytes(policy=message.policy.clone(linesep="\r\n"))


def encoded(raw):
    return base64.urlsafe_b64encode(raw).decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def media(raw, **how):
    return MediaIoBaseUpload(io.BytesIO(raw), mimetype="message/rfc822", **how)


def simple(method, raw, fields, **arguments):
    assert not fields, "a simple upload has no metadata"
    return method(media_body=media(raw), **arguments).execute()


def multipart(method, raw, fields, **arguments):
    return method(body=fields or {}, media_body=media(raw), **arguments).execute()


def resumable(method, raw, fields, **arguments):
    upload = media(raw, chunksize=CHUNK, resumable=True)
    request = method(body=fields or {}, media_body=upload, **arguments)
    reply = None
    while reply is None:
        _, reply = request.next_chunk()
    return reply


def embedded(method, raw, fields, **arguments):
    return method(body={**fields, "raw": encoded(raw)}, **arguments).execute()


WAYS = {"simple": simple, "multipart": multipart, "resumable": resumable, "raw in JSON": embedded}


def refusal(request, status, reason):
    """The library must see this status and this reason."""
    try:
        request.execute()
    except errors.HttpError as error:
        details = json.loads(error.content)["error"]["errors"]
        assert error.resp.status == status, f"{error.resp.status}, not {status}: {error}"
        assert details[0]["reason"] == reason, f"{details[0]['reason']}, not {reason}"
    else:
        raise AssertionError("not refused")


def equal(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


class Gmail:
    def __init__(self, url, document=None):
        document = document or published(url)
        self.service = build_from_document(document, credentials=AnonymousCredentials())
        users = self.service.users()
        self.users, self.messages, self.threads = users, users.messages(), users.threads()
        self.drafts, self.labels, self.history = users.drafts(), users.labels(), users.history()

    def insert(self, raw, *labels, user="me"):
        return multipart(self.messages.insert, raw, {"labelIds": list(labels)}, userId=user)

    def send(self, raw, user="me", **fields):
        return multipart(self.messages.send, raw, fields, userId=user)

    def get(self, message, user="me", **how):
        return self.messages.get(userId=user, id=message["id"], **how).execute()

    def raw(self, message, user="me"):
        return decoded(self.get(message, user, format="raw")["raw"])

    def label_ids(self, message, user="me"):
        return set(self.get(message, user, format="minimal")["labelIds"])

    def list(self, user="me", **how):
        """The ids on all pages."""
        found, request = [], self.messages.list(userId=user, **how)
        while request is not None:
            page = request.execute()
            found += [message["id"] for message in page.get("messages", [])]
            request = self.messages.list_next(request, page)
        return found

    def start(self):
        return self.users.getProfile(userId="me").execute()["historyId"]

    def tree(self, message, part):
        """A part as corpus.expected_tree has it, attachments fetched."""
        body = part["body"]
        if "attachmentId" in body:
            request = self.messages.attachments().get(
                userId="me", messageId=message["id"], id=body["attachmentId"]
            )
            attachment = request.execute()
            equal(attachment["size"], body["size"])
            data = decoded(attachment["data"])
        else:
            data = decoded(body.get("data", ""))
        equal(len(data), body["size"])
        headers = {header["name"].lower(): header["value"] for header in part["headers"]}
        return part, data, headers, [self.tree(message, child) for child in part.get("parts", [])]


def same(found, expected):
    """Holds a tree from the server against what Python makes of the message."""
    part, data, headers, children = found
    for name in ("partId", "mimeType", "filename"):
        assert part[name] == expected[name], f"{name} is {part[name]!r}, not {expected[name]!r}"
    equal(part["body"]["size"], expected["size"])
    equal(hashlib.sha256(data).hexdigest(), expected["sha256"])
    for name, value in expected["headers"].items():
        equal(headers.get(name.lower(), ""), value)
    expected_children = expected.get("parts", [])
    equal(len(children), len(expected_children))
    for child, expected_child in zip(children, expected_children):
        same(child, expected_child)


def shapes(report, gmail):
    def check(raw, way, number):
        fields = {} if way is simple else {"labelIds": ["STARRED"]}
        method = (gmail.messages.insert, gmail.messages.import_)[number % 2]
        message = way(method, raw, fields, userId="me")
        equal(gmail.raw(message), raw)
        equal(message["sizeEstimate"], len(raw))
        full = gmail.get(message, format="full")
        same(gmail.tree(full, full["payload"]), corpus.expected_tree(raw))

    def can_be_written(raw):
        try:
            gmail.messages.insert(userId="me", body={}, media_body=media(raw))
        except (TypeError, UnicodeError):
            return False
        return True

    for name, raw in corpus.messages().items():
        for number, (way_name, way) in enumerate(WAYS.items()):
            if way is multipart and not can_be_written(raw):
                report.left_out(f"{name}, {way_name}", "the library cannot write such a body")
                continue
            report.case(f"{name}, {way_name}", lambda raw=raw, way=way, number=number: check(raw, way, number))


def uploads(report, gmail):
    large = letter("large", "x" * 70 + "\n") + os.urandom(3 * 1024 * 1024).hex().encode()

    def in_chunks():
        message = resumable(gmail.messages.insert, large, {"labelIds": ["INBOX"]}, userId="me")
        equal(gmail.raw(message), large)

    def from_memory():
        upload = MediaInMemoryUpload(large, mimetype="message/rfc822", resumable=True)
        message = gmail.messages.insert(userId="me", media_body=upload).execute()
        equal(gmail.raw(message), large)

    def replies():
        raw = letter("reply")
        for way in (simple, multipart, resumable, embedded):
            message = way(gmail.messages.send, raw, {}, userId="me")
            for field in ("id", "threadId", "labelIds", "snippet", "historyId", "internalDate", "payload"):
                assert field in message, f"no {field}"
            equal(message["id"], gmail.get(message)["id"])

    def limits():
        too_large = letter("x") + b"x" * 36_700_160
        # The library looks at its document and sends nothing; one that believes in more has to ask.
        unlimited = published(gmail.service._baseUrl.rstrip("/"))  # pylint: disable=protected-access
        send = unlimited["resources"]["users"]["resources"]["messages"]["methods"]["send"]
        del send["mediaUpload"]["maxSize"]
        request = Gmail("", unlimited).messages.send(userId="me", media_body=media(too_large))
        refusal(request, 413, "uploadTooLarge")
        message = gmail.messages.insert(userId="me", media_body=media(too_large, resumable=True)).execute()
        equal(message["sizeEstimate"], len(too_large))
        equal(hashlib.sha256(gmail.raw(message)).digest(), hashlib.sha256(too_large).digest())

    report.case("a message in chunks of 256 KiB", in_chunks)
    report.case("a message in one chunk", from_memory)
    report.case("what a sent message is answered with", replies)
    report.case("36700160 bytes are sent, and no more; more is inserted", limits)


def sending(report, gmail):
    def delivery():
        raw = letter("delivery", to=f"Bob <{BOB}>", Bcc=EVE)
        sent = gmail.send(raw)
        equal(set(sent["labelIds"]), {"SENT"})
        for user in (BOB, EVE):
            (received,) = gmail.list(user, q="subject:delivery")
            equal(gmail.label_ids({"id": received}, user), {"INBOX", "UNREAD"})
            assert EVE.encode() not in gmail.raw({"id": received}, user)
        assert EVE.encode() in gmail.raw(sent)

    def to_oneself():
        equal(set(gmail.send(letter("oneself"))["labelIds"]), {"SENT", "INBOX", "UNREAD"})
        equal(len(gmail.list(q="subject:oneself")), 1)

    def filled_in():
        sent = gmail.send(b"To: me@windlass.localhost\r\n\r\nbare")
        headers = {header["name"] for header in gmail.get(sent)["payload"]["headers"]}
        equal(headers, {"From", "Date", "Message-ID", "To"})

    report.case("recipients on this server get the message, without blind copies", delivery)
    report.case("a message to oneself is one message", to_oneself)
    report.case("From, Date and Message-ID are filled in", filled_in)


def reading(report, gmail):
    def formats():
        message = gmail.insert(letter("formats"), "INBOX")
        assert "payload" not in gmail.get(message, format="minimal")
        metadata = gmail.get(message, format="metadata", metadataHeaders=["subject", "TO"])
        equal([header["name"] for header in metadata["payload"]["headers"]], ["To", "Subject"])

    def labels():
        message = gmail.insert(letter("labels"), "INBOX", "UNREAD")
        body = {"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]}
        changed = gmail.messages.modify(userId="me", id=message["id"], body=body).execute()
        equal(set(changed["labelIds"]), {"INBOX", "STARRED"})
        gmail.messages.trash(userId="me", id=message["id"]).execute()
        assert message["id"] not in gmail.list(q="subject:labels")
        gmail.messages.untrash(userId="me", id=message["id"]).execute()
        assert message["id"] in gmail.list(q="subject:labels")

    def batches():
        ids = [gmail.insert(letter("batch"), "INBOX")["id"] for _ in range(5)]
        body = {"ids": ids, "addLabelIds": ["IMPORTANT"]}
        gmail.messages.batchModify(userId="me", body=body).execute()
        equal(gmail.list(q="subject:batch is:important"), ids[::-1])
        gmail.messages.batchDelete(userId="me", body={"ids": ids}).execute()
        equal(gmail.list(q="subject:batch"), [])

    def pages():
        ids = [gmail.insert(letter("pages", f"number {n}"), "INBOX")["id"] for n in range(7)]
        for size in (1, 3, 7, 500):
            equal(gmail.list(q="subject:pages", maxResults=size), ids[::-1])

    def search():
        raw = letter("Searching for hay", "needle in it\n", Message_ID="<needle@farm.test>", Cc="carl@barn.test")
        message = gmail.insert(raw, "INBOX", "UNREAD")["id"]
        for query in ("needle", "from:ann subject:hay", '"for hay"', "cc:carl@barn.test", "rfc822msgid:needle@farm.test",
                      "needle -is:read", "needle {from:zoe from:ann}", "needle (from:zoe OR is:unread)",
                      "needle newer_than:1d", "needle smaller:10K in:inbox", "needle label:inbox"):
            assert message in gmail.list(q=query), query
        for query in ("needle from:zoe", "needle is:read", "needle larger:1M", "needle has:attachment",
                      "needle older_than:1d", "needle -in:inbox"):
            assert message not in gmail.list(q=query), query

    def deletion():
        message = gmail.insert(letter("deletion"), "INBOX")
        gmail.messages.delete(userId="me", id=message["id"]).execute()
        refusal(gmail.messages.get(userId="me", id=message["id"]), 404, "notFound")

    report.case("formats of a message", formats)
    report.case("labels of a message", labels)
    report.case("batches", batches)
    report.case("pages, newest first", pages)
    report.case("search", search)
    report.case("deletion", deletion)


def threads(report, gmail):
    def answers():
        first = gmail.send(letter("thread", Message_ID="<first@farm.test>"))
        reply = letter("Re: thread", In_Reply_To="<first@farm.test>", References="<first@farm.test>")
        equal(gmail.send(reply)["threadId"], first["threadId"])
        equal(gmail.send(reply, threadId=first["threadId"])["threadId"], first["threadId"])
        thread = gmail.threads.get(userId="me", id=first["threadId"]).execute()
        equal(len(thread["messages"]), 3)
        listed = gmail.threads.list(userId="me", q="subject:thread").execute()["threads"]
        equal([item["id"] for item in listed], [first["threadId"]])

    def changes():
        first = gmail.insert(letter("change", Message_ID="<change@farm.test>"), "INBOX")
        gmail.insert(letter("Re: change", In_Reply_To="<change@farm.test>"), "INBOX")
        name = {"userId": "me", "id": first["threadId"]}
        changed = gmail.threads.modify(body={"addLabelIds": ["STARRED"]}, **name).execute()
        assert all("STARRED" in message["labelIds"] for message in changed["messages"])
        gmail.threads.trash(**name).execute()
        equal(gmail.list(q="subject:change"), [])
        gmail.threads.untrash(**name).execute()
        equal(len(gmail.list(q="subject:change")), 2)
        gmail.threads.delete(**name).execute()
        refusal(gmail.threads.get(**name), 404, "notFound")

    report.case("answers are in the thread of what they answer", answers)
    report.case("threads are changed and deleted as a whole", changes)


def labels(report, gmail):
    def life():
        label = gmail.labels.create(userId="me", body={"name": "Farm/Hay"}).execute()
        gmail.insert(letter("labelled"), label["id"], "UNREAD")
        name = {"userId": "me", "id": label["id"]}
        counted = gmail.labels.get(**name).execute()
        equal((counted["messagesTotal"], counted["threadsUnread"]), (1, 1))
        refusal(gmail.labels.create(userId="me", body={"name": "farm/hay"}), 409, "duplicate")
        gmail.labels.patch(body={"name": "Farm/Straw"}, **name).execute()
        gmail.labels.update(body={**label, "name": "Straw", "labelListVisibility": "labelHide"}, **name).execute()
        assert "Straw" in [item["name"] for item in gmail.labels.list(userId="me").execute()["labels"]]
        equal(len(gmail.list(labelIds=[label["id"]])), 1)
        gmail.labels.delete(**name).execute()
        refusal(gmail.labels.get(**name), 404, "notFound")

    report.case("a label from its making to its end", life)


def drafts(report, gmail):
    def life(way):
        body = {} if way is simple else {"message": {}}
        draft = way(gmail.drafts.create, letter("draft", "first\n"), body, userId="me")
        equal(draft["message"]["labelIds"], ["DRAFT"])
        updated = way(gmail.drafts.update, letter("draft", "second\n"), body, userId="me", id=draft["id"])
        equal(updated["id"], draft["id"])
        shown = gmail.drafts.get(userId="me", id=draft["id"]).execute()
        equal(shown["message"]["snippet"], "second")
        assert draft["id"] in [item["id"] for item in gmail.drafts.list(userId="me").execute()["drafts"]]
        sent = gmail.drafts.send(userId="me", body={"id": draft["id"]}).execute()
        assert "SENT" in sent["labelIds"]
        refusal(gmail.drafts.get(userId="me", id=draft["id"]), 404, "notFound")

    def in_json(method, raw, _, **arguments):
        return method(body={"message": {"raw": encoded(raw)}}, **arguments).execute()

    def with_media():
        draft = in_json(gmail.drafts.create, letter("replaced"), {}, userId="me")
        sent = multipart(gmail.drafts.send, letter("replacing"), {"id": draft["id"]}, userId="me")
        assert letter("replacing") in gmail.raw(sent)
        equal(gmail.list(q="subject:replaced"), [])

    for name, way in {**WAYS, "raw in JSON": in_json}.items():
        report.case(f"a draft from its making to its sending, {name}", lambda way=way: life(way))
    report.case("media that comes with the sending replaces the draft's", with_media)


def history(report, gmail):
    def events():
        start = gmail.start()
        message = gmail.insert(letter("history"), "INBOX")
        body = {"addLabelIds": ["STARRED"], "removeLabelIds": ["INBOX"]}
        gmail.messages.modify(userId="me", id=message["id"], body=body).execute()
        gmail.messages.delete(userId="me", id=message["id"]).execute()
        found, request = [], gmail.history.list(userId="me", startHistoryId=start, maxResults=1)
        while request is not None:
            page = request.execute()
            found += page.get("history", [])
            request = gmail.history.list_next(request, page)
        kinds = [key for record in found for key in record if key not in ("id", "messages")]
        equal(kinds, ["messagesAdded", "labelsAdded", "labelsRemoved", "messagesDeleted"])
        only = gmail.history.list(userId="me", startHistoryId=start, historyTypes=["messageDeleted"]).execute()
        equal(len(only["history"]), 1)
        refusal(gmail.history.list(userId="me", startHistoryId="999999"), 404, "notFound")

    report.case("history", events)


def refusals(report, gmail):
    def bad_messages():
        for method in (gmail.messages.send, gmail.messages.insert, gmail.drafts.create):
            refusal(method(userId="me", media_body=media(b"no header")), 400, "invalidArgument")
        refusal(gmail.messages.send(userId="me", media_body=media(b"Subject: x\r\n\r\n")), 400, "invalidArgument")
        refusal(gmail.messages.send(userId="me", body={}), 400, "invalidArgument")
        refusal(gmail.messages.insert(userId="me", body={"raw": "!"}), 400, "invalidArgument")

    def unknown():
        refusal(gmail.messages.insert(userId="me", body={"threadId": "ff", "raw": encoded(letter("x"))}), 404, "notFound")
        refusal(gmail.messages.list(userId="me", labelIds=["Label_404"]), 400, "invalidArgument")
        refusal(gmail.users.getProfile(userId="zoe@elsewhere.test"), 404, "notFound")

    def not_made():
        refusal(gmail.users.watch(userId="me", body={}), 501, "notImplemented")
        refusal(gmail.users.settings().getVacation(userId="me"), 501, "notImplemented")

    report.case("what is no message", bad_messages)
    report.case("what is not there", unknown)
    report.case("what is described but not made", not_made)


def served(report, binary):
    """The description that comes with Windlass, as the library reads it from the server."""
    server = Server(binary, "--api", "gmail")
    try:
        def flow():
            document = build("gmail", "v1", credentials=AnonymousCredentials(),
                             discoveryServiceUrl=server.url + "/discovery/v1/apis/{api}/{apiVersion}/rest",
                             static_discovery=False)._rootDesc  # pylint: disable=protected-access
            gmail = Gmail(server.url, document)
            sent = gmail.send(letter("served"))
            equal(gmail.list(q="subject:served"), [sent["id"]])
            draft = multipart(gmail.drafts.create, letter("x"), {}, userId="me")
            gmail.drafts.delete(userId="me", id=draft["id"]).execute()

        report.case("the description that comes with the server", flow)
    finally:
        server.remove()


def restart(report, server, gmail):
    def after_a_kill():
        raw = letter("survivor")
        message = gmail.insert(raw, "INBOX")
        start = gmail.start()
        server.kill()
        server.start()
        fresh = Gmail(server.url)
        equal(fresh.raw(message), raw)
        equal(fresh.list(q="subject:survivor"), [message["id"]])
        equal(fresh.start(), start)

    report.case("a mailbox outlives a kill", after_a_kill)


def main(binary):
    report = Report()
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(published("http://127.0.0.1"), file)
        file.flush()
        server = Server(binary, "--api", file.name)
        try:
            gmail = Gmail(server.url)
            for cases in (shapes, uploads, sending, reading, threads, labels, drafts, history, refusals):
                cases(report, gmail)
            restart(report, server, gmail)
        finally:
            server.remove()
    served(report, binary)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
