"""Life cycle test of the package in a Debian chroot. `launcher.py` emulates systemd. It runs in its own namespaces, so that it
leaves no processes or mounts behind."""

import fcntl
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from launcher import Launcher

PUBLIC, OPS = ("127.0.0.1", 8080), ("127.0.0.1", 9080)
UNIT = "playgate.service"
CATALOG = """
[[livestream]]
id = "news"
encrypted = false
playlist = { dash = "https://cdn.example.org/news/manifest.mpd" }

[[offer]]
id = "free"
type = "default"
pack = "all"
"""
DEVICE = {
    "Service-Play-DRM": "none",
    "Service-Play-Protocol": "dash",
    "Service-Play-DevicePlatform": "linux",
    "Service-Play-DeviceType": "tv",
    "Service-Play-DeviceModel": "trial",
}
BEGAN = time.monotonic()


def step(text):
    print(f"{time.monotonic() - BEGAN:7.1f} s  {text}", flush=True)


class Debian:
    """The chroot that the package is installed in."""

    def __init__(self, root):
        self.root = Path(root)
        for kind, at in (("proc", "proc"), ("devtmpfs", "dev"), ("tmpfs", "run")):
            subprocess.run(["mount", "-t", kind, kind, self.root / at], check=True)

    def try_(self, *command, input=None):
        return subprocess.run(
            ["chroot", self.root, *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            input=input,
        )

    def run(self, *command, input=None):
        done = self.try_(*command, input=input)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def try_install(self, package):
        """Installs a package; changed configuration files are kept."""
        return self.try_("dpkg", "--force-confold", "-i", f"/tmp/{package}.deb")

    def install(self, package):
        """Installs a package and returns the installed version."""
        done = self.try_install(package)
        assert done.returncode == 0, f"{package}: {done.stdout}{done.stderr}"
        return self.run("dpkg-query", "-f", "${Version}", "-W", "playgate")

    def owner(self, path):
        return self.run("stat", "-c", "%U:%G %a", path).strip()

    def files(self):
        """All paths except the package manager's own files."""
        found = self.run("find", "/", "-xdev", "-path", "/var/lib/dpkg", "-prune", "-o", "-path", "/var/cache", "-prune", "-o", "-print")
        return set(found.splitlines())


def ask(method, path, headers={}, body=None, address=PUBLIC):
    """Sends a request on a new connection; returns status and content."""
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text


def good(method, path, headers={}, body=None, status=200, address=PUBLIC):
    got, content = ask(method, path, headers, body, address)
    assert got == status, f"{method} {path}: {got} {content}"
    return content


class Viewer:
    """A logged-in user with a playback session."""

    def __init__(self, partner, email):
        self.headers = {"Service-AccessToken": partner}
        login = good("POST", "/api/login/v2/auth/email", self.headers, {"identity": email, "accessKey": "a long pass phrase"})
        self.headers["Authorization"] = f"Bearer {login['token']}"

    def play(self, device):
        entitlement = good("POST", "/api/entitlement/v2/asset/news", self.headers)["token"]
        headers = self.headers | DEVICE | {"Service-Play-DeviceId": device, "Service-Play-EntitlementId": entitlement}
        told = good("POST", "/api/playback/v2/preflight/asset/news", headers)
        self.heartbeat_path = "/" + told["heartbeat"].split("/", 3)[3]
        self.playing = headers | {"Service-Play-Session": told["headers"]["Service-Play-Session"]}

    def heartbeat(self):
        now = {
            "Service-Play-Timestamp": str(int(time.time())),
            "Service-Play-Bitrate": "1200000",
            "Service-Play-ResolutionWidth": "640",
            "Service-Play-ResolutionHeight": "360",
        }
        return ask("POST", self.heartbeat_path, self.playing | now)


class Load:
    """Continuous requests during an operation; none of them may fail."""

    def __init__(self, viewers, headers):
        """The viewers' heartbeats and four clients that fetch the live schedule, each request on a new connection."""
        self.done, self.failed, self.slowest = 0, [], 0.0
        self.ended = threading.Event()
        jobs = [(viewer.heartbeat, 0.55) for viewer in viewers]
        live = "/api/schedule/v1/broadcasts/live?livestreams=news"
        jobs += [(lambda: ask("GET", live, headers), 0.01)] * 4
        self.threads = [threading.Thread(target=self.go_on, args=job) for job in jobs]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(2)
        return self

    def __exit__(self, kind, *_):
        time.sleep(2)
        self.ended.set()
        for thread in self.threads:
            thread.join()
        if kind is None:
            assert not self.failed, f"{len(self.failed)} of {self.done} failed: {self.failed[:5]}"
            assert self.done > 100, self.done

    def told(self):
        return f"{self.done} requests on separate connections, none failed, the slowest took {self.slowest:.2f} s"

    def go_on(self, job, pause):
        while not self.ended.wait(pause):
            began = time.monotonic()
            try:
                status, content = job()
                if status != 200:
                    self.failed.append(f"{status} {content}")
            except OSError as error:
                self.failed.append(repr(error))
            except http.client.HTTPException as error:
                self.failed.append(repr(error))
            self.done += 1
            self.slowest = max(self.slowest, time.monotonic() - began)


def guide():
    """An XMLTV guide of one day, in hours of which the current one has begun half an hour ago: none begins during the test."""
    hour = int(time.time()) - 1800
    when = lambda at: time.strftime("%Y%m%d%H%M%S +0000", time.gmtime(at))
    shows = "".join(
        f'<programme channel="news" start="{when(hour + n * 3600)}" stop="{when(hour + (n + 1) * 3600)}">'
        f"<title>News {n}</title></programme>"
        for n in range(-3, 21)
    )
    return f'<tv><channel id="news"><display-name>News</display-name></channel>{shows}</tv>'


def raise_loopback():
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running


def main_job(debian):
    """Normal use as in README.md: partner, catalogue, guide, user, schedule, playback."""
    partner = json.loads(debian.run("playgate", "partner", "add", "trial", "--json"))["accessToken"]
    for name, content in (("catalog.toml", CATALOG), ("guide.xml", guide())):
        (debian.root / "tmp" / name).write_text(content)
    debian.run("playgate", "catalog", "import", "/tmp/catalog.toml")
    debian.run("playgate", "epg", "import", "/tmp/guide.xml")
    headers = {"Service-AccessToken": partner}
    person = {"identity": "ann@example.org", "accessKey": "a long pass phrase", "name": "Ann"}
    good("PUT", "/api/login/v2/auth/email", headers, person)
    live = good("GET", "/api/schedule/v1/broadcasts/live?livestreams=news", headers)
    assert "News 0" in json.dumps(live), live
    viewers = [Viewer(partner, "ann@example.org") for _ in range(2)]
    for number, viewer in enumerate(viewers):
        viewer.play(f"tv-{number}")
        status, content = viewer.heartbeat()
        assert status == 200, content
    return headers, viewers


def main(root):
    raise_loopback()
    debian = Debian(root)
    before = debian.files()
    launcher = Launcher(root, UNIT)
    debian.run("rm", "-f", "/usr/sbin/policy-rc.d")

    # Install: the package's script starts the service.
    version = debian.install("before")
    assert launcher.running()
    step(f"{version} installed and started; status: {launcher.status()}")
    assert debian.owner("/etc/playgate") == "root:playgate 750", debian.owner("/etc/playgate")
    assert debian.owner("/etc/playgate/playgate.toml") == "root:playgate 640"
    assert debian.owner("/var/lib/playgate") == "playgate:playgate 750"
    debian.run("playgate", "config", "check")
    good("GET", "/readyz", address=OPS)

    headers, viewers = main_job(debian)
    step("normal use: partner, catalogue, guide, user, schedule, playback, heartbeat")

    # Socket activation from here on. The changed configuration must survive the upgrade.
    configuration = debian.root / "etc/playgate/playgate.toml"
    configuration.write_text(configuration.read_text() + 'listen = ["socket:http"]\n')
    launcher.stop()
    launcher.answer("enable", "playgate.socket")
    launcher.answer("start", "playgate.socket")
    took = launcher.start()
    step(f"restarted with an inherited socket in {took:.2f} s")

    with Load(viewers, headers) as load:
        launcher.reload()
    step(f"reloaded under load, with RELOADING=1, timestamp and READY=1: {load.told()}")

    with Load(viewers, headers) as load:
        version = debian.install("this")
    assert launcher.starts == 3, launcher.starts
    assert 'socket:http' in configuration.read_text()
    step(f"upgraded to {version} under load: {load.told()}")

    # A downgrade works, or is refused before the newer version is removed.
    with Load(viewers, headers) as load:
        back = debian.try_install("before")
    if back.returncode == 0:
        step(f"downgraded to the previous version under load: {load.told()}")
        debian.install("this")
    else:
        assert "the store has format" in back.stderr, back
        step("the previous version cannot read the store, and was refused")

    # The watchdog kills a hung process, and the service is restarted.
    starts, began = launcher.starts, time.monotonic()
    launcher.process.send_signal(signal.SIGSTOP)
    while launcher.starts == starts:
        assert time.monotonic() - began < 60, "the watchdog did not kill the hung process"
        time.sleep(0.1)
    launcher.wait_for(lambda at, news: news.get("READY") == "1" and at >= began, 60)
    good("GET", "/api/schedule/v1/broadcasts/live?livestreams=news", headers)
    assert launcher.watchdog_kills == 1, launcher.watchdog_kills
    took = time.monotonic() - began
    step(f"the watchdog killed a hung process; the service was back after {took:.1f} s")

    # A package that cannot read the store is refused before the installed version is removed.
    identity = debian.root / "var/lib/playgate/store/identity"
    kept = identity.read_text()
    identity.write_text(re.sub(r"format = \d+", "format = 99", kept))
    refused = debian.try_install("this")
    identity.write_text(kept)
    assert refused.returncode != 0 and "the store has format 99" in refused.stderr, refused
    assert launcher.running()
    step("a package that cannot read the store was refused")

    # Commands of root while the service is stopped leave no files that the next start cannot use.
    launcher.stop()
    debian.run("playgate", "partner", "list")
    debian.run("playgate", "catalog", "import", "/tmp/catalog.toml")
    launcher.start()
    step("commands of root while the service was stopped")

    # A removal keeps configuration and data; a new installation uses them.
    debian.run("dpkg", "-r", "playgate")
    assert not launcher.running(), "the removal did not stop the service"
    assert launcher.process.returncode == 0, launcher.process.returncode
    debian.install("this")
    good("GET", "/api/schedule/v1/broadcasts/live?livestreams=news", viewers[0].headers)
    step("removed and installed again, with all data")

    # A purge keeps the data unless the debconf question was answered with yes.
    debian.run("dpkg", "--purge", "playgate")
    assert identity.exists() and not configuration.exists()
    debian.install("this")
    debian.run("debconf-set-selections", input="playgate playgate/purge-data boolean true\n")
    debian.run("dpkg", "--purge", "playgate")
    assert not launcher.running()
    left = debian.files() - before
    # Files of this test, and the backups of the account files: the account stays.
    ours = {"/usr/bin/systemctl", "/var/log/playgate-trial.log", "/tmp/catalog.toml", "/tmp/guide.xml"}
    ours |= {"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-"}
    assert left <= ours, left - ours
    step("purged: no files left")


if __name__ == "__main__":
    folder = sys.argv[1]
    try:
        main(folder)
    except BaseException:
        log = Path(folder, "var/log/playgate-trial.log")
        print("".join(log.read_text().splitlines(True)[-30:]) if log.exists() else "no log")
        raise
