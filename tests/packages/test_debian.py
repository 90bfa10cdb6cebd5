"""The Debian package: lintian, and its life in a bare Debian."""

import re
import shutil

import pytest
from release import VERSION, run

DATA = "var/lib/sarsen"


@pytest.fixture
def package(release):
    return release.one("*.deb")


def test_lintian_finds_nothing(package):
    if not shutil.which("lintian"):
        pytest.skip("lintian is Debian's")
    found = run("lintian", "--allow-root", "--no-cfg", "--show-overrides", package)
    assert not re.search(r"^[EWO]:", found, re.MULTILINE), found


@pytest.mark.place("curl")
def test_from_installation_to_purge(bare, package, tmp_path):
    newer = newer_than(package, tmp_path)
    for file in (package, newer):
        shutil.copy(file, bare.root / "tmp")

    printed = bare.run("dpkg", "--install", f"/tmp/{package.name}", user=0)
    assert "Set the server up before it is started" in printed
    assert bare.run("sarsen", "--version") == f"sarsen {VERSION}\n"
    user = int(bare.run("id", "-u", "sarsen"))
    data = bare.root / DATA
    assert (data.stat().st_mode & 0o777, data.stat().st_uid) == (0o700, user)
    assert not list(data.iterdir()), "nothing was set up"
    wants = bare.root / "etc/systemd/system/multi-user.target.wants"
    assert not (wants / "sarsen.service").is_symlink(), "nothing is enabled"

    # As README.Debian says, without a systemd.
    there = {"user": user, "folder": f"/{DATA}"}
    bare.run("sarsen", "init", "--yes", "--issuer", "https://id.example.com", **there)
    server = bare.start("sarsen", "serve", **there)
    server.wait_for("listening")
    assert bare.run("sarsen", "health", **there) == "ready\n"

    # The new program is there, the server of before runs until it is restarted.
    bare.run("dpkg", "--install", f"/tmp/{newer.name}", user=0)
    assert "9.9.9" in bare.run("dpkg-query", "--show", "sarsen")
    assert bare.run("sarsen", "health", **there) == "ready\n"
    server.stop()
    before = sorted(path.name for path in data.iterdir())
    assert {"sarsen.db", "sarsen.key", "sarsen.toml"} <= set(before)

    assert f"/{DATA} is kept" in bare.run("dpkg", "--purge", "sarsen", user=0)
    assert not (bare.root / "usr/bin/sarsen").exists()
    assert sorted(path.name for path in data.iterdir()) == before
    assert bare.run("id", "-u", "sarsen").strip() == str(user)
    assert "sarsen" not in bare.run("dpkg-query", "--show", "--showformat", "${Package}\n")

    # And from there on again.
    assert "Set the server up" not in bare.run("dpkg", "--install", f"/tmp/{package.name}", user=0)
    bare.start("sarsen", "serve", **there).wait_for("listening")


def newer_than(package, folder):
    """The same with a higher number."""
    run("dpkg-deb", "--raw-extract", package, folder / "newer")
    control = folder / "newer/DEBIAN/control"
    control.write_text(control.read_text(encoding="utf-8").replace(f"Version: {VERSION}", "Version: 9.9.9"), "utf-8")
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", folder / "newer", folder / "sarsen_9.9.9.deb")
    return folder / "sarsen_9.9.9.deb"
