"""Holds JSON against the schemas of a discovery document."""

import base64
import re
from datetime import datetime

RANGES = {
    "int32": (-2**31, 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-2**63, 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


class Mismatch(AssertionError):
    pass


def admit(document, schema, value, path="reply"):
    """The value must be one that the schema admits; fields that it does not know are refused."""
    def wrong(problem):
        raise Mismatch(f"{path}: {problem}: {value!r}")

    while "$ref" in schema:
        schema = document["schemas"][schema["$ref"]]
    kind = schema.get("type", "any")
    if kind == "object":
        if not isinstance(value, dict):
            wrong("no object")
        _admit_fields(document, schema, value, path, wrong)
    elif kind == "array":
        if not isinstance(value, list):
            wrong("no array")
        for at, element in enumerate(value):
            admit(document, schema["items"], element, f"{path}[{at}]")
    elif kind == "string":
        if not isinstance(value, str):
            wrong("no string")
        _admit_text(schema, value, wrong)
    elif kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            wrong("no integer")
        _in_range(schema, value, wrong)
    elif kind == "number" and (isinstance(value, bool) or not isinstance(value, (int, float))):
        wrong("no number")
    elif kind == "boolean" and not isinstance(value, bool):
        wrong("no boolean")


def _admit_fields(document, schema, value, path, wrong):
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name, field in value.items():
        expected = properties.get(name, others)
        if expected is None:
            wrong(f"no field {name} in the schema")
        admit(document, expected, field, f"{path}.{name}")
    for name, expected in properties.items():
        if name == "kind" and "default" in expected and value.get("kind") != expected["default"]:
            wrong(f"not of the kind {expected['default']}")


def _admit_text(schema, value, wrong):
    if "enum" in schema and value not in schema["enum"]:
        wrong("not in the enum")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        wrong(f"does not match {schema['pattern']}")
    text_format = schema.get("format")
    if text_format in ("int64", "uint64"):
        if not re.fullmatch("-?[0-9]+", value):
            wrong("no number")
        _in_range(schema, int(value), wrong)
    elif text_format in ("date-time", "google-datetime"):
        datetime.fromisoformat(value.replace("Z", "+00:00"))
    elif text_format == "byte":
        base64.urlsafe_b64decode(value.replace("+", "-").replace("/", "_") + "==")


def _in_range(schema, value, wrong):
    low, high = RANGES.get(schema.get("format"), (value, value))
    if not low <= value <= high:
        wrong(f"no {schema['format']}")
