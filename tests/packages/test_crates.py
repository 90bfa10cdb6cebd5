"""The packed crates: a back end in an empty folder is built from nothing else of Sarsen."""

import json
import os

from release import BINARY, ROOT, run


def test_a_back_end_builds_from_the_files(release, tmp_path):
    run(BINARY, "new", "shop", "--template", "live", "--crates", release.folder, cwd=tmp_path)
    shop = tmp_path / "shop"
    own = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target/packages/back-end")}
    seen = json.loads(run("cargo", "metadata", "--format-version=1", cwd=shop, env=own))
    ours = [package for package in seen["packages"] if package["name"].startswith("sarsen-")]
    assert len(ours) == 4 and all(package["manifest_path"].startswith(str(shop)) for package in ours)
    run("cargo", "check", "--quiet", cwd=shop, env=own)
