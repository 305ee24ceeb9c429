"""Checks that the unit's SystemCallFilter allows all system calls that the server makes. Arguments: the binary and the unit.
Needs strace, curl and `systemd-analyze`."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BINARY, UNIT = sys.argv[1:]


def expand(names):
    """Expands the groups of a filter, recursively, to system calls."""
    calls = set()
    for name in names:
        if name.startswith("@"):
            listed = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True)
            words = [line.strip() for line in listed.stdout.splitlines()[1:]]
            calls |= expand(word for word in words if word and not word.startswith("#"))
        else:
            calls.add(name)
    return calls


def allowed():
    """The calls that the filter allows, combined as systemd does: a line with `~` removes calls."""
    calls = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", Path(UNIT).read_text(), re.M):
        names = expand(line.lstrip("~").split())
        calls = calls - names if line.startswith("~") else calls | names
    return calls


def made():
    """The system calls of a demo from start to shutdown, with requests to the whole interface."""
    with tempfile.TemporaryDirectory() as folder:
        trace, lines = Path(folder, "trace"), []
        # With a data directory, so that backups and restarts are included.
        command = ["strace", "-f", "-qq", "-o", trace, BINARY, "demo", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        demo = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        # The demo prints shell variables and curl commands, and then serves.
        too_long = threading.Timer(60, os.killpg, (demo.pid, signal.SIGKILL))
        too_long.start()
        for line in demo.stdout:
            lines.append(line)
            if "That was all" in line:
                break
        else:
            sys.exit("the last line of the demo's output has changed")
        too_long.cancel()
        for path in ("backups", "store/verify", "store/compact", "store/rebuild"):
            lines.append(f'curl -sS --fail -X POST -H "$O" "$OPS/admin/v1/{path}"\n')
        walk = subprocess.run(["bash", "-e"], input="".join(lines), capture_output=True, text=True)
        assert walk.returncode == 0, walk.stderr
        time.sleep(1)
        pid = subprocess.run(["pgrep", "-P", str(demo.pid)], capture_output=True, text=True).stdout.split()
        subprocess.run(["kill", "-TERM", *pid], check=True)
        demo.wait(timeout=60)
        calls = (re.match(r"\d+ +([a-z_0-9]+)\(", line) for line in trace.open(errors="replace"))
        return {call[1] for call in calls if call}


used = made()
forbidden = sorted(used - allowed())
print(f"{len(used)} system calls used")
if forbidden or len(used) < 40:
    sys.exit(f"not in the unit's filter: {', '.join(forbidden)}")
