"""A release of the program under test, with addresses on this machine and a key of its own."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("SARSEN_BIN", ROOT / "target/debug/sarsen"))
XTASK = Path(os.environ.get("SARSEN_XTASK", ROOT / "target/debug/xtask"))
FILES_PORT = 8000
FILES = f"http://127.0.0.1:{FILES_PORT}"
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]


class Release:
    """Its packages are in `folder`; `site` is what a file server shows."""

    def __init__(self, folder):
        self.site = folder / "site"
        self.folder = self.site / VERSION
        self.folder.mkdir(parents=True)
        self._archive(folder)
        key = folder / "key.pem"
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
        sums = self.folder / "SHA256SUMS"
        sums.write_text(run("sha256sum", *self._names("*.tar.gz"), cwd=self.folder), encoding="utf-8")
        run("openssl", "pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", sums, "-out", f"{sums}.sig")
        names = folder / "names.toml"
        names.write_text(self._rehearsed(run("openssl", "pkey", "-in", key, "-pubout").splitlines()[1]), "utf-8")
        packages = [XTASK, "packages", "--dist", self.folder, "--names", names]
        run(*packages, env={**os.environ, "CARGO_MANIFEST_DIR": str(ROOT / "xtask")})
        (self.site / "install.sh").symlink_to(self.folder / "install.sh")
        # The index of Python packages: a folder for each name.
        wheels = self.site / "simple/sarsen-server"
        wheels.mkdir(parents=True)
        for wheel in self.folder.glob("*.whl"):
            (wheels / wheel.name).symlink_to(wheel)

    def one(self, pattern):
        (file,) = self.folder.glob(pattern)
        return file

    def npm(self):
        """In the order in which they are published: the launcher needs the others."""
        files = sorted(self.folder.glob("*.tgz"), key=lambda file: "linux" not in file.name)
        assert len(files) >= 2, files
        return files

    def _names(self, pattern):
        return sorted(file.name for file in self.folder.glob(pattern))

    def _archive(self, folder):
        """As `cargo xtask dist` lays it out."""
        name = f"sarsen-{VERSION}-{os.uname().machine}-unknown-linux-gnu"
        (folder / name).mkdir()
        run("strip", "-o", folder / name / "sarsen", BINARY)
        for licence in ROOT.glob("LICENSE-*"):
            (folder / name / licence.name).write_bytes(licence.read_bytes())
        run("tar", "-czf", self.folder / f"{name}.tar.gz", name, cwd=folder)

    def _rehearsed(self, key):
        text = (ROOT / "packaging/names.toml").read_text(encoding="utf-8")
        values = {"release": f"{FILES}/{{version}}", "install": f"{FILES}/install.sh", "public_key": key}
        for name, value in values.items():
            text, count = re.subn(rf'^{name} = ".*"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
            assert count == 1, name
        return text


def run(*command, **options):
    """A program that must succeed: what it prints."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout
