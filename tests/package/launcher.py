"""Emulates systemd for one service in a chroot: reads the installed unit, holds its sockets, starts the service as its user
with notify socket and watchdog, restarts it when it fails, and answers the `systemctl` calls of the package's scripts."""

import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# The `systemctl` of the chroot. Calls are serialized and answered by `Launcher.answer`.
SYSTEMCTL = """#!/bin/sh
exec 9>/run/systemd/lock
flock 9
echo "$*" >/run/systemd/question
read -r code text </run/systemd/answer
[ -z "$text" ] || echo "$text"
exit "$code"
"""


def seconds(text):
    """Parses the time spans that our unit uses."""
    units = {"ms": 0.001, "min": 60, "s": 1, "": 1}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    return float(number) * units[text[len(number) :]]


class Unit:
    """The settings of a unit and its drop-ins. Of the sandbox, what it shows of /proc is emulated."""

    def __init__(self, root, name):
        parts = [root / "usr/lib/systemd/system" / name]
        parts += sorted((root / "etc/systemd/system" / f"{name}.d").glob("*.conf"))
        self.lines = []
        for part in parts:
            for line in part.read_text().splitlines():
                key, equals, value = line.partition("=")
                if equals and not line.startswith(("#", ";")):
                    self.lines.append((key.strip(), value.strip()))

    def every(self, key):
        return [value for name, value in self.lines if name == key]

    def get(self, key, default=None):
        return (self.every(key) or [default])[-1]


def proc_options(unit):
    """The options with which systemd mounts /proc for the service."""
    options = [f"hidepid={unit.get('ProtectProc', 'default')}"] * ("ProtectProc" in dict(unit.lines))
    return ",".join(options + [f"subset={value}" for value in unit.every("ProcSubset") if value != "all"])


class Launcher:
    def __init__(self, root, name):
        self.root, self.name = Path(root), name
        self.told = []  # every sd_notify message: (time, {name: value})
        self.news = threading.Condition()
        self.process = None
        self.wanted = False
        self.starts = self.watchdog_kills = 0
        self.sockets = {}
        self.log = open(self.root / "var/log/playgate-trial.log", "ab")
        self.lock = threading.RLock()
        run = self.root / "run/systemd"
        (run / "system").mkdir(parents=True)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(run / "notify"))
        os.chmod(run / "notify", 0o777)
        for fifo in ("question", "answer"):
            os.mkfifo(run / fifo)
        systemctl = self.root / "usr/bin/systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        for job in (self.listen, self.answer_all, self.watch):
            threading.Thread(target=job, daemon=True).start()

    # Emulation of the service manager.

    def hold(self, name):
        """Starts a socket unit; its socket outlives the service."""
        unit = Unit(self.root, name)
        host, _, port = unit.get("ListenStream").rpartition(":")
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, int(port)))
        held.listen(int(unit.get("Backlog")))
        self.sockets[name] = (unit.get("FileDescriptorName"), held)

    def start(self):
        """Starts the service and waits for READY=1, as `systemctl start` does. Returns the seconds that it took."""
        with self.lock:
            unit = Unit(self.root, self.name)
            began = time.monotonic()
            self.spawn(unit)
            limit = seconds(unit.get("TimeoutStartSec"))
            self.wait_for(lambda at, news: news.get("READY") == "1" and at >= began, limit, began)
            return time.monotonic() - began

    def spawn(self, unit):
        user = next(line for line in (self.root / "etc/passwd").read_text().splitlines() if line.startswith(unit.get("User") + ":"))
        uid, gid = map(int, user.split(":")[2:4])
        for key, base in (("StateDirectory", "var/lib"), ("RuntimeDirectory", "run")):
            for name in unit.every(key):
                path = self.root / base / name
                path.mkdir(exist_ok=True)
                os.chown(path, uid, gid)
                path.chmod(int(unit.get(key + "Mode", "0755"), 8))
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": "/run/systemd/notify"}
        environment |= dict(pair.split("=", 1) for line in unit.every("Environment") for pair in shlex.split(line))
        self.limit = seconds(unit.get("WatchdogSec"))
        environment["WATCHDOG_USEC"] = str(int(self.limit * 1e6))
        descriptors = [held.fileno() for _, held in self.sockets.values()]
        if descriptors:
            names = [name for name, _ in self.sockets.values()]
            environment |= {"LISTEN_FDS": str(len(descriptors)), "LISTEN_FDNAMES": ":".join(names)}
        proc = proc_options(unit)
        self.process = subprocess.Popen(
            # In a mount namespace of its own, as systemd does it.
            (["unshare", "--mount"] if proc else [])
            + [
                sys.executable,
                __file__,
                str(self.root),
                f"{uid}:{gid}:{unit.get('UMask', '0022')}",
                ",".join(map(str, descriptors)),
                proc,
            ]
            + shlex.split(unit.get("ExecStart")),
            env=environment,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.fed = time.monotonic()
        self.wanted = True
        self.starts += 1

    def stop(self):
        with self.lock:
            self.wanted = False
            if not self.process or self.process.poll() is not None:
                return 0
            began = time.monotonic()
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(seconds(Unit(self.root, self.name).get("TimeoutStopSec")))
            for name in Unit(self.root, self.name).every("RuntimeDirectory"):
                subprocess.run(["rm", "-rf", self.root / "run" / name], check=True)
            return time.monotonic() - began

    def reload(self):
        """Reloads as Type=notify-reload does: SIGHUP, then RELOADING=1 with a later timestamp, then READY=1."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGHUP)
        at = self.wait_for(
            lambda at, news: news.get("RELOADING") == "1" and int(news.get("MONOTONIC_USEC", 0)) >= began * 1e6, 20
        )
        self.wait_for(lambda then, news: news.get("READY") == "1" and then >= at, 20)

    def running(self):
        return self.wanted and self.process is not None and self.process.poll() is None

    # Messages of the service.

    def listen(self):
        while True:
            text = self.notify.recv(65536).decode()
            now = time.monotonic()
            news = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            with self.news:
                if news.get("WATCHDOG") == "1" or "READY" in news:
                    self.fed = now
                if "WATCHDOG_USEC" in news:
                    self.limit = int(news["WATCHDOG_USEC"]) / 1e6
                self.told.append((now, news))
                self.news.notify_all()

    def wait_for(self, wanted, limit, began=0.0):
        """Waits for a matching message and returns its time. EXTEND_TIMEOUT_USEC extends the limit, if sent since `began`."""
        deadline = time.monotonic() + limit
        seen = 0
        with self.news:
            while True:
                for at, news in self.told[seen:]:
                    if wanted(at, news):
                        return at
                    if "EXTEND_TIMEOUT_USEC" in news and at >= began:
                        deadline = max(deadline, at + int(news["EXTEND_TIMEOUT_USEC"]) / 1e6)
                seen = len(self.told)
                left = deadline - time.monotonic()
                if left <= 0 or self.process.poll() is not None:
                    raise AssertionError(f"{self.name} did not send the expected message (exit code {self.process.poll()})")
                self.news.wait(min(left, 0.2))

    def status(self):
        with self.news:
            return next((news["STATUS"] for _, news in reversed(self.told) if "STATUS" in news), None)

    def watch(self):
        """Kills the service if it misses the watchdog, and restarts it if it ended unexpectedly."""
        while True:
            time.sleep(0.1)
            with self.lock:
                if not self.wanted:
                    continue
                if self.process.poll() is None:
                    if time.monotonic() - self.fed > self.limit:
                        self.watchdog_kills += 1
                        self.process.send_signal(signal.SIGABRT)
                        self.process.send_signal(signal.SIGCONT)
                        self.process.wait(10)
                    continue
                unit = Unit(self.root, self.name)
                if str(self.process.returncode) not in ["0", *unit.get("RestartPreventExitStatus", "").split()]:
                    time.sleep(seconds(unit.get("RestartSec")))
                    self.spawn(unit)

    # `systemctl` calls of the package's scripts.

    def answer_all(self):
        run = self.root / "run/systemd"
        while True:
            words = [word for word in (run / "question").read_text().split() if not word.startswith("-")]
            try:
                code, text = self.answer(*words)
            except Exception as error:  # reported to the script as a failure
                code, text = 1, f"{type(error).__name__}: {error}"
            (run / "answer").write_text(f"{code} {text}\n")

    def answer(self, verb, *units):
        """Exit code and output of a `systemctl` call."""
        answers = [getattr(self, "on_" + verb.replace("-", "_"))(unit) for unit in units]
        return max(answers, default=(0, ""))

    def on_preset(self, unit):
        # Debian enables the service on installation; the socket is enabled with `enable`.
        return self.on_enable(unit) if unit == self.name else (0, "")

    def on_enable(self, unit):
        for target in Unit(self.root, unit).every("WantedBy"):
            link = self.root / f"etc/systemd/system/{target}.wants/{unit}"
            link.parent.mkdir(exist_ok=True)
            if not os.path.lexists(link):
                link.symlink_to(f"/usr/lib/systemd/system/{unit}")
        return 0, ""

    def on_is_enabled(self, unit):
        # The links are dangling when seen from outside the chroot.
        wants = (self.root / "etc/systemd/system").glob("*.wants")
        enabled = any(os.path.lexists(folder / unit) for folder in wants)
        return (0, "enabled") if enabled else (1, "disabled")

    def on_is_active(self, unit):
        active = self.running() if unit == self.name else unit in self.sockets
        return (0, "active") if active else (3, "inactive")

    def on_show(self, unit):
        # Only the property MainPID is asked for.
        return 0, str(self.process.pid if self.running() else 0)

    def on_stop(self, unit):
        if unit == self.name:
            self.stop()
        elif unit in self.sockets:
            self.sockets.pop(unit)[1].close()
        return 0, ""

    def on_start(self, unit):
        if unit != self.name:
            if unit not in self.sockets:
                self.hold(unit)
        elif not self.running():
            self.start()
        return 0, ""

    def on_restart(self, unit):
        self.on_stop(unit)
        return self.on_start(unit)


def become(root, identity, descriptors, proc, command):
    """Sets up the process before exec: inherited sockets from fd 3, /proc, chroot, user."""
    if proc:
        subprocess.run(["mount", "-t", "proc", "-o", f"nosuid,nodev,noexec,{proc}", "proc", f"{root}/proc"], check=True)
    uid, gid, mask = identity.split(":")
    # Moves them to high numbers first, so that dup2 overwrites none of them.
    high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in descriptors.split(",") if fd]
    for at, fd in enumerate(high, 3):
        os.dup2(fd, at, inheritable=True)
    os.closerange(3 + len(high), 512)
    os.umask(int(mask, 8))
    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
    if high:
        os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ.pop("LC_CTYPE", None)
    os.execv(command[0], command)


if __name__ == "__main__":
    become(*sys.argv[1:5], sys.argv[5:])
