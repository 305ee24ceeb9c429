"""A table of HTTP/2 frames as no library of clients sends them, and what the server does about each.

One argument, JSON: the certificate to trust, the ports, headers of a good request. It prints a JSON object: for each
case what came of it, such as "200", "reset 1", "goaway 11" or "closed", and how many frames had been sent by then.
"""
import gzip
import json
import select
import socket
import ssl
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from hpack import Decoder, Encoder

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
# The 1,000 frames that a connection may send at once, and those that it may send in the next five seconds.
FLOOD = 1_500
GIVEN = json.loads(sys.argv[1])
CASES = {}


def case(table):
    def add(function):
        CASES[function.__name__] = (table, function)
        return function
    return add


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def block(fields):
    """Names as they are given: the encoder of a library would correct them."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields, huffman=False)


def streams(count):
    """The ids of the first streams of a client."""
    return range(1, 2 * count, 2)


def request(method="GET", path="/", **more):
    fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost")]
    return fields + [(name.replace("_", "-"), value) for name, value in more.items()]


class Client:
    def __init__(self, table, settings=()):
        context = ssl.create_default_context(cafile=GIVEN["ca"])
        context.set_alpn_protocols(["h2"])
        self.plain = socket.create_connection(("127.0.0.1", GIVEN[table]))
        self.socket = context.wrap_socket(self.plain, server_hostname="127.0.0.1")
        assert self.socket.selected_alpn_protocol() == "h2"
        self.streams, self.bodies, self.fields = {}, {}, {}
        self.goaway, self.closed, self.sent, self.pongs = None, None, 0, 0
        self.decoder, self.began = Decoder(), time.monotonic()
        self.changed = threading.Condition()
        # Python's TLS does not read and write at once.
        self.lock = threading.Lock()
        self.socket.setblocking(False)
        threading.Thread(target=self.listen, daemon=True).start()
        # Room for large answers, unless a case wants to read slowly.
        room = b"" if settings else frame(WINDOW, 0, 0, struct.pack(">I", 1 << 24))
        settings = settings or [(4, 1 << 24)]
        body = b"".join(struct.pack(">HI", *pair) for pair in settings)
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, body) + room)

    def move(self, action):
        """Does it as soon as it can be done; nothing at the end of the connection."""
        while self.closed is None:
            try:
                try:
                    with self.lock:
                        return action()
                except ssl.SSLWantReadError:
                    select.select([self.socket], [], [], 0.1)
                except ssl.SSLWantWriteError:
                    select.select([], [self.socket], [], 0.1)
            except (OSError, ValueError):
                break
        return None

    def send(self, *frames):
        for one in frames:
            while one:
                count = self.move(lambda: self.socket.send(one))
                if not count:
                    return self
                one = one[count:]
            self.sent += 1
        return self

    def ask(self, stream, fields, end=True):
        fields = block(fields)
        first, rest = fields[:16_384], fields[16_384:]
        self.send(frame(HEADERS, end | (0 if rest else END_HEADERS), stream, first))
        return self.send(frame(CONTINUATION, END_HEADERS, stream, rest)) if rest else self

    def listen(self):
        unread = b""
        while piece := self.move(lambda: self.socket.recv(65536)):
            unread += piece
            while len(unread) >= 9:
                length = int.from_bytes(unread[:3], "big")
                if len(unread) < 9 + length:
                    break
                kind, flags, stream = struct.unpack(">BBI", unread[3:9])
                payload, unread = unread[9:9 + length], unread[9 + length:]
                with self.changed:
                    self.frame(kind, flags, stream, payload)
                    self.changed.notify_all()
        with self.changed:
            self.closed = time.monotonic() - self.began
            self.changed.notify_all()

    def frame(self, kind, flags, stream, payload):
        if kind == HEADERS:
            self.fields[stream] = dict(self.decoder.decode(payload))
        elif kind == DATA:
            self.bodies[stream] = self.bodies.get(stream, b"") + payload
        elif kind == RST:
            self.streams.setdefault(stream, f"reset {int.from_bytes(payload, 'big')}")
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind == PING and flags & 1:
            self.pongs += 1
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.streams.setdefault(stream, self.fields[stream][":status"])

    def wait(self, until, seconds=20):
        with self.changed:
            self.changed.wait_for(lambda: until() or self.closed is not None, seconds)

    def end(self, stream=1, seconds=20):
        """What came of a stream; of the connection if nothing did."""
        self.wait(lambda: stream in self.streams or self.goaway, seconds)
        if stream in self.streams:
            return self.streams[stream]
        return self.over(1)

    def over(self, seconds=20):
        """How the connection ends."""
        self.wait(lambda: False, seconds)
        if self.goaway:
            return f"goaway {self.goaway}"
        return "open" if self.closed is None else "closed"

    def flood(self, frames):
        """How the connection ends after these frames, which are sent at once.

        Their number is fixed: how many a client can send before it sees the end depends on the machine.
        """
        self.send(b"".join(frames))
        self.sent += len(frames) - 1
        return self.over()


# Requests that are right.

@case("public")
def answered(client):
    return client.ask(1, request(**GIVEN["good"])).end()


@case("public")
def many_at_once(client):
    for stream in streams(100):
        client.ask(stream, request(**GIVEN["good"]))
    return " ".join(sorted({client.end(stream) for stream in streams(100)}))


@case("public")
def many_after_each_other(client):
    """More than floods may have: every request brings its frames by right."""
    ends = set()
    for stream in streams(1_500):
        client.ask(stream, request(**GIVEN["good"]))
        client.send(frame(WINDOW, 0, 0, struct.pack(">I", 1)))
        ends.add(client.end(stream))
    return " ".join(sorted(ends))


@case("public")
def with_body(client):
    fields = request("PUT", "/api/login/v2/auth/email", **GIVEN["partner"])
    body = json.dumps({"identity": "two@example.com", "accessKey": GIVEN["password"]}).encode()
    client.ask(1, fields + [("content-length", str(len(body)))], end=False)
    half = len(body) // 2
    client.send(frame(DATA, 0, 1, body[:half]), frame(DATA, END_STREAM, 1, body[half:]))
    end = client.end()
    return f"{end} {'token' in json.loads(client.bodies[1])}"


@case("public")
def too_large_a_body(client):
    fields = request("PUT", "/api/login/v2/auth/email", **GIVEN["partner"])
    client.ask(1, fields, end=False)
    for _ in range(3):
        client.send(frame(DATA, 0, 1, b" " * 8_000))
    first = client.end()
    # The connection lives on.
    return f"{first} {client.ask(3, request(**GIVEN['good'])).end(3)}"


@case("public")
def packed_body(client):
    fields = request("POST", "/api/tracker/v1/telemetry-events", **GIVEN["viewer"], content_encoding="gzip")
    client.ask(1, fields, end=False)
    client.send(frame(DATA, END_STREAM, 1, gzip.compress(json.dumps(GIVEN["events"]).encode())))
    return f"{client.end()} {json.loads(client.bodies[1])['accepted']}"


@case("public")
def part_of_a_file(client):
    end = client.ask(1, request(path=GIVEN["file"], range="bytes=0-9")).end()
    return f"{end} {client.fields[1].get('content-range', '').split('/')[0]} {len(client.bodies[1])}"


@case("public")
def no_live_rights(client):
    return client.ask(1, request(**GIVEN["dark"])).end()


@case("ops")
def large_answer(client):
    end = client.ask(1, request(path="/metrics")).end()
    fields = client.fields[1]
    whole = len(client.bodies[1]) == int(fields["content-length"]) > 20_000
    return f"{end} {whole} {'x-request-id' in fields} {'connection' in fields}"


# Whom it is for.

@case("public")
def host_alone(client):
    return client.ask(1, request(**GIVEN["good"])[:3] + [("host", "t")] + request(**GIVEN["good"])[4:]).end()


@case("public")
def host_and_authority(client):
    return client.ask(1, request(**GIVEN["good"], host="localhost")).end()


@case("public")
def host_differs(client):
    return client.ask(1, request(**GIVEN["good"], host="u")).end()


@case("public")
def two_hosts(client):
    return client.ask(1, request(**GIVEN["good"], host="t") + [("host", "t")]).end()


@case("public")
def no_host(client):
    return client.ask(1, request()[:3]).end()


@case("public")
def user_in_authority(client):
    return client.ask(1, request()[:3] + [(":authority", "u@t")]).end()


@case("public")
def same_host_in_other_letters(client):
    return client.ask(1, request(**GIVEN["good"], host="LocalHost:443")).end()


@case("public")
def host_with_another_port(client):
    return client.ask(1, request(**GIVEN["good"], host="localhost:8443")).end()


@case("ops")
def foreign_authority(client):
    return client.ask(1, request(path="/livez")[:3] + [(":authority", "evil.example")]).end()


@case("ops")
def foreign_host(client):
    return client.ask(1, request(path="/livez")[:3] + [("host", "evil.example")]).end()


@case("ops")
def our_authority_and_a_foreign_host(client):
    return client.ask(1, request(path="/livez", host="evil.example")).end()


@case("ops")
def foreign_authority_and_our_host(client):
    return client.ask(1, request(path="/livez")[:3] + [(":authority", "evil.example"), ("host", "localhost")]).end()


def authority(value):
    """What comes of it, and of a good request on the same connection."""
    def run(client):
        first = client.ask(1, request(**GIVEN["good"])[:3] + [(":authority", value)] + request(**GIVEN["good"])[4:]).end()
        after = client.ask(3, request(**GIVEN["good"])).end(3)
        return f"{first} {after}"
    return run


for name, value in {
    "no_authority_in_its_field": "",
    "space_in_authority": "a b",
    "two_authorities": "a,b",
    "path_in_authority": "a/b",
    "address_in_authority": "https://a",
    "percent_in_authority": "a%41",
    "open_bracket_in_authority": "[::1",
    "no_address_in_brackets": "[x]",
    "odd_port_in_authority": "a:b",
    "port_beyond_all": "a:99999",
    "not_ascii_in_authority": "\u00e4",
    "address_as_authority": "[::1]:443",
}.items():
    CASES[name] = ("public", authority(value))


@case("public")
def authority_twice(client):
    first = client.ask(1, request(**GIVEN["good"])[:4] + [(":authority", "u")] + request(**GIVEN["good"])[4:]).end()
    return f"{first} {client.ask(3, request(**GIVEN['good'])).end(3)}"


@case("public")
def odd_expectation(client):
    return client.ask(1, request(expect="tea")).end()


@case("public")
def odd_method(client):
    return client.ask(1, request("FOO")).end()


@case("public")
def connect(client):
    return client.ask(1, [(":method", "CONNECT"), (":authority", "t:1")]).end()


@case("public")
def long_target(client):
    return client.ask(1, request(path="/" + "a" * 8_192)).end()


@case("public")
def raw_characters_in_the_path(client):
    return client.ask(1, request(path="/a b")).end()


@case("public")
def dots_in_the_path(client):
    return client.ask(1, request(path="/api/%2e%2e/x")).end()


# Headers that are none.

BAD_FIELDS = {
    "uppercase": request() + [("X-Odd", "1")],
    "connection_header": request() + [("connection", "close")],
    "transfer_encoding": request() + [("transfer-encoding", "chunked")],
    "te": request() + [("te", "gzip")],
    "line_end_in_a_value": request() + [("x", "a\r\nb: c")],
    "nul_in_a_value": request() + [("x", "a\0b")],
    "no_path": request()[:2] + request()[3:],
    "empty_path": request(path=""),
    "no_method": request()[1:],
    "no_scheme": request()[:1] + request()[2:],
    "path_twice": request() + [(":path", "/")],
    "pseudo_header_after_others": request()[:3] + [("x", "1"), (":authority", "t")],
    "pseudo_header_of_answers": request() + [(":status", "200")],
    "unknown_pseudo_header": request() + [(":odd", "1")],
}


def bad_fields(fields):
    def run(client):
        first = client.ask(1, fields).end()
        after = client.ask(3, request(**GIVEN["good"])).end(3)
        return first if first.startswith("goaway") else f"{first} {after}"
    return run


for name, fields in BAD_FIELDS.items():
    CASES[name] = ("public", bad_fields(fields))


@case("public")
def body_longer_than_it_says(client):
    fields = request("PUT", "/api/login/v2/auth/email", **GIVEN["partner"], content_length="3")
    return client.ask(1, fields, end=False).send(frame(DATA, END_STREAM, 1, b"{}   ")).end()


@case("public")
def body_shorter_than_it_says(client):
    fields = request("PUT", "/api/login/v2/auth/email", **GIVEN["partner"], content_length="9")
    return client.ask(1, fields, end=False).send(frame(DATA, END_STREAM, 1, b"{}")).end()


@case("public")
def sixty_five_headers(client):
    return client.ask(1, request() + [(f"x-{n}", "1") for n in range(65)]).end()


@case("public")
def twenty_kilobytes_of_headers(client):
    return client.ask(1, request(**GIVEN["good"]) + [("x", "a" * 5_000)] * 4, end=True).end()


@case("public")
def a_megabyte_of_headers(client):
    """By reference: a few kilobytes that unpack to a megabyte."""
    encoder = Encoder()
    fields = encoder.encode(request(), huffman=False) + encoder.encode([("x", "a" * 4_000)], huffman=False)
    return client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, fields + b"\xbe" * 260)).end()


# Floods.

@case("public")
def continuations(client):
    client.send(frame(HEADERS, 0, 1, block(request())))
    return client.flood([frame(CONTINUATION, 0, 1, block([("x", "a" * 4_000)]))] * 13)


@case("public")
def empty_continuations(client):
    client.send(frame(HEADERS, 0, 1, block(request())))
    return client.flood([frame(CONTINUATION, 0, 1)] * 6)


@case("public")
def rapid_resets(client):
    fields = block(request(**GIVEN["good"]))
    return client.flood([
        frame(HEADERS, END_HEADERS | END_STREAM, stream, fields) + frame(RST, 0, stream, b"\0\0\0\x08")
        for stream in streams(600)
    ])


@case("public")
def resets_by_our_mistakes(client):
    """Window updates that overflow: the server ends each stream itself."""
    fields = block(request("PUT", "/api/login/v2/auth/email", **GIVEN["partner"]))
    return client.flood([
        frame(HEADERS, END_HEADERS, stream, fields) + frame(WINDOW, 0, stream, b"\x7f\xff\xff\xff")
        for stream in streams(600)
    ])


@case("public")
def settings(client):
    return client.flood([frame(SETTINGS, 0, 0)] * FLOOD)


@case("public")
def pings(client):
    return client.flood([frame(PING, 0, 0, b"12345678")] * FLOOD)


@case("public")
def some_pings(client):
    for _ in range(100):
        client.send(frame(PING, 0, 0, b"12345678"))
    client.wait(lambda: client.pongs == 100)
    return f"{client.pongs} {client.ask(1, request(**GIVEN['good'])).end()}"


@case("public")
def priorities(client):
    return client.flood([frame(PRIORITY, 0, 1, b"\0\0\0\x03\x10")] * FLOOD)


@case("public")
def window_updates(client):
    return client.flood([frame(WINDOW, 0, 0, b"\0\0\0\x01")] * FLOOD)


@case("public")
def empty_data(client):
    client.ask(1, request("PUT", "/api/login/v2/auth/email", **GIVEN["partner"]), end=False)
    return client.flood([frame(DATA, 0, 1)] * FLOOD)


@case("public")
def unknown_frames(client):
    return client.flood([frame(99, 0, 0, b"x")] * FLOOD)


# Time.

@case("public")
def silent(client):
    return f"{client.over(15)} {9 < client.closed < 14}"


@case("public")
def half_a_block(client):
    client.ask(1, request(**GIVEN["good"])).end()
    began = time.monotonic() - client.began
    client.send(frame(HEADERS, 0, 3, block(request())))
    return f"{client.over(15)} {9 < client.closed - began < 14}"


def slow(settings):
    def run(table):
        client = Client(table, settings)
        for stream in streams(50):
            client.ask(stream, request(path="/metrics"))
        # It seems alive.
        while client.closed is None and time.monotonic() - client.began < 60:
            client.send(frame(PING, 0, 0, b"12345678"))
            time.sleep(1)
        return f"{client.over(1)} {29 < (client.closed or 0) < 50}"
    return run


SLOW = {"a_window_of_nothing": [(4, 0)], "a_window_of_one": [(4, 1)]}


def run(name):
    if name in SLOW:
        return name, slow(SLOW[name])("ops"), 0
    table, function = CASES[name]
    client = Client(table)
    return name, function(client), client.sent


with ThreadPoolExecutor(8) as pool:
    names = list(SLOW) + ["silent", "half_a_block"] + [n for n in CASES if n not in ("silent", "half_a_block")]
    results = {name: [got, sent] for name, got, sent in pool.map(run, names)}
print(json.dumps(results))
