"""Serializes what Schemathesis makes up for a media type that it does not know."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """One JSON value a line; text and bytes go as they are."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", errors="ignore")
    values = value if isinstance(value, list) else [value]
    return "".join(json.dumps(each) + "\n" for each in values).encode()
