"""Verifies DKIM signatures with dkimpy. Reads {"dns": {name: TXT}, "messages": [base64]} on standard input and prints,
for each message, a list of its signatures: {"domain", "selector", "algorithm", "headers", "valid", "error"}."""
import base64
import json
import sys

import dkim
import dkim.util

question = json.load(sys.stdin)
table = {name.lower().rstrip("."): value.encode() for name, value in question["dns"].items()}


def answer(name, timeout=5):
    return table.get(name.decode("ascii").lower().rstrip("."))


def signatures(message):
    verifier = dkim.DKIM(message)
    values = [value for name, value in verifier.headers if name.lower() == b"dkim-signature"]
    for index, value in enumerate(values):
        tags = {key.decode(): text.decode() for key, text in dkim.util.parse_tag_value(value).items()}
        error = None
        try:
            valid = verifier.verify(index, answer)
        except Exception as exception:
            valid, error = False, repr(exception)
        yield {
            "domain": tags.get("d"),
            "selector": tags.get("s"),
            "algorithm": tags.get("a"),
            "headers": "".join(tags.get("h", "").split()).lower().split(":"),
            "valid": valid,
            "error": error,
        }


json.dump([list(signatures(base64.b64decode(text))) for text in question["messages"]], sys.stdout)
