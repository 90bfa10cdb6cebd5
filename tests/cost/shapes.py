"""The worst requests that fit the limits of size, made from an ordinary one.

A shape is a name and a function of a request and a size. It puts about `size` bytes into the body or the head.
"""

import base64
import copy
import json
from dataclasses import replace

BODY = 63 * 1024
# A head may have 16 KiB; a field of it is less.
HEAD = 15 * 1024

TEXTS = {
    "letters": "a",
    "control characters": "\u0001",
    "invisible characters": "\u202e",
    "quotes": '"',
}


def of(request, port):
    """The shapes of a body and of a head, each with its larger size, for the server at this port."""
    if request.body is not None:
        for name, shape in (forms if request.is_form() else documents)(request):
            yield f"body: {name}", BODY, shape
    for name, shape in heads(request, port):
        yield f"head: {name}", HEAD, shape


def repeated(piece, size):
    return (piece * (size // len(piece) + 1))[:size]


def numbered(write, size):
    """`write(0)`, `write(1)` and so on, as many as fit."""
    pieces, length = [], 0
    while length < size:
        pieces.append(write(len(pieces)))
        length += len(pieces[-1])
    return pieces


def raw(text):
    return lambda request, size: request.with_body(text(size).encode())


# Forms

def forms(request):
    yield "many parameters", raw(lambda size: "".join(numbered(lambda number: f"p{number}=&", size)))
    yield "many parameters with values", raw(lambda size: "".join(numbered(lambda number: f"p{number}=x&", size)))
    yield "ampersands", raw(lambda size: "&" * size)
    yield "equals signs", raw(lambda size: "=" * size)
    yield "percent signs", raw(lambda size: "%" * size)
    yield "one value", raw(lambda size: "a=" + "b" * size)
    yield "one encoded value", raw(lambda size: "a=" + repeated("%C3%A4", size))
    yield "64 values", raw(lambda size: "&".join(f"p{number}={'+' * (size // 66)}" for number in range(63)))
    yield "JSON with many fields", lambda request, size: request.with_body(
        many_fields(size).encode(), "application/json"
    )
    yield "nested JSON", lambda request, size: request.with_body(b'{"a":' * (size // 5), "application/json")
    for index, (name, value) in enumerate(request.body):
        # The longest value of a parameter.
        for what, letter in [("letters", "a"), ("words", "a "), ("control characters", "\u0001"), ("ä", "ä")]:
            yield f"{name} of {what}", lambda request, size, index=index, letter=letter: with_field(
                request, index, repeated(letter, size // 8)
            )
        for what, write in [("words", "w{} "), ("items", "i{},"), ("paths", "/i{}")]:
            yield f"{name} of different {what}", lambda request, size, index=index, write=write, value=value: with_field(
                request, index, value + "".join(numbered(write.format, size // 9))
            )


def with_field(request, index, value):
    body = list(request.body)
    body[index] = (body[index][0], value)
    return request.with_body(body)


# JSON

def documents(request):
    yield "nested lists", raw(lambda size: "[" * size)
    yield "nested objects", raw(lambda size: '{"a":' * (size // 5))
    yield "many fields", raw(many_fields)
    yield "spaces", lambda request, size: request.with_body(b" " * size + json.dumps(request.body).encode())
    yield "a long number", raw(lambda size: '{"seats":' + "1" * size + "}")
    yield "escapes", raw(lambda size: '{"name":"' + "\\\\" * (size // 2) + '"}')
    for path in leaves(request.body):
        name = ".".join(map(str, path))
        yield f"{name} with nested lists", lambda request, size, path=path: with_raw(
            request, path, "[" * (size // 2) + "]" * (size // 2)
        )
        value = at(request.body, path)
        if isinstance(value, str):
            for what, letter in TEXTS.items():
                yield f"{name} of {what}", lambda request, size, path=path, letter=letter: with_raw(
                    request, path, f'"{repeated(json.dumps(letter)[1:-1], size // 6 * 6)}"'
                )
        elif isinstance(value, list):
            for what, item in [("texts", '"{}"'), ("numbers", "{}"), ("lists", "[{}]"), ("empty texts", '""')]:
                yield f"{name} with many {what}", lambda request, size, path=path, item=item: with_raw(
                    request, path, f"[{','.join(numbered(item.format, size * 3 // 4))}]"
                )
            if value:
                yield f"{name} repeated", lambda request, size, path=path, value=value: with_raw(
                    request, path, f"[{','.join(numbered(lambda _: json.dumps(value[0]), size * 9 // 10))}]"
                )
        elif isinstance(value, dict):
            yield f"{name} with many fields", lambda request, size, path=path: with_raw(
                request, path, many_fields(size * 9 // 10)
            )


def many_fields(size):
    return "{" + ",".join(numbered('"f{}":1'.format, size * 9 // 10)) + "}"


def leaves(value, path=()):
    """The paths of everything in a document."""
    if path:
        yield path
    # Of a list, the first item stands for all.
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from leaves(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def with_raw(request, path, text):
    """The document with this JSON text at `path`."""
    document, mark = copy.deepcopy(request.body), "the place of the text"
    at(document, path[:-1])[path[-1]] = mark
    return request.with_body(json.dumps(document).replace(json.dumps(mark), text).encode())


# Heads

def heads(request, port):
    def header(name, write):
        return lambda request, size: request.with_header(name, write(size))

    yield "many parameters in the query", lambda request, size: with_query(
        request, "&".join(numbered("p{}=x".format, size))
    )
    yield "empty parameters in the query", lambda request, size: with_query(request, "&" * size)
    yield "an encoded value in the query", lambda request, size: with_query(
        request, "cursor=" + repeated("%E2%80%AE", size)
    )
    yield "many items in the query", lambda request, size: with_query(request, "ids=" + "a," * (size // 2))
    last = request.path.split("?")[0].rsplit("/", 1)[0]
    if last.count("/") > 1 or last == "/demo":
        for what, letter in [("letters", "a"), ("encoded letters", "%C3%A4"), ("encoded slashes", "%2F")]:
            yield f"a path that ends with {what}", lambda request, size, letter=letter: replace(
                request, path=f"{last}/{repeated(letter, size // 6 * 6)}"
            )
    yield "many cookies", header("cookie", lambda size: "; ".join(numbered("c{}=x".format, size)))
    yield "many cookies of sessions", header("cookie", sessions(port))
    yield "semicolons", header("cookie", lambda size: ";" * size)
    yield "a long agent", header("user-agent", lambda size: repeated("Mozilla/5.0 (X11; ", size))
    yield "a token", header("authorization", lambda size: "Bearer " + "a" * size)
    yield "a token with many parts", header("authorization", lambda size: "Bearer " + "a." * (size // 2))
    yield "a signed token", header("authorization", forged)
    yield "an API key", header("authorization", lambda size: "Bearer sarsen_sk_" + "a_" * (size // 2))
    yield "Basic", header("authorization", lambda size: "Basic " + "YTph" * (size // 4))
    yield "many addresses", header("x-forwarded-for", lambda size: ",".join(numbered("127.0.0.{}".format, size)))
    yield "a request id", header("x-request-id", lambda size: "a" * size)
    yield "a version", header("sarsen-version", lambda size: "1" * size)
    yield "an origin", header("origin", lambda size: "https://" + "a" * size)
    yield "a host", header("host", lambda size: "a." * (size // 2))
    yield "a media type", header("content-type", lambda size: "application/json;" + "a=b;" * (size // 4))
    yield "languages", header("accept-language", lambda size: "en," * (size // 3))
    yield "preferences", header("prefer", lambda size: "wait=1," * (size // 7))
    yield "a key of idempotency", header("idempotency-key", lambda size: "a" * size)
    yield "many headers", lambda request, size: many_headers(request, size)


def with_query(request, query):
    return replace(request, path=f"{request.path.split('?')[0]}?{query}")


def sessions(port):
    cookie = f"sarsen_{port}_o{{}}=session_00000000000000000000000000.{'x' * 43}"
    return lambda size: "; ".join(numbered(cookie.format, size))


def forged(size):
    """Looks like a token of ours up to its signature."""

    def part(text):
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    head = part('{"alg":"EdDSA","typ":"at+jwt","kid":"x"}')
    return f"Bearer {head}.{part('[' * (size // 2))}.{'A' * 86}"


def many_headers(request, size):
    room = size // 80 - 8
    return replace(request, headers=request.headers + [(f"x-{number}", "a" * room) for number in range(80)])
