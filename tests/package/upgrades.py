"""Upgrade test of the package in a Debian chroot: a signed repository by `file:`, installation, good and bad releases, rollback.
Viewers sign up and read all the time. Every acknowledged sign-up must exist at the end."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from launcher import Launcher
from trial import OPS, UNIT, Debian, ask, good, main_job, raise_loopback, step

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
KIB, MIB = 1024, 1024 * 1024
CONFIGURATION = """
limits.sign_up_per_address = 1000000
accounts.argon2_memory_kib = 8192
accounts.argon2_iterations = 1
smtp.host = "127.0.0.1"
smtp.username = "playgate"
mail.from = "playgate@example.org"
"""
# A wrapper around the real binary, for releases that fail at one command only.
WRAPPER = """#!/bin/sh
real=/usr/lib/playgate/real
case " $* " in *" serve "*) {serve} ;; esac
{other}
exec $real "$@"
"""


class Traffic:
    """Sign-ups and reads until the block ends. Counts acknowledged sign-ups, failed reads and the longest time without a response."""

    acknowledged = []

    def __init__(self, headers):
        self.headers, self.failed, self.longest, self.ended = headers, [], 0.0, threading.Event()
        self.threads = [threading.Thread(target=job) for job in (self.sign_up, self.read)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        time.sleep(0.5)
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def sign_up(self):
        while not self.ended.wait(0.03):
            email = f"viewer-{time.monotonic_ns()}@example.org"
            person = {"identity": email, "accessKey": "a long pass phrase", "name": "Ann"}
            try:
                status, _ = ask("PUT", "/api/login/v2/auth/email", self.headers, person)
            except Exception:  # the server is restarting: the sign-up is not acknowledged
                continue
            if status < 300:
                self.acknowledged.append(email)

    def read(self):
        last = time.monotonic()
        while not self.ended.wait(0.02):
            try:
                status, _ = ask("GET", "/api/schedule/v1/broadcasts/live?livestreams=news", self.headers)
            except Exception as error:
                self.failed.append(repr(error))
                continue
            if status != 200:
                self.failed.append(status)
                continue
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now


class Releases:
    """A signed repository, and packages made from one package."""

    def __init__(self, debian, package, folder):
        self.debian, self.package, self.folder = debian, Path(package), Path(folder)
        self.repository = debian.root / "srv/playgate"
        self.version = subprocess.check_output(["dpkg-deb", "--field", package, "Version"], text=True).strip()
        self.count = 0
        self.key = self.make_key("release")

    def make_key(self, name):
        home = self.folder / name
        home.mkdir(mode=0o700)
        gpg = ["gpg", "--batch", "--quiet", "--homedir", home]
        subprocess.run([*gpg, "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "0"], check=True)
        key = self.folder / f"{name}.key"
        key.write_bytes(subprocess.check_output([*gpg, "--armor", "--export-secret-keys"]))
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)
        return key

    def publish(self, package, key=None):
        environment = os.environ | {"PLAYGATE_SIGNING_KEY": str(key or self.key)}
        subprocess.run([PACKAGING / "repository", self.repository, "stable", package], check=True, env=environment)

    def make(self, change=None, **fields):
        """A package with the next version, changed by a function of its unpacked folder."""
        self.count += 1
        root = self.folder / "unpacked"
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["dpkg-deb", "-R", self.package, root], check=True)
        version = f"{self.version}+{self.count}"
        control = root / "DEBIAN/control"
        text = control.read_text()
        for name, value in ({"Version": version} | fields).items():
            text = re.sub(rf"(?m)^{name}: .*", f"{name}: {value}", text)
        control.write_text(text)
        if change:
            change(root)
        made = self.folder / f"playgate_{version}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", root, made], check=True, stdout=subprocess.DEVNULL)
        return version, made

    def release(self, change=None):
        version, package = self.make(change)
        self.publish(package)
        self.apt("update")
        return version

    def try_apt(self, *arguments):
        only_ours = ["-o", "Dir::Etc::sourcelist=sources.list.d/playgate.list", "-o", "Dir::Etc::sourceparts=-"]
        return self.debian.try_("apt-get", "-q", "-y", *only_ours, *arguments)

    def apt(self, *arguments):
        done = self.try_apt(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def wrapped(serve="", other=""):
    """Replaces the binary by a wrapper, with commands for `serve` and before every other command."""

    def change(root):
        (root / "usr/bin/playgate").rename(root / "usr/lib/playgate/real")
        script(root, WRAPPER.format(serve=serve or ":", other=other))

    return change


def never_ready(first=""):
    """A release that never reports READY=1. Only its unit has a short start timeout: on a busy machine a good release needs the
    usual one."""

    def change(root):
        wrapped(serve=first + "exec sleep 1000")(root)
        unit = root / "usr/lib/systemd/system" / UNIT
        unit.write_text(re.sub(r"(?m)^TimeoutStartSec=.*", "TimeoutStartSec=5s", unit.read_text()))

    return change


def script(root, text):
    binary = root / "usr/bin/playgate"
    binary.unlink(missing_ok=True)
    binary.write_text(text)
    binary.chmod(0o755)


def older_format(root):
    preinst = root / "DEBIAN/preinst"
    preinst.write_text(preinst.read_text().replace("-gt 1 ]", "-gt 0 ]"))


# Name, change of the package, what it says, and whether the server restarts.
BAD = [
    ("does not start", lambda root: script(root, "#!/bin/sh\necho 'cannot start' >&2\nexit 127\n"), "cannot start", False),
    ("refuses the configuration", wrapped(other="export PLAYGATE_LISTNE=x"), "configuration:", False),
    ("cannot read the store", older_format, "the store has format 1", False),
    ("never ready", never_ready(), "was not ready in time", True),
    ("crashes", wrapped(serve="exit 70"), "was not ready in time", True),
]


def refusals(releases, launcher):
    """Signature, truncated package, foreign architecture: apt and dpkg refuse them, and the server is not touched."""
    version, package = releases.make(None)
    releases.publish(package, releases.make_key("stranger"))
    refused = releases.try_apt("update")
    assert "The repository is not updated" in refused.stderr, refused
    assert "0 upgraded" in releases.apt("upgrade")
    releases.publish(package)
    releases.apt("update")
    pool = next((releases.repository / "pool").rglob(f"*_{version}_*"))
    content = pool.read_bytes()
    pool.write_bytes(content[:-100_000])
    refused = releases.try_apt("upgrade")
    assert refused.returncode != 0, refused
    pool.unlink()
    _, foreign = releases.make(None, Architecture="s390x")
    shutil.copy(foreign, releases.debian.root / "tmp/foreign.deb")
    refused = releases.debian.try_install("foreign")
    assert refused.returncode != 0 and "s390x" in refused.stderr, refused
    assert launcher.starts == 1, launcher.starts
    step("a wrong signature, a truncated package and one for another architecture were refused; the server was not touched")


def main(root, package):
    raise_loopback()
    debian = Debian(root)
    launcher = Launcher(root, UNIT)
    debian.run("rm", "-f", "/usr/sbin/policy-rc.d")
    drop_in = debian.root / "etc/systemd/system/playgate.service.d/test.conf"
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    # The configuration is valid only together with the variable, so that the check has to see it.
    drop_in.write_text("[Service]\nEnvironment=PLAYGATE_SMTP_PASSWORD=kx7Tq2\n")
    with tempfile.TemporaryDirectory() as folder:
        releases = Releases(debian, package, folder)
        releases.publish(package)
        shutil.copy(releases.repository / "playgate.asc", debian.root / "etc/apt/trusted.gpg.d/playgate.asc")
        line = "deb [signed-by=/etc/apt/trusted.gpg.d/playgate.asc] file:/srv/playgate stable main\n"
        (debian.root / "etc/apt/sources.list.d/playgate.list").write_text(line)
        releases.apt("update")
        # A full disk of data must not be that of the machine.
        data = debian.root / "var/lib/playgate"
        data.mkdir()
        small_disk(data)
        releases.apt("install", "playgate")
        configuration = debian.root / "etc/playgate/playgate.toml"
        configuration.write_text(configuration.read_text() + CONFIGURATION)
        launcher.stop()
        launcher.starts = 0
        launcher.start()
        headers, _ = main_job(debian)
        step(f"{releases.version} installed from a signed repository")
        refusals(releases, launcher)
        upgrades(debian, releases, launcher, headers)
        emails = {user["email"] for user in json.loads(debian.run("playgate", "user", "list", "--json"))}
        lost = [email for email in Traffic.acknowledged if email not in emails]
        assert len(Traffic.acknowledged) > 50 and not lost, (len(Traffic.acknowledged), lost[:5])
        step(f"{len(Traffic.acknowledged)} acknowledged sign-ups, none lost")


def upgrades(debian, releases, launcher, headers):
    version = releases.release()
    with Traffic(headers) as traffic:
        said = releases.apt("upgrade")
    assert "can serve here" in said, said
    step(f"upgraded to {version}: {traffic.longest:.1f} s without service; " + next(l for l in said.splitlines() if "can serve" in l))

    version = unattended(debian, releases, headers)
    for name, change, reason, restarts in BAD:
        starts = launcher.starts
        releases.release(change)
        with Traffic(headers) as traffic:
            failed = releases.try_apt("upgrade")
        said = failed.stdout + failed.stderr
        assert failed.returncode != 0 and reason in said, f"{name}: {said}"
        good("GET", "/readyz", address=OPS)
        assert launcher.running() and (launcher.starts > starts) == restarts, f"{name}: {launcher.starts} starts, {said}"
        if not restarts:
            assert not traffic.failed, traffic.failed
        debian.run("playgate", "--version")
        step(f"a release that {name} failed, and the version before serves: {traffic.longest:.1f} s without service")
        # The failed version is tried again, with the same result; the version before is a clean state.
        if name == "refuses the configuration":
            again = debian.try_("dpkg", "--configure", "playgate")
            assert again.returncode != 0 and "configuration:" in again.stderr, again
            releases.apt("install", "--allow-downgrades", f"playgate={version}")
            step(f"returned to {version}")

    raised_format(debian, releases, launcher, headers)
    killed_upgrade(debian, releases, headers)
    full_disks(debian, releases, launcher, headers)
    version = releases.release()
    with Traffic(headers) as traffic:
        releases.apt("upgrade")
    assert debian.run("dpkg-query", "-f", "${Status}", "-W", "playgate") == "install ok installed"
    step(f"a corrected release installs as usual: {traffic.longest:.1f} s without service")

    binary = debian.root / "usr/bin/playgate"
    before = binary.stat().st_ino
    with Traffic(headers) as traffic:
        debian.run("env", "PLAYGATE_SMTP_PASSWORD=kx7Tq2", "playgate", "upgrade", "rollback", "--yes")
    assert binary.stat().st_ino != before
    good("GET", "/readyz", address=OPS)
    step(f"rolled back by hand: {traffic.longest:.1f} s without service")


def unattended(debian, releases, headers):
    """An upgrade by night, set up as `docs/upgrading.md` says."""
    page = (PACKAGING.parent / "docs/upgrading.md").read_text()
    debian.run("sh", "-c", next(line[2:] for line in page.splitlines() if line.startswith("# echo 'Unattended-Upgrade::")))
    version = releases.release()
    with Traffic(headers) as traffic:
        done = debian.run("unattended-upgrade", "--verbose")
    installed = debian.run("dpkg-query", "-f", "${Status} ${Version}", "-W", "playgate")
    assert installed == f"install ok installed {version}", f"{installed} {done}"
    step(f"upgraded to {version} by unattended-upgrade: {traffic.longest:.1f} s without service")
    return version


# What a release with a newer format leaves at its first start, before it hangs.
BACKUP = r"""
backup=$($real backup create --json | sed -n 's/.*"path": *"\([^"]*\)".*/\1/p')
printf %s "$backup" >/var/lib/playgate/store/upgrade-backup
"""


def raised_format(debian, releases, launcher, headers):
    """A release that raises the format of the store and is never ready: the store from before comes back with its version.
    The control is one after whose start a client has changed something: it stays, and says why."""
    own = debian.root / "usr/lib/playgate/format"
    for first, reason in ((BACKUP, "nothing was changed since"), ("", "clients have changed data")):
        # There is one format so far: as if the installed version could not read it.
        own.write_text("0\n")
        releases.release(never_ready(first))
        with Traffic(headers) as traffic:
            failed = releases.try_apt("upgrade")
        said = failed.stdout + failed.stderr
        assert failed.returncode != 0 and reason in said, said
        if first:
            good("GET", "/readyz", address=OPS)
            step(f"a release that raised the format and was never ready: the store before serves: {traffic.longest:.1f} s without service")
    releases.release()
    releases.apt("upgrade")
    good("GET", "/readyz", address=OPS)
    step("after a change the release stays and says why; a corrected one installs")


def killed_upgrade(debian, releases, headers):
    """Kills apt, dpkg and the package's script during the check."""
    releases.release(wrapped(other='case " $* " in *" check "*) sleep 2 ;; esac'))
    with Traffic(headers) as traffic:
        upgrade = threading.Thread(target=releases.try_apt, args=("upgrade",))
        upgrade.start()
        victims = []
        while not any("check" in line for _, line in victims):
            victims = [(pid, line) for pid, line in processes(debian) if re.match(r"apt-get|dpkg|/usr/bin/dpkg|.*postinst|.* check ", line)]
        for pid, _ in victims:
            os.kill(pid, signal.SIGKILL)
        upgrade.join()
        debian.run("dpkg", "--configure", "-a")
    good("GET", "/readyz", address=OPS)
    step(f"an upgrade was killed, and completed by `dpkg --configure -a`: {traffic.longest:.1f} s without service")


# Name, directory that is full or nearly, bytes that are left, what apt or the package says.
FULL = [
    ("to keep the installed version", "usr/lib/playgate", 64 * KIB, "cannot keep the installed version"),
    ("for the new files", "usr/share/doc/playgate", 0, "No space left on device"),
    ("for the copy of the store", "var/lib/playgate", 20 * MIB, "not enough disk space"),
]


def full_disks(debian, releases, launcher, headers):
    """A lack of space at each point of an upgrade: the version before serves, and with space the upgrade succeeds."""
    releases.release()  # `killed_upgrade` left a wrapper
    releases.apt("upgrade")
    for name, place, left, reason in FULL:
        starts = launcher.starts
        version = releases.release()
        with Traffic(headers), filled(debian.root / place, left):
            failed = releases.try_apt("upgrade")
            said = failed.stdout + failed.stderr
            assert failed.returncode != 0 and reason in said, f"{name}: {said}"
            good("GET", "/readyz", address=OPS)
            assert launcher.running() and launcher.starts == starts, f"{name}: {launcher.starts} starts, {said}"
        said = releases.apt("--fix-broken", "install") + releases.apt("upgrade")
        installed = debian.run("dpkg-query", "-f", "${Status} ${Version}", "-W", "playgate")
        assert installed == f"install ok installed {version}", f"{name}: {installed} {said}"
        kept = debian.root / "usr/lib/playgate/previous/playgate"
        assert kept.stat().st_size == (debian.root / "usr/bin/playgate").stat().st_size, name
        step(f"no space {name}: the version before serves, and with space the upgrade succeeds")


@contextlib.contextmanager
def filled(directory, left):
    """Leaves so many bytes free below a directory, on a file system of its own, until the block ends."""
    mounted = not os.path.ismount(directory)
    if mounted:
        with tempfile.TemporaryDirectory() as content:
            shutil.copytree(directory, content, symlinks=True, dirs_exist_ok=True)
            small_disk(directory)
            shutil.copytree(content, directory, symlinks=True, dirs_exist_ok=True)
    filler = Path(directory, "filler")
    with open(filler, "wb") as file:
        about = os.statvfs(directory)
        os.posix_fallocate(file.fileno(), 0, max(about.f_bavail * about.f_frsize - left, 1))
    try:
        yield
    finally:
        filler.unlink()
        if mounted:
            subprocess.run(["umount", directory], check=True)


def small_disk(directory):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", directory], check=True)


def processes(debian):
    """Ids and command lines of this test's own namespace."""
    for folder in (debian.root / "proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended
            continue


if __name__ == "__main__":
    folder, deb = sys.argv[1:]
    try:
        main(folder, deb)
    except BaseException:
        log = Path(folder, "var/log/playgate-trial.log")
        print("".join(log.read_text().splitlines(True)[-30:]) if log.exists() else "no log")
        raise
