"""What the server asks of the kernel in its main job is what the unit's filter lets through. Arguments: the binary and the
unit. It needs strace, curl, and systemd's `systemd-analyze`."""

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
    """The calls of a filter's words, groups of groups among them."""
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
    """The filter as systemd puts it together: a line with `~` takes away."""
    calls = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", Path(UNIT).read_text(), re.M):
        names = expand(line.lstrip("~").split())
        calls = calls - names if line.startswith("~") else calls | names
    return calls


def made():
    """The calls of a demo that is asked everything, and stopped; those before the program begins are the launcher's."""
    with tempfile.TemporaryDirectory() as folder:
        trace, lines = Path(folder, "trace"), []
        # With a data directory, so that backups and a new beginning are there too.
        command = ["strace", "-f", "-qq", "-o", trace, BINARY, "demo", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        demo = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        # It prints variables and the lines that use them, and then serves.
        too_long = threading.Timer(60, os.killpg, (demo.pid, signal.SIGKILL))
        too_long.start()
        for line in demo.stdout:
            lines.append(line)
            if "That was all" in line:
                break
        else:
            sys.exit("the demo does not end its lines as it did")
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
print(f"{len(used)} system calls in the main job")
if forbidden or len(used) < 40:
    sys.exit(f"not in the unit's filter: {', '.join(forbidden)}")
