"""Runs the unpacked image as a container runtime does: as its user, with a read-only root, its own network and a volume.
Plain namespaces, because container runtimes do not start on every CI machine (control groups)."""

import json
import subprocess
import sys
import time
from pathlib import Path

from trial import good, raise_loopback, step

OPS = ("127.0.0.1", 9080)


def main(bundle, volume):
    raise_loopback()
    root, settings = Path(bundle, "rootfs"), json.loads(Path(bundle, "config.json").read_text())["process"]
    volume = Path(volume)
    uid, gid = settings["user"]["uid"], settings["user"]["gid"]
    assert uid != 0 and gid != 0, settings["user"]
    volume.mkdir(mode=0o750)
    subprocess.run(["chown", f"{uid}:{gid}", volume], check=True)
    for mount in (
        ["--bind", root, root],
        ["-o", "remount,ro,bind", root],
        ["--bind", volume, root / "data"],
        ["-t", "proc", "proc", root / "proc"],
    ):
        subprocess.run(["mount", *mount], check=True)
    environment = dict(pair.split("=", 1) for pair in settings["env"])

    def command(*arguments):
        confined = ["setpriv", "--no-new-privs", "chroot", f"--userspec={uid}:{gid}", "--groups=", root]
        return [*confined, *(arguments or settings["args"])]

    def run(*arguments):
        return subprocess.run(command("/usr/bin/playgate", *arguments), env=environment, capture_output=True, text=True)

    for attempt in ("first start", "restart with the volume"):
        began = time.monotonic()
        with open(volume.with_suffix(".log"), "ab") as log:
            server = subprocess.Popen(command(), env=environment, stdout=subprocess.DEVNULL, stderr=log)
        while (health := run("healthcheck")).returncode != 0:
            assert time.monotonic() - began < 20 and server.poll() is None, health.stderr
        took = time.monotonic() - began
        good("GET", "/readyz", address=OPS)
        names = [partner["name"] for partner in json.loads(run("partner", "list", "--json").stdout)]
        assert names == ([] if attempt == "first start" else ["one"]), names
        if not names:
            assert run("partner", "add", "one").returncode == 0
        server.terminate()
        assert server.wait(20) == 0, volume.with_suffix(".log").read_text()
        step(f"image, {attempt}: healthy after {took:.2f} s as user {uid} with a read-only root")
    assert run("healthcheck").returncode == 1


if __name__ == "__main__":
    main(*sys.argv[1:])
