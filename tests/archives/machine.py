"""A bare Debian in a folder, with an archive unpacked in it. Programs run there by `chroot`."""

import platform
import shutil
import subprocess
import tarfile

# Debian's names of machines.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
EMULATOR = "/usr/bin/qemu-{}-static"
# A server under an emulator takes its time.
LIMIT_S = 1800


class Machine:
    def __init__(self, archive, bare, folder):
        self.stem = archive.name.removesuffix(".tar.gz")
        self.target = self.stem.split("-", 2)[2]
        kind = self.target.split("-")[0]
        self.root = folder / "root"
        with tarfile.open(bare / f"bare-{DEBIAN[kind]}.tar") as system:
            system.extractall(self.root, filter="fully_trusted")
        with tarfile.open(archive) as files:
            files.extractall(self.root / "opt", filter="data")
        self._under = []
        if kind != platform.machine():
            shutil.copy(EMULATOR.format(kind), self.root / "emulator")
            self._under = ["/emulator"]
        # It is in a mount namespace of these tests, and goes with it.
        subprocess.run(["mount", "-t", "proc", "proc", self.root / "proc"], check=True)

    def command(self, *words):
        """A command of the program in the archive."""
        return ["chroot", str(self.root), *self._under, f"/opt/{self.stem}/sarsen", *words]

    def run(self, *words):
        """Runs one to its end, which has to be a good one. Gives what it printed."""
        ended = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=LIMIT_S, env=ENVIRONMENT)
        assert ended.returncode == 0, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def start(self, *words):
        """Starts one that goes on. Its stdout is a pipe."""
        with open(self.root / "server.log", "a", encoding="utf-8") as log:
            streams = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
            return subprocess.Popen(self.command(*words), env=ENVIRONMENT, **streams)

    def log(self):
        return (self.root / "server.log").read_text(encoding="utf-8", errors="replace")[-6000:]

    def close(self):
        subprocess.run(["umount", self.root / "proc"], check=True)
        shutil.rmtree(self.root)


ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"}
