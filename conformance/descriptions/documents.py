"""Every discovery document of Google's Python client library, as the windlass binary reads it, and
beside the built-in descriptions."""

import json
import pathlib
import re
import subprocess
import sys

import googleapiclient

import built_in
from report import Report

DOCUMENTS = pathlib.Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def windlass(binary, command, path, *flags):
    ran = subprocess.run([binary, "api", command, path, *flags], capture_output=True, text=True, check=False, timeout=60)
    assert "panicked" not in ran.stderr, ran.stderr
    return ran


def methods(node):
    yield from node.get("methods", {}).values()
    for inner in node.get("resources", {}).values():
        yield from methods(inner)


def without_empty(value):
    """What a document means: an absent list, object or flag is an empty or false one."""
    if isinstance(value, dict):
        inner = {name: without_empty(it) for name, it in value.items()}
        return {name: it for name, it in inner.items() if it not in ({}, [], False)}
    return [without_empty(it) for it in value] if isinstance(value, list) else value


def shown_size(written):
    if written is None:
        return "no limit"
    number, unit = re.fullmatch(r"(\d+)([A-Z]*)", str(written)).groups()
    size = int(number) * UNITS[unit]
    for name in ("TiB", "GiB", "MiB", "KiB"):
        scale = UNITS[name.replace("i", "")]
        if size >= scale:
            tenths = size * 10 // scale
            return f"{tenths // 10} {name}" if tenths >= 1000 or tenths % 10 == 0 else f"{tenths / 10:.1f} {name}"
    return f"{size} B"


def shown(method):
    """The words of a method in the table, whatever its lines and columns are."""
    upload = method["mediaUpload"]
    simple = upload["protocols"]["simple"]
    types = ["media"] + ["multipart"] * simple["multipart"]
    types.append("resumable" if "resumable" in upload["protocols"] else "resumable*")
    words = [method["id"], method["httpMethod"], shown_size(upload.get("maxSize")), ", ".join(types), simple["path"]]
    return " ".join([*words, ", ".join(upload.get("accept", ["*/*"]))])


def refuses(binary, path):
    ran = windlass(binary, "check", path)
    assert ran.returncode == 1 and ran.stdout == "error: resources: there are no methods\n", ran


def reads(binary, path, document):
    ran = windlass(binary, "check", path)
    assert ran.returncode == 0, ran.stdout
    assert all(line.startswith("warning: ") for line in ran.stdout.splitlines()), ran.stdout

    served = json.loads(windlass(binary, "show", path, "--json").stdout)
    assert served["rootUrl"] == "http://127.0.0.1:8080/", served["rootUrl"]
    for changed in ("rootUrl", "baseUrl", "mtlsRootUrl", "endpoints"):
        served.pop(changed, None)
        document.pop(changed, None)
    assert without_empty(served) == without_empty(document), "the document has changed"


def shows(binary, path, uploads):
    table = " ".join(windlass(binary, "show", path).stdout.split())
    for method in uploads:
        assert shown(method) in table, f"no `{shown(method)}` in {table}"
    assert f"{len(uploads)} of " in table, table


def main():
    binary, report, found = sys.argv[1], Report(), 0
    for path in sorted(DOCUMENTS.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if "rootUrl" not in document:
            continue  # The list of all documents.
        if not any(methods(document)):
            report.case(f"{path.stem} has no methods and is refused", lambda: refuses(binary, path))
            continue
        uploads = [method for method in methods(document) if "mediaUpload" in method]
        found += len(uploads)
        report.case(f"{path.stem} is read", lambda: reads(binary, path, document))
        if uploads:
            report.case(f"{path.stem} shows {len(uploads)} uploads", lambda: shows(binary, path, uploads))
    built_in.cases(report, DOCUMENTS)
    print(f"{found} upload methods")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
