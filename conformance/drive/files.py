"""Drive: files up, down, in folders, found and deleted."""

import hashlib

import batches
from faults import CUT, FaultProxy
from library import CHUNK, KIB, LIBRARY, MIB, download, raw, refused, same, upload
from report import media
from resumable import to_the_end

SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)
FOLDER = "application/vnd.google-apps.folder"
FIELDS = "id,name,mimeType,size,md5Checksum,sha256Checksum,parents,trashed,version,headRevisionId"


def cases(report, server, client):
    drive = Drive(client)
    for part in uploads, lines, reading, folders, searching, refusals, batches.cases:
        part(report, drive, server)


class Drive:
    def __init__(self, service):
        self.service, self.files = service, service.files()

    def create(self, data=None, name="llama", **fields):
        how = {name: fields.pop(name) for name in ("resumable", "chunksize", "mimetype") if name in fields}
        media_body = None if data is None else upload(data, **how)
        return self.files.create(body={"name": name, **fields}, media_body=media_body, fields=FIELDS)

    def folder(self, name="farm", **fields):
        return self.create(name=name, mimeType=FOLDER, **fields).execute()["id"]

    def names(self, q, **how):
        listed = self.files.list(q=q, **{"orderBy": "name", **how}).execute()
        return [file["name"] for file in listed["files"]]

    def verify(self, file, data):
        same(file["size"], str(len(data)))
        same(file["md5Checksum"], hashlib.md5(data).hexdigest())
        same(file["sha256Checksum"], hashlib.sha256(data).hexdigest())
        same(self.files.get_media(fileId=file["id"]).execute(), data)
        return file


def uploads(report, drive, _):
    def simple():
        file = drive.files.create(media_body=upload(SMALL, "image/png"), fields="*").execute()
        same((file["name"], file["mimeType"]), ("Untitled", "image/png"))
        drive.verify(file, SMALL)

    def chosen():
        for file_id in drive.files.generateIds(count=2).execute()["ids"]:
            same(drive.create(SMALL, id=file_id).execute()["id"], file_id)
            refused(drive.create(SMALL, id=file_id), 409, "duplicate")

    def updated():
        file = drive.create(SMALL).execute()
        changed = drive.files.update(fileId=file["id"], media_body=upload(LARGE, "video/mp4", resumable=True), fields=FIELDS)
        changed = drive.verify(to_the_end(changed), LARGE)
        same((changed["name"], changed["mimeType"]), ("llama", "video/mp4"))
        assert int(changed["version"]) > int(file["version"]), "versions rise"
        assert changed["headRevisionId"] != file["headRevisionId"], "the same revision"
        renamed = drive.files.update(fileId=file["id"], body={"name": "alpaca"}, fields=FIELDS).execute()
        same(drive.verify(renamed, LARGE)["name"], "alpaca")

    def default_fields():
        made = drive.files.create(body={"name": "llama"}, media_body=upload(SMALL)).execute()
        same(sorted(made), ["id", "kind", "mimeType", "name"])

    def multipart(data):
        return lambda: drive.verify(drive.create(data).execute(), data)

    def resumable(data, **how):
        return lambda: drive.verify(to_the_end(drive.create(data, resumable=True, **how)), data)

    report.case("simple", simple, LIBRARY, "simple")
    report.case("multipart", multipart(SMALL), LIBRARY, "multipart")
    report.case("multipart, larger", multipart(LARGE), LIBRARY, "multipart")
    report.case("resumable, one request", resumable(LARGE), LIBRARY, "resumable")
    report.case("resumable, 256 KiB chunks", resumable(LARGE, chunksize=CHUNK), LIBRARY, "chunks")
    report.case("resumable, empty", resumable(b""), LIBRARY, "empty")
    report.case("ids that clients choose", chosen)
    report.case("update of media, then of fields", updated)
    report.case("the fields of a reply, if none are asked for", default_fields)


def lines(report, drive, server):
    def breaks():
        with FaultProxy(server.port, CUT, times=3, after=700 * KIB) as line:
            request = drive.create(LARGE, resumable=True, chunksize=MIB)
            request.uri = request.uri.replace(server.url, line.url)
            drive.verify(to_the_end(request), LARGE)
            same(line.struck, 3)

    def taken_up():
        first = drive.create(LARGE, resumable=True, chunksize=CHUNK)
        status, _ = first.next_chunk()
        same(status.resumable_progress, CHUNK)
        second = drive.create(LARGE, resumable=True, chunksize=MIB)
        second.resumable_uri = first.resumable_uri
        second._in_error_state = True  # It asks how far the session is.
        drive.verify(to_the_end(second), LARGE)

    report.case("resumable, over a line that breaks", breaks, LIBRARY, "cut")
    report.case("resumable, taken up by another request", taken_up)


def reading(report, drive, server):
    def chunks():
        file = drive.create(LARGE).execute()
        data, count = download(drive.files.get_media(fileId=file["id"]))
        same((data == LARGE, count), (True, 13))

    def link():
        file = drive.files.create(body={"mimeType": "image/png"}, media_body=upload(SMALL), fields="webContentLink").execute()
        same(raw(file["webContentLink"]), (200, SMALL))

    def copied():
        source = drive.create(SMALL).execute()
        copy = drive.files.copy(fileId=source["id"], body={"name": "copy"}, fields=FIELDS).execute()
        drive.files.delete(fileId=source["id"]).execute()
        same(drive.verify(copy, SMALL)["name"], "copy")

    def about():
        about = drive.service.about().get(fields="user,maxUploadSize").execute()
        same((about["user"]["me"], about["maxUploadSize"]), (True, str(5120 << 30)))

    report.case("download in chunks", chunks)
    report.case("the link to the content", link)
    report.case("copy", copied)
    report.case("about", about)


def folders(report, drive, _):
    def moved():
        one, two = drive.folder(), drive.folder()
        file = drive.create(SMALL, parents=[one]).execute()
        same(file["parents"], [one])
        moved = drive.files.update(fileId=file["id"], addParents=two, removeParents=one, fields=FIELDS).execute()
        same(moved["parents"], [two])
        same((drive.names(f"'{one}' in parents"), drive.names(f"'{two}' in parents")), ([], ["llama"]))

    def deleted():
        outer = drive.folder()
        file = drive.create(SMALL, parents=[drive.folder(parents=[outer])]).execute()
        drive.files.delete(fileId=outer).execute()
        refused(drive.files.get(fileId=file["id"]), 404, "notFound")

    def trashed():
        folder = drive.folder()
        file = drive.create(SMALL, parents=[folder]).execute()
        drive.files.update(fileId=folder, body={"trashed": True}).execute()
        same(drive.files.get(fileId=file["id"], fields="trashed").execute(), {"trashed": True})
        same(drive.names(f"'{folder}' in parents and trashed = false"), [])
        drive.files.emptyTrash().execute()
        refused(drive.files.get(fileId=file["id"]), 404, "notFound")

    report.case("a file moves", moved)
    report.case("a folder is deleted with what is in it", deleted)
    report.case("the trash", trashed)


def searching(report, drive, _):
    folder = drive.folder("search")
    for name, mime_type, year in ("b", "image/png", 2001), ("a", "image/jpeg", 2002), ("c", "text/plain", 2003):
        drive.create(SMALL, name=name, mimeType=mime_type, parents=[folder], modifiedTime=f"{year}-01-01T00:00:00Z").execute()
    inside = f"'{folder}' in parents"

    def queries():
        table = {
            "": ["a", "b", "c"],
            " and mimeType contains 'image/'": ["a", "b"],
            " and (name = 'a' or name = 'c')": ["a", "c"],
            " and not name contains 'a'": ["b", "c"],
            " and modifiedTime > '2001-06-01T00:00:00'": ["a", "c"],
            f" and mimeType != '{FOLDER}' and trashed = false": ["a", "b", "c"],
        }
        for query, names in table.items():
            same((query, drive.names(inside + query)), (query, names))

    def pages():
        for order in "name", "name desc", "modifiedTime desc", "folder,createdTime", None:
            whole = drive.names(inside, orderBy=order)
            request, names = drive.files.list(q=inside, orderBy=order, pageSize=2), []
            while request is not None:
                page = request.execute()
                names += [file["name"] for file in page["files"]]
                request = drive.files.list_next(request, page)
            same((order, names, sorted(names)), (order, whole, ["a", "b", "c"]))

    report.case("queries", queries)
    report.case("pages in every order", pages)


def refusals(report, drive, server):
    def too_large():
        url = f"{server.url}/upload/drive/v3/files?uploadType=resumable"
        status, body = raw(url, "POST", b"", X_Upload_Content_Length=str((5120 << 30) + 1))
        same((status, b"uploadTooLarge" in body), (413, True))

    report.case("a file that there is not", lambda: refused(drive.files.get(fileId="none"), 404, "notFound"))
    report.case("a folder that there is not", lambda: refused(drive.create(SMALL, parents=["none"]), 404, "notFound"))
    report.case("a field of the wrong type", lambda: refused(drive.create(name=7), 400, "invalid"))
    report.case("a query that is none", lambda: refused(drive.files.list(q="size > 5"), 400, "invalid"))
    report.case("too large a file", too_large)
