"""Packages that openapi-python-client generates from a description."""

import contextlib
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

GENERATE_LIMIT_S = 120


@contextlib.contextmanager
def package(name, *source):
    """The generated package, in a folder that is gone afterwards. A warning of the generator is a failure."""
    with tempfile.TemporaryDirectory(prefix="sarsen-generated-") as folder:
        config = Path(folder, "generator.yml")
        config.write_text("post_hooks: []\n", encoding="utf-8")
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
        command += [*source, "--output-path", str(Path(folder, name)), "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GENERATE_LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        sys.path.insert(0, folder)
        try:
            yield Generated(name)
        finally:
            sys.path.remove(folder)


class Generated:
    """Finds functions and types of the package by their names in the description."""

    def __init__(self, name):
        self._name = name

    def client(self, address, token):
        module = importlib.import_module(f"{self._name}.client")
        if token is None:
            return module.Client(base_url=address, raise_on_unexpected_status=True)
        return module.AuthenticatedClient(base_url=address, token=token, raise_on_unexpected_status=True)

    def operation(self, tag, name):
        return importlib.import_module(f"{self._name}.api.{tag}.{name}").sync_detailed

    def __getattr__(self, name):
        return getattr(importlib.import_module(f"{self._name}.models"), name)
