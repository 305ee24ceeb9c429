"""Runs the image with crun as podman does: as its user, with a read-only root, without capabilities, and a volume for the data.
The demo; then an upgrade from the image of the previous commit, and a restart, over one volume."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from trial import good, raise_loopback, step

OPS = ("127.0.0.1", 9080)
STARTED_WITHIN_SECONDS = 60  # the previous image has a debug binary


class Image:
    def __init__(self, bundle):
        self.bundle = Path(bundle)
        self.settings = json.loads((self.bundle / "config.json").read_text())
        self.process = self.settings["process"]
        self.user = self.process["user"]
        self.command = self.process["args"]
        assert self.user["uid"] != 0 and self.user["gid"] != 0, self.user

    def configure(self, volume, arguments):
        """Makes the container confined, in the network of this test."""
        kinds = ("pid", "ipc", "uts", "mount")
        ours = ("/data", "/tmp", "/sys/fs/cgroup")
        mounts = [one for one in self.settings["mounts"] if one["destination"] not in ours and one["type"] != "bind"]
        # As podman does with a read-only root.
        mounts.append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
        mounts.append({"destination": "/data", "type": "bind", "source": str(volume), "options": ["bind", "rw"]})
        settings = self.settings | {
            "root": {"path": "rootfs", "readonly": True},
            "process": self.process
            | {"args": [self.command[0], *arguments] if arguments else self.command}
            | {"terminal": False, "noNewPrivileges": True, "capabilities": {}, "rlimits": []},
            "mounts": mounts,
            "linux": {"namespaces": [{"type": kind} for kind in kinds]},
        }
        (self.bundle / "config.json").write_text(json.dumps(settings))

    @contextlib.contextmanager
    def running(self, name, volume, *arguments):
        """A container until the block ends, which must end by SIGTERM without an error."""
        self.configure(volume, arguments)
        log = volume / f"../{name}.log"
        with open(log, "wb") as out:
            container = subprocess.Popen(crun("run", "--bundle", self.bundle, name), stdout=out, stderr=out)
        try:
            yield Container(self, name, container, log)
        finally:
            subprocess.run(crun("kill", name, "TERM"), check=False)
            code = container.wait(20)
        assert code == 0, f"{code}: {log.read_text()}"


class Container:
    def __init__(self, image, name, process, log):
        self.image, self.name, self.process, self.log = image, name, process, log
        self.user = f"{image.user['uid']}:{image.user['gid']}"
        self.began = time.monotonic()

    def run(self, *arguments):
        """A command in the running container."""
        return subprocess.run(crun("exec", "--user", self.user, self.name, self.image.command[0], *arguments), capture_output=True, text=True)

    def wait(self):
        """Seconds until the health check of the image succeeds."""
        while (health := self.run("healthcheck")).returncode != 0:
            waited = time.monotonic() - self.began
            assert waited < STARTED_WITHIN_SECONDS and self.process.poll() is None, health.stderr + self.log.read_text()
            time.sleep(0.05)
        return time.monotonic() - self.began


def crun(*arguments):
    return ["crun", "--cgroup-manager=disabled", *arguments]


def confine_cgroups():
    """crun refuses a machine with control groups of both versions. The test uses none, so it sees those of the second alone."""
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    subprocess.run(["umount", "--recursive", "/sys/fs/cgroup"], check=False)
    subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=True)


def main(bundle, before, folder):
    raise_loopback()
    confine_cgroups()
    image, before, folder = Image(bundle), Image(before), Path(folder)
    volumes = folder / "demo", folder / "data"
    for volume in volumes:
        volume.mkdir(mode=0o750)
        os.chown(volume, image.user["uid"], image.user["gid"])
    demo, data = volumes

    with image.running("demo", demo, "demo", "--json", "--listen", "127.0.0.1:8080") as container:
        while not (text := container.log.read_text()).startswith("{"):
            assert container.process.poll() is None and time.monotonic() - container.began < STARTED_WITHIN_SECONDS, text
            time.sleep(0.05)
        example = json.loads(text.splitlines()[0])
        good("GET", "/api/schedule/v1/broadcasts/live?livestreams=open", {"Service-AccessToken": example["partnerToken"]})
        step(f"image, demo: {time.monotonic() - container.began:.2f} s until it answers as user {image.user['uid']}")

    runs = (("the version before", before, []), ("upgraded", image, ["one"]), ("restarted", image, ["one"]))
    for name, version, expected in runs:
        with version.running(name.replace(" ", "-"), data) as container:
            took = container.wait()
            good("GET", "/readyz", address=OPS)
            listed = container.run("partner", "list", "--json")
            assert [partner["name"] for partner in json.loads(listed.stdout)] == expected, listed
            if not expected:
                assert container.run("partner", "add", "one").returncode == 0
            root = container.run("--data-dir", "/elsewhere", "partner", "add", "two")
            assert root.returncode != 0 and "read-only" in root.stderr, root
            step(f"image, {name}: healthy after {took:.2f} s with a read-only root")


if __name__ == "__main__":
    main(*sys.argv[1:])
