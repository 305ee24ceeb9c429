"""An application that plays one title as the interface asks for, until SIGTERM. With MISTAKE it breaks one rule."""
import http.client
import json
import os
import signal
import sys
import time
from urllib.parse import urlsplit

BASE = urlsplit(os.environ["BASE_URL"])
PARTNER = os.environ["PARTNER_TOKEN"]
MISTAKE = os.environ.get("MISTAKE")
SCENARIO = os.environ.get("LAB_SCENARIO")
ASSET = os.environ.get("ASSET") or ("film-premium" if SCENARIO == "revoked" else "film-open")
# Seconds between heartbeats, where the clock of the server does not run at the pace of this one.
PACE = os.environ.get("PACE")
DEVICE = {
    "Service-Play-DRM": "clearkey",
    "Service-Play-Protocol": "dash",
    "Service-Play-DevicePlatform": "linux",
    "Service-Play-DeviceType": "tv",
    "Service-Play-DeviceModel": "Model 5",
    "Service-Play-DeviceId": "tv-1",
}
CHALLENGE = {"kids": ["WtHA3gAAQACAAAAAAAAAAQ"], "type": "temporary"}


class Stop(Exception):
    """The run is over."""


def stop(*_):
    raise Stop


class App:
    token = None
    playing = None

    def call(self, method, path, headers=(), body=None):
        """Status and JSON of an answer; status 0 if there is none."""
        all_headers = {"Service-AccessToken": PARTNER, **dict(headers)}
        if self.token:
            all_headers["Authorization"] = f"Bearer {self.token}"
        wire = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=20)
        try:
            wire.request(method, path, json.dumps(body) if body else None, all_headers)
            answer = wire.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] == b"{" else {}
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            wire.close()

    def log_in(self):
        self.token = None
        body = {"identity": "demo@example.com", "accessKey": "demo pass phrase"}
        status, answer = self.call("POST", "/api/login/v2/auth/email", body=body)
        assert status == 200, answer
        self.token = answer["token"]

    def entitle(self, headers=(), **body):
        status, answer = self.call("POST", f"/api/entitlement/v2/asset/{ASSET}", headers, body)
        return answer["token"] if status == 200 else None

    def license(self):
        for pause in (1, 2, 4):
            status, _ = self.call("POST", "/api/playback/v1/clearkey/license", self.playing, CHALLENGE)
            if status == 200:
                return True
            time.sleep(pause)
        return False

    def play(self):
        entitlement = self.entitle()
        if not entitlement:
            return
        headers = {**DEVICE, "Service-Play-EntitlementId": entitlement}
        status, answer = self.call("POST", f"/api/playback/v2/preflight/asset/{ASSET}", headers)
        assert status == 200, answer
        self.playing = {**headers, **answer["headers"]}
        if not self.license() or (MISTAKE == "two-licenses" and not self.license()):
            return
        while self.beat():
            time.sleep(float(PACE or answer["heartbeatInterval"]))
        self.playing = None

    def beat(self):
        """Sends a heartbeat and does what the answer asks for; whether playback goes on."""
        figures = {"Timestamp": "1", "Bitrate": "2500000", "ResolutionWidth": "1280", "ResolutionHeight": "720"}
        headers = {**self.playing, **{f"Service-Play-{name}": value for name, value in figures.items()}}
        status, answer = self.call("POST", "/api/playback/v1/heartbeat", headers)
        code = answer.get("error", {}).get("code")
        if status == 401:
            self.log_in()
        elif code == "PIN_CODE_REQUIRED":
            named = {"Service-Play-Session": self.playing["Service-Play-Session"]}
            self.playing["Service-Play-EntitlementId"] = self.entitle(named, pinCode="2580")
        return status not in (403, 404, 410) or code == "PIN_CODE_REQUIRED"


def main():
    app = App()
    signal.signal(signal.SIGTERM, stop)
    try:
        app.log_in()
        app.play()
        while True:
            signal.pause()
    except Stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if app.playing:
            app.call("DELETE", "/api/playback/v1/heartbeat", app.playing)


if __name__ == "__main__":
    sys.exit(main())
