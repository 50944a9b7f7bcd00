"""The built-in descriptions beside the published ones: scopes of methods, fields of replies."""

import json
import pathlib
import tomllib

APIS = pathlib.Path(__file__).parents[2] / "crates" / "apis" / "src"
AUTH = "https://www.googleapis.com/auth/"

# The folder of a description, and the document that it is a part of.
PAIRS = {
    "dfareporting": "dfareporting.v4",
    "drive": "drive.v3",
    "gmail": "gmail.v1",
    "storage": "storage.v1",
    "youtube": "youtube.v3",
}

# Scopes that are good for less than their methods do. The server does not enforce the difference,
# and refuses them.
NARROW = {
    "drive": {"drive.appdata", "drive.meet.readonly", "drive.photos.readonly", "drive.scripts"},
    "gmail": {
        "gmail.addons.current.action.compose",
        "gmail.addons.current.message.action",
        "gmail.addons.current.message.metadata",
        "gmail.addons.current.message.readonly",
    },
}
NARROW_FOR = {
    "files.get": {"drive.metadata", "drive.metadata.readonly"},
    "files.update": {"drive.metadata"},
    "users.messages.get": {"gmail.metadata"},
    "users.messages.list": {"gmail.metadata"},
    "users.threads.get": {"gmail.metadata"},
    "users.threads.list": {"gmail.metadata"},
}

# Parts that `part` refuses, because there is nothing in them here.
REFUSED_PARTS = {
    "ageGating", "brandPartner", "liveStreamingDetails", "monetizationDetails", "player",
    "projectDetails", "statistics", "suggestions", "topicDetails",
}


def read(folder, documents):
    own = tomllib.loads((APIS / folder / f"{folder}.toml").read_text(encoding="utf-8"))
    published = json.loads((documents / f"{PAIRS[folder]}.json").read_text(encoding="utf-8"))
    return own, published


def methods(node):
    for method in node.get("methods", {}).values():
        yield method["id"].split(".", 1)[1], method
    for inner in node.get("resources", {}).values():
        yield from methods(inner)


def scopes(folder, documents):
    """Each method has the published scopes, but those that would open more than they say."""
    own, published = read(folder, documents)
    by_id = dict(methods(published))
    for name, method in own["methods"].items():
        named = method.get("scopes", own.get("scopes", []))
        assert named, f"{name} names no scopes"
        if name not in by_id:
            continue
        narrow = NARROW.get(folder, set()) | NARROW_FOR.get(name, set())
        wide = (it for it in by_id[name]["scopes"] if it.removeprefix(AUTH) not in narrow)
        expected = set(wide)
        if folder != "dfareporting":
            assert set(named) == expected, f"{name}: {set(named) ^ expected}"
        else:
            assert set(named) <= expected, f"{name}: {set(named) - expected}"


def fields(folder, documents):
    """`fields` may name whatever the published reply has, whether this server sets it or not."""
    own, published = read(folder, documents)
    replies = (method.get("response") for method in own["methods"].values())
    seen, wanted = set(), {name for name in replies if name}
    while wanted - seen:
        name = (wanted - seen).pop()
        seen.add(name)
        described, reply = own["schemas"][name], published["schemas"].get(name, {})
        lacking = set(reply.get("properties", {})) - set(described)
        if name == "Video":
            lacking -= REFUSED_PARTS
        assert not lacking, f"{name} lacks {sorted(lacking)}"
        for value in described.values():
            kind = value["type"] if isinstance(value, dict) else value
            wanted |= {kind.rstrip("[]{}")} & set(own["schemas"])


def cases(report, documents):
    for folder in PAIRS:
        report.case(f"{folder} has the published scopes", lambda: scopes(folder, documents))
        report.case(f"{folder} has the published fields", lambda: fields(folder, documents))
