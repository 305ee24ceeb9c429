"""A mail server for tests: aiosmtpd, with a plan of what it does with each mail.

It takes one JSON object as its argument: port, tls ("starttls", "tls" or "none"), cert, key, user, password, plan.
What it has seen it writes to standard output, one JSON object a line. It ends with its standard input.
"""

import asyncio
import base64
import email
import email.policy
import json
import ssl
import sys
from urllib.parse import parse_qs

from aiosmtpd.smtp import SMTP, AuthResult

given = json.loads(sys.argv[1])
plan = list(given.get("plan", []))
# What every recipient gets, until a line arrives on standard input.
refusal = [given["refusal"]] if "refusal" in given else []
# The access tokens that are valid for the login.
tokens = set()
# The only refresh token that is good, if the endpoint takes one: each use replaces it.
refresh = [given["refresh"]] if "refresh" in given else []


def tell(**seen):
    print(json.dumps(seen), flush=True)


def link(content):
    message = email.message_from_bytes(content, policy=email.policy.default)
    text = message.get_body(("plain",)).get_content()
    return next(word for word in text.split() if "token=" in word)


class Handler:
    step = "take"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if given.get("full names") and "." not in session.host_name:
            tell(bare=session.host_name)
            return "504 5.5.2 <" + session.host_name + ">: Helo command rejected: need fully-qualified hostname"
        if refusal:
            tell(refused=address)
            return refusal[0].replace("ADDRESS", address)
        self.step = plan.pop(0) if plan else "take"
        if self.step[0] in "45":
            tell(refused=address)
            return self.step
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.step == "stall":
            tell(stalled=envelope.rcpt_tos[0])
            await asyncio.sleep(3600)
        if self.step == "drip":
            tell(dripped=envelope.rcpt_tos[0])
            server.transport.write(b"250-")
            while not server.transport.is_closing():
                server.transport.write(b"x")
                await asyncio.sleep(0.1)
            return "250 too late"
        if self.step == "drop":
            tell(dropped=envelope.rcpt_tos[0])
            server.transport.abort()
            return "451 gone"
        if self.step == "reject":
            return "554 5.7.1 I do not like " + link(envelope.content)
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        tell(
            mail=message["Message-ID"],
            sender=envelope.mail_from,
            to=message["To"],
            recipients=envelope.rcpt_tos,
            subject=message["Subject"],
            text=message.get_body(("plain",)).get_content(),
            html=message.get_body(("html",)).get_content(),
            encrypted=session.ssl is not None or given["tls"] == "tls",
            user=session.auth_data,
        )
        if self.step == "take and drop":
            server.transport.abort()
        return "250 2.0.0 taken"


async def auth_xoauth2(server, args):
    login = base64.b64decode(args[1]).decode()
    user, token = (part.split("=", 1)[1] for part in login.split("\1")[:2])
    right = user == given["user"] and token.removeprefix("Bearer ") in tokens
    tell(login=user, right=right)
    if not right:
        # The reason is a challenge; the client answers with an empty line.
        await server.challenge_auth('{"status":"401","schemes":"Bearer"}')
    return AuthResult(success=right, handled=False, auth_data=user if right else None)


async def issue_token(reader, writer):
    """The token endpoint: each token ends the one before."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.lower().split("\r\n") if line.startswith("content-length"))
    form = (await reader.readexactly(length)).decode()
    tell(form=form)
    good = "client_secret=" + given["secret"] in form
    if refresh:
        good = parse_qs(form).get("refresh_token") == refresh
    if good:
        issued = "access token %d" % len(forms)
        forms.append(form)
        if not refresh:
            tokens.clear()
        tokens.add(issued)
        status, body = "200 OK", {"access_token": issued, "expires_in": "3599", "token_type": "Bearer"}
        if refresh:
            # Every login needs a new access token, so that every login uses a refresh token.
            refresh[0] = "%s/%d" % (given["refresh"], len(forms))
            body |= {"refresh_token": refresh[0], "expires_in": 0}
    elif refresh:
        status, body = "400 Bad Request", {"error": "invalid_grant", "error_description": "the token was used"}
    else:
        status, body = "401 Unauthorized", {"error": "invalid_client", "error_description": "AADSTS7000215"}
    body = json.dumps(body).encode()
    writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body))
    await writer.drain()
    writer.close()


forms = []


def serve_input():
    for line in sys.stdin:
        refusal.clear()
        if line.strip() == "revoke":
            tokens.clear()


def authenticate(server, session, envelope, mechanism, data):
    right = (data.login.decode(), data.password.decode()) == (given["user"], given["password"])
    tell(login=data.login.decode(), right=right)
    return AuthResult(success=right, handled=False, auth_data=given["user"] if right else None)


async def main():
    context = None
    if given["tls"] != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(given["cert"], given["key"])
    handler = Handler()
    if "token_port" in given:
        handler.auth_XOAUTH2 = auth_xoauth2
        await asyncio.start_server(issue_token, "127.0.0.1", given["token_port"])
    login = given.get("user") is not None

    def session():
        return SMTP(
            handler,
            hostname="mail.test",
            tls_context=context if given["tls"] == "starttls" else None,
            require_starttls=given["tls"] == "starttls",
            auth_required=login,
            auth_require_tls=given["tls"] == "starttls",
            authenticator=authenticate if login else None,
            auth_exclude_mechanism=given.get("without", []),
        )

    loop = asyncio.get_running_loop()
    wrapped = context if given["tls"] == "tls" else None
    listening = await loop.create_server(session, "127.0.0.1", given["port"], ssl=wrapped)
    tell(port=listening.sockets[0].getsockname()[1])
    await loop.run_in_executor(None, serve_input)


asyncio.run(main())
