"""Walks the partner interface with the client that openapi-python-client generates."""

import base64
import http
import io
import json
import os
import re
import sys
import time
from datetime import UTC, datetime

sys.path.insert(0, os.environ["GENERATED"])


def unlisted(cls, value):
    """HTTPStatus knows no 552, and the generated client makes one of every status."""
    member = int.__new__(cls, value)
    member._name_, member._value_ = f"STATUS_{value}", value
    member.phrase = member.description = ""
    return member


http.HTTPStatus._missing_ = classmethod(unlisted)

from admin import AuthenticatedClient as AdminClient  # noqa: E402
from admin.api.mail import admin_mails, admin_show_mail  # noqa: E402
from partner import AuthenticatedClient, Client  # noqa: E402
from partner import models as m  # noqa: E402
from partner.api.catalogue import assets, livestreams  # noqa: E402
from partner.api.login import login, logout, reset, send_reset, send_reset_email, sign_up  # noqa: E402
from partner.api.pages import docs, openapi, reset_form, reset_page  # noqa: E402
from partner.api.playback import (  # noqa: E402
    end_playback, entitlement, fairplay_certificate, heartbeat, license_clearkey, license_fairplay, license_playready,
    license_signed, license_widevine, origin, preflight, preflight_v1,
)
from partner.api.schedule import (  # noqa: E402
    broadcast, broadcasts, livestream_day, livestream_live, m3u, m3u_manifest, schedule_day, schedule_live, xmltv,
)
from partner.api.telemetry import telemetry  # noqa: E402
from partner.api.user import (  # noqa: E402
    change_email, change_password, change_pin, clear_devices, delete_user, device, devices, end_session, end_sessions, export_user, offers,
    read_user, remove_device, reset_pin, session, sessions, update_user,
)
from partner.types import File  # noqa: E402

demo = json.load(open(os.environ["DEMO"]))
operations = {
    (method.upper(), path): re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
    for path, methods in json.load(open(os.environ["PARTNER"]))["paths"].items()
    for method in methods
    # What applications do not call: players report by CMCD themselves, browsers load the front page, the lab's and scripts,
    # and the routes below `/api/lab` answer lab partners only.
    if not re.match(r"/$|/client/|(/api)?/lab(/|$)|/api/tracker/v1/cmcd/", path)
}
not_called = set(operations)


def visit(request):
    # The most specific template: `broadcasts/live` also fits `broadcasts/{broadcastId}`.
    fits = [key for key, path in operations.items() if key[0] == request.method and path.fullmatch(request.url.path)]
    not_called.discard(min(fits, key=lambda key: key[1].count("{")))


hooks = {"event_hooks": {"request": [visit]}}
token_header = {"Service-AccessToken": demo["partnerToken"]}
anybody = Client(base_url=demo["baseUrl"], headers=token_header, httpx_args=hooks)
admin = AdminClient(base_url=demo["opsUrl"], token=demo["operatorToken"])


def got(response, status=200):
    assert response.status_code == status, f"{response.status_code} instead of {status}: {response.content!r}"
    return response.parsed


def refused(response, status, code):
    error = got(response, status)
    assert isinstance(error, m.ErrorResponse), f"{error!r} is no ErrorResponse"
    assert error.error.code == code, f"{error.error.code} instead of {code}"
    return error.error


PASSWORD, NEW_PASSWORD = "goats and a meadow", "troll under the bridge"
KEY_ID = base64.urlsafe_b64encode(bytes.fromhex("5ad1c0de000040008000000000000001")).decode().rstrip("=")
open_one, blackout = demo["livestreams"]["open"], demo["livestreams"]["blackout"]
identity = f"python-{time.time_ns()}@example.com"
today = datetime.now(UTC).date()

# The description itself, the schedule and the catalogue need no user.
got(openapi.sync_detailed(client=anybody))
got(docs.sync_detailed(client=anybody))
assert len(got(livestreams.sync_detailed(client=anybody, limit=2))) == 2
got(assets.sync_detailed(client=anybody))
live = got(schedule_live.sync_detailed(client=anybody, livestreams=[open_one, blackout]))
broadcast_id = live[open_one].current.id
got(schedule_day.sync_detailed(today, client=anybody, livestreams=[open_one]))
several = got(broadcasts.sync_detailed(client=anybody, broadcasts=[broadcast_id, demo["catchup"]]))
assert several[demo["catchup"]].stream_id == open_one
got(broadcast.sync_detailed(broadcast_id, client=anybody))
refused(broadcast.sync_detailed("none", client=anybody), 404, "BROADCAST_NOT_FOUND")
got(livestream_live.sync_detailed(open_one, client=anybody))
got(livestream_day.sync_detailed(open_one, today, client=anybody))
assert "<programme" in got(xmltv.sync_detailed(client=anybody))
assert got(m3u.sync_detailed(client=anybody)).startswith("#EXTM3U")
got(m3u_manifest.sync_detailed("news", m.M3UManifestManifest.INDEX_M3U8, client=anybody), 302)

# An account.
new = m.SignUp(identity=identity, access_key=PASSWORD, name="Ann", locale="sv")
got(sign_up.sync_detailed(client=anybody, body=new))
refused(sign_up.sync_detailed(client=anybody, body=new), 409, "EMAIL_IN_USE")
wrong = m.LogIn(identity=identity, access_key="wrong")
refused(login.sync_detailed(client=anybody, body=wrong), 401, "INVALID_CREDENTIALS")


def log_in(password):
    result = got(login.sync_detailed(client=anybody, body=m.LogIn(identity=identity, access_key=password)))
    client = AuthenticatedClient(base_url=demo["baseUrl"], token=result.token, headers=token_header, httpx_args=hooks)
    return result.user_id, client


user, me = log_in(PASSWORD)
got(read_user.sync_detailed(user, client=me))
for email in ["new-" + identity, identity]:
    got(change_email.sync_detailed(user, client=me, body=m.EmailChange(email=email, password=PASSWORD)))
got(change_pin.sync_detailed(user, client=me, body=m.PinChange(new_pin_code="2580", password=PASSWORD)))
for enabled in (True, False):
    control = m.ParentalControlChange(enabled=enabled, limit=15)
    changed = got(update_user.sync_detailed(user, client=me, body=m.UserChange(parental_control=control, pin_code="2580")))
    assert changed.parental_control.enabled is enabled
got(offers.sync_detailed(user, client=me))

# Playback: entitlement, preflight, license, heartbeat, 552.
refused(entitlement.sync_detailed(demo["vod"]["premium"], client=me), 403, "NOT_ENTITLED")
refused(entitlement.sync_detailed(blackout, client=me), 403, "NO_LIVE_RIGHTS")


def entitle(asset, **offset):
    return got(entitlement.sync_detailed(asset, client=me, **offset)).token


def on_device(name):
    return {
        "service_play_drm": m.Drm.CLEARKEY, "service_play_protocol": m.Protocol.DASH,
        "service_play_device_platform": "linux", "service_play_device_type": "tv",
        "service_play_device_model": "Model 5", "service_play_device_id": name,
    }


def prepare(asset, token, name, how=preflight):
    return how.sync_detailed(asset, client=me, service_play_entitlement_id=token, **on_device(name))


token = entitle(blackout, offset=demo["offsetOpen"])
playing = got(prepare(blackout, token, "tv-1")).headers["Service-Play-Session"]
of_session = {"client": me, "service_play_entitlement_id": token, "service_play_session": playing}
keys = got(license_clearkey.sync_detailed(**of_session, body=m.ClearKeyRequest(kids=[KEY_ID])))
assert keys.keys[0].kid == KEY_ID
for other in (license_widevine, license_playready, license_fairplay):
    refused(other.sync_detailed(**of_session, body=File(payload=io.BytesIO(b"challenge"))), 403, "DRM_MISMATCH")
challenge = File(payload=io.BytesIO(b"challenge"))
refused(license_signed.sync_detailed("none", client=me, body=challenge), 403, "ENTITLEMENT_INVALID")
refused(fairplay_certificate.sync_detailed(client=me), 404, "CERTIFICATE_NOT_CONFIGURED")


def beat(timestamp):
    return heartbeat.sync_detailed(
        **of_session, **on_device("tv-1"), service_play_timestamp=str(int(timestamp)), service_play_bitrate="3500000",
        service_play_resolution_width="1920", service_play_resolution_height="1080",
    )


assert got(beat(time.time() + demo["offsetOpen"])).interval == 10
refused(beat(time.time()), 552, "NO_LIVE_RIGHTS")
refused(origin.sync_detailed("none", "manifest.mpd", client=anybody), 403, "PLAYLIST_TOKEN_INVALID")
event = m.TelemetryEvent(timestamp=int(time.time()), action="playback_start", seq_id=1)
event.context = m.TelemetryContext(device_id="tv-1", asset_id=open_one, duration=800)
event.context["cdn"] = "a"
event.extra = m.TelemetryExtra(player_version="1.2")
event.extra["screen"] = "kitchen"
assert got(telemetry.sync_detailed(client=me, body=[event]), 202).accepted == 1

# Limits: 409 names the running sessions, and the viewer ends one; its player gets 410.
for number in range(2, 9):
    full = prepare(open_one, entitle(open_one), f"tv-{number}")
    if full.status_code != 200:
        break
details = refused(full, 409, "STREAM_LIMIT_REACHED").details
assert playing in [one.session_id for one in details.sessions]
got(session.sync_detailed(user, playing, client=me))
got(end_session.sync_detailed(user, playing, client=me), 204)
assert refused(beat(time.time()), 410, "SESSION_ENDED").details.reason == "revoked"
again = got(prepare(open_one, entitle(open_one), "tv-1", how=preflight_v1)).headers["Service-Play-Session"]
running = got(sessions.sync_detailed(user, client=me))
assert any(isinstance(one, m.PlaybackSessionItem) and one.asset_id == open_one for one in running)
got(end_playback.sync_detailed(client=me, service_play_session=again), 204)
got(devices.sync_detailed(user, client=me))
got(device.sync_detailed(user, "tv-1", client=me))
got(remove_device.sync_detailed(user, "tv-1", client=me), 204)
got(clear_devices.sync_detailed(user, client=me), 204)

# The account again, to its end.
got(export_user.sync_detailed(user, client=me))
got(reset_pin.sync_detailed(user, client=me))
body = m.PasswordChange(current_password=PASSWORD, new_password=NEW_PASSWORD)
got(change_password.sync_detailed(user, client=me, body=body))


def mailed():
    mails = got(admin_mails.sync_detailed(client=admin))
    mail = next(mail for mail in mails if mail.kind == "reset" and mail.to == identity)
    return re.search(r"pgr_[\w-]+", got(admin_show_mail.sync_detailed(mail.id, client=admin)).text)[0]


got(send_reset.sync_detailed(client=anybody, body=m.SendReset(email=identity)))
linked = mailed()
got(reset_page.sync_detailed(client=anybody, token=linked))
got(reset_form.sync_detailed(client=anybody, body=m.ResetForm(token=linked, password=PASSWORD, again=PASSWORD)))
got(send_reset_email.sync_detailed(client=anybody, body=m.SendReset(email=identity)))
got(reset.sync_detailed(client=anybody, body=m.Reset(token=mailed(), password=NEW_PASSWORD)))
_, me = log_in(NEW_PASSWORD)
got(logout.sync_detailed(client=me))
refused(read_user.sync_detailed(user, client=me), 401, "USER_TOKEN_INVALID")
_, me = log_in(NEW_PASSWORD)
got(end_sessions.sync_detailed(user, client=me), 204)
_, me = log_in(NEW_PASSWORD)
got(delete_user.sync_detailed(user, client=me, body=m.Erase(password=NEW_PASSWORD)), 204)

assert not not_called, f"not called: {sorted(not_called)}"
print(f"openapi-python-client: all {len(operations)} operations called")
