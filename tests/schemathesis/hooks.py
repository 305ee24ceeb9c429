"""Serializers for NDJSON and CMCD, which Schemathesis does not support."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """One JSON value per line; strings and bytes are sent unchanged."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", errors="ignore")
    values = value if isinstance(value, list) else [value]
    return "".join(json.dumps(each) + "\n" for each in values).encode()


@schemathesis.serializer("application/cmcd")
def reports(context, value):
    """Text, as it is described."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", errors="ignore")
