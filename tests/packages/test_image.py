"""The image: others read it, and it runs as its user, with no other program in it."""

import json
import os
import shutil
import tarfile

import pytest
from bare import Bare
from release import VERSION, run

USER = 10001


@pytest.fixture
def image(release):
    return release.one("*-image.tar")


def test_skopeo_reads_and_copies_it(image, tmp_path):
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not here")
    source = f"oci-archive:{image}:{VERSION}"
    config = json.loads(run("skopeo", "inspect", "--config", source))["config"]
    assert config["User"] == f"{USER}:{USER}" and config["Entrypoint"] == ["/usr/bin/sarsen"]
    run("skopeo", "copy", "--quiet", source, f"oci:{tmp_path}/copy:{VERSION}")
    copied = json.loads(run("skopeo", "inspect", f"oci:{tmp_path}/copy:{VERSION}"))
    assert len(copied["Layers"]) == 2 and copied["Labels"]["org.opencontainers.image.version"] == VERSION


def test_docker_s_check_is_the_program_itself(image, tmp_path):
    layout = unpacked(image, tmp_path)
    named = json.loads((layout / "index.json").read_text(encoding="utf-8"))["manifests"][-1]
    manifest = blob(layout, named)
    assert blob(layout, manifest["config"])["config"]["Healthcheck"]["Test"] == ["CMD", "/usr/bin/sarsen", "health"]


def test_it_runs_from_what_umoci_unpacks(alone, image, tmp_path):
    if not shutil.which("umoci"):
        pytest.skip("umoci is not here")
    layout = unpacked(image, tmp_path)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    run("umoci", "unpack", "--image", f"{layout}:{VERSION}-{machine}", tmp_path / "bundle")
    root = tmp_path / "bundle/rootfs"
    programs = {path.name for path in root.rglob("*") if path.is_file() and path.stat().st_mode & 0o111}
    assert {name for name in programs if not name.startswith("ld-linux")} == {"sarsen"}
    assert not (root / "bin").exists()

    container = Bare(root)
    inside = {"user": USER, "folder": "/var/lib/sarsen", "SARSEN_LISTEN": "0.0.0.0:7070"}
    try:
        container.run("/usr/bin/sarsen", "init", "--yes", "--issuer", "http://localhost:7070", **inside)
        refused = container.run("/usr/bin/sarsen", "health", code=1, **inside)
        assert "no answer from http://127.0.0.1:7070" in refused
        server = container.start("/usr/bin/sarsen", "serve", **inside)
        server.wait_for("listening")
        assert container.run("/usr/bin/sarsen", "health", **inside) == "ready\n"
        assert {path.stat().st_uid for path in (root / "var/lib/sarsen").iterdir()} == {USER}
    finally:
        container.stop()


def unpacked(image, folder):
    with tarfile.open(image) as archive:
        archive.extractall(folder / "layout", filter="data")
    return folder / "layout"


def blob(layout, descriptor):
    return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text(encoding="utf-8"))
