"""What was uploaded, through the other methods of its collection: shown, listed, read back, deleted."""

import re

from googleapiclient.errors import HttpError

from schema import admit
from service import check_facts, fields

SMALL = 10 * 1024
# These give back something else than the resource of their collection.
WITHOUT = {"gmail.users.drafts.send"}


def cases(tally, name, service, method):
    """A case for every method of the collection that can be called with what is known of the upload."""
    beside = {
        other.key: other for other in service.methods
        if other.collections == method.collections and other.key in ("get", "list", "download", "delete")
    }
    if method.id in WITHOUT or not beside:
        return
    upload = service.prepare(method, SMALL)
    service.verify(upload, service.request(upload).execute())
    life = Life(service, upload)
    for key, flow in (("get", life.get), ("download", life.download), ("list", life.list), ("delete", life.delete)):
        other = beside.get(key)
        if key == "download" and not (other and other.description.get("supportsMediaDownload")):
            other = beside.get("get")
            if not (other and other.description.get("supportsMediaDownload")):
                continue
        values = other and life.values(other)
        if values is not None:
            tally.case(key, f"{name}, {other.id}", lambda: flow(other, values, beside))


class Life:
    def __init__(self, service, upload):
        self.service, self.upload = service, upload
        # A draft has an id, and so has the message inside: the outer one counts.
        self.names = [
            (name, value) for name, value in reversed(list(fields(upload.reply or {})))
            if isinstance(value, str) and (name in ("id", "name", "resourceName") or name.endswith("Id"))
        ]
        if "fileId" in (upload.body or {}) and "parent" in upload.values:
            self.names.append(("name", f"{upload.values['parent']}/files/{upload.body['fileId']}"))
        for parent in [value for name, value in upload.values.items() if name == "parent"]:
            # Where only the id is shown, the name follows from the path.
            path = re.sub(r"^v[^/]*/", "", upload.method.path).replace("{+parent}", parent)
            path = re.sub(r"\{(\w+)\}", lambda found: str(upload.values[found.group(1)]), path)
            self.names += [("name", f"{path}/{value}") for name, value in self.names if name == "id"]

    def values(self, method):
        """The required parameters, from the upload's own and from what the reply names."""
        values = {}
        for name, described in method.parameters.items():
            value = self._value(name, described.get("pattern", ".*"))
            if described.get("required") and value is None:
                return None
            if described.get("required") or (name == "id" and value is not None):
                values[name] = value
        return values

    def _value(self, name, pattern):
        stem = "id" if name.endswith("Id") else name
        known = [value for key, value in self.upload.values.items() if key == name]
        known += [value for key, value in self.names if key == name]
        known += [(self.upload.body or {}).get("snippet", {}).get(name)]
        known += [value for key, value in self.names if key == stem]
        fit = (value for value in known if value is not None and re.search(pattern, str(value)))
        return next(fit, None)

    def get(self, method, values, _beside):
        reply = self.service.call(method, values).execute()
        admit(self.service.document, method.response, reply)
        check_facts(self.service.document, reply, self.upload.data)
        assert not self.ids(reply) or self.known() & self.ids(reply), f"{reply} is not {self.upload.reply}"

    def download(self, method, values, _beside):
        request = getattr(self._collection(method), method.key + "_media")
        values = {re.sub(r"[^A-Za-z0-9_]", "_", name): value for name, value in values.items()}
        assert request(**values).execute() == self.upload.data, "other bytes came back"

    def _collection(self, method):
        collection = self.service.library
        for name in method.collections:
            collection = getattr(collection, name)()
        return collection

    def list(self, method, values, _beside):
        reply = self.service.call(method, values).execute()
        admit(self.service.document, method.response, reply)
        listed = [item for value in reply.values() if isinstance(value, list) for item in value]
        without = not self.known() or not any(self.ids(item) for item in listed)
        assert listed and (without or any(self.known() & self.ids(item) for item in listed)), f"not in {reply}"

    def delete(self, method, values, beside):
        reply = self.service.call(method, values).execute()
        if method.response:
            admit(self.service.document, method.response, reply)
        again = beside.get("get", method)
        try:
            self.service.call(again, self.values(again)).execute()
        except HttpError as error:
            assert error.resp.status == 404, error
        else:
            raise AssertionError("it is still there")

    def known(self):
        return {value for _, value in self.names} | set(map(str, self.upload.values.values()))

    @staticmethod
    def ids(reply):
        return {value for name, value in fields(reply) if name in ("id", "name") or name.endswith("Id")}
