"""The published discovery documents, as the library's package has them, and their upload methods."""

import glob
import json
import os

import googleapiclient

FOLDER = os.path.join(os.path.dirname(googleapiclient.__file__), "discovery_cache", "documents")


class Method:
    """A method of a document, with where it stands in the library's tree of collections."""

    def __init__(self, document, collections, key, description):
        self.document, self.collections, self.key, self.description = document, collections, key, description
        self.id = description["id"]
        self.path = description["path"]
        self.verb = description["httpMethod"]
        self.upload = description.get("mediaUpload")

    @property
    def request(self):
        return self.description.get("request", {}).get("$ref")

    @property
    def response(self):
        return self.description.get("response")

    @property
    def template(self):
        return self.document["servicePath"] + self.path

    @property
    def parameters(self):
        return self.description.get("parameters", {})


def with_uploads():
    """All documents with upload methods, each with its name: 37 of some 600."""
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        # Cheaper than reading all of them as JSON.
        if '"mediaUpload"' not in text:
            continue
        document = json.loads(text)
        if any(method.upload for method in methods(document)):
            yield os.path.basename(path)[:-len(".json")], document


def methods(document, node=None, collections=()):
    node = document if node is None else node
    for key, description in node.get("methods", {}).items():
        yield Method(document, collections, key, description)
    for name, collection in node.get("resources", {}).items():
        yield from methods(document, collection, collections + (name,))
