"""Follows a page of docs to the letter: runs its commands and writes its files, in the order of the page.

- A block `sh` is run by bash. Exported variables and the folder stay for the next block.
- `export NAME=client_…` stands for the last value with this beginning that a command has printed, and is replaced by it.
  Without a beginning it is the secret of a client.
- A block after a line that ends in "`FILE`:" is the content of that file.
- Blocks `json` and `text` show answers; they are left out.

Only the ports differ from the page: the server's and the site's are free ones.
"""

import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from demo import BINARY, ROOT
from person import Person
from program import Program

DOCS = ROOT / "docs"
BLOCK_LIMIT_S = 600
SHOWN = ("json", "text")
CODES = re.compile(r"^Open +(\S+)\nType +(\S+)\n", re.MULTILINE)


class Block(NamedTuple):
    section: str
    language: str
    file: str | None
    text: str


def blocks_of(markdown):
    """The fenced blocks of a page, each with its section and the file that it is."""
    section, lead, blocks, opened = "", "", [], None
    for line in markdown.splitlines():
        if opened is not None and line == "```":
            blocks.append(Block(section, *opened[:2], "\n".join(opened[2]) + "\n"))
            lead, opened = "", None
        elif opened is not None:
            opened[2].append(line)
        elif line.startswith("```"):
            named = re.search(r"`([\w./-]+)`:$", lead)
            opened = (line.removeprefix("```"), named and named[1], [])
        elif line.startswith("#"):
            section, lead = line.lstrip("# "), ""
        elif line.strip():
            lead = line
    assert opened is None, f"the last block of {section!r} has no end"
    return blocks


class Reader:
    """Somebody who follows guides, with a folder and a shell of their own, and signs terminals in as `administrator`."""

    def __init__(self, folder, administrator, server_port, site_port):
        self._folder = folder
        self._ports = {"7070": str(server_port), "3000": str(site_port)}
        self._administrator = administrator
        self._printed = ""
        self._state = folder / "state.sh"
        repository = folder / "sarsen"
        release = repository / "target/release"
        release.mkdir(parents=True)
        (release / "sarsen").symlink_to(Path(BINARY).resolve())
        self._state.write_text(f"cd '{repository}'\n", encoding="utf-8")
        path = os.pathsep.join([str(programs_of_node(folder / "programs")), os.environ["PATH"]])
        # The server takes variables that begin with SARSEN_ as settings, and refuses those of the tests.
        own = {name: value for name, value in os.environ.items() if not name.startswith("SARSEN_")}
        self._environment = {**own, "PATH": path, "XDG_CONFIG_HOME": str(folder / "config")}

    def blocks(self, page, section):
        """The blocks of a section."""
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        found = [block for block in blocks_of(text) if block.section == section]
        assert found, f"{page}.md has no block in a section {section!r}"
        return [block._replace(text=self._with_ports(block.text)) for block in found]

    def follow(self, page, *sections):
        """Follows these sections of a page, and gives what its last command printed."""
        printed = ""
        for section in sections:
            for block in self.blocks(page, section):
                if block.file:
                    self._write(block)
                elif block.language == "sh":
                    printed = self.run(block.text)
                else:
                    assert block.language in SHOWN, f"{page}.md does not say which file this is:\n{block.text}"
        return printed

    def start(self, text, port):
        """Starts a program that runs until it is stopped, and waits until it serves its port."""
        command = ["bash", "-ec", f". '{self._state}'\n{text}"]
        log = self._folder / f"{port}.log"
        return Program(command, port, log, limit_s=BLOCK_LIMIT_S, env=self._environment)

    def run(self, text, user=None):
        """Runs commands, and gives what they print. Allows a sign-in of the terminal in a browser, as a user."""
        script = "\n".join(
            [
                f". '{self._state}'",
                self._with_copied_values(text),
                f"export -p > '{self._state}'",
                f"printf 'cd %q\\n' \"$PWD\" >> '{self._state}'",
            ]
        )
        process = subprocess.Popen(
            ["bash", "-ec", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=self._environment,
        )
        watch = threading.Timer(BLOCK_LIMIT_S, os.killpg, [process.pid, signal.SIGKILL])
        watch.start()
        printed = self._read(process.stdout, user or self._administrator)
        status = process.wait()
        watch.cancel()
        assert status == 0, f"{text}\nended with {status} and printed:\n{printed[-6000:]}"
        self._printed += printed
        return printed

    def printed(self, label):
        """What a command has printed last beside this label."""
        values = re.findall(rf"^{label} {{2,}}(\S+)$", self._printed, re.MULTILINE)
        assert values, f"no command has printed a {label}:\n{self._printed}"
        return values[-1]

    def printed_from(self, beginning):
        """The last id or key with this beginning that a command has printed."""
        values = re.findall(rf"\b{beginning}\w+", self._printed)
        assert values, f"no command has printed a {beginning}…:\n{self._printed}"
        return values[-1]

    def _read(self, output, user):
        printed, allowed = "", False
        while chunk := os.read(output.fileno(), 4096):
            printed += chunk.decode(errors="replace")
            codes = CODES.search(printed)
            if codes and not allowed:
                allowed = True
                Person(user["email"], user["password"]).walk(codes[1], user_code=codes[2])
        output.close()
        return printed

    def _write(self, block):
        folder = self.run("pwd").splitlines()[-1]
        file = Path(folder) / block.file
        file.write_text(block.text, encoding="utf-8")

    def _with_ports(self, text):
        return re.sub(r"\b(7070|3000)\b", lambda port: self._ports[port[1]], text)

    def _with_copied_values(self, text):
        def copied(line):
            name, beginning = line[1], line[2]
            return f"export {name}={self.printed_from(beginning) if beginning else self.printed('client secret')}"

        return re.sub(r"^export (\w+)=(\w*)…$", copied, text, flags=re.MULTILINE)


def programs_of_node(folder):
    """A folder with `node` and `npm`: the machine's own, or those of a wheel, which has no `npm` beside `node`."""
    folder.mkdir()
    node = os.environ.get("SARSEN_NODE")
    if node and not shutil.which("npm"):
        script = Path(node).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
        (folder / "node").symlink_to(node)
        npm = folder / "npm"
        npm.write_text(f"#!/bin/sh\nexec '{node}' '{script}' \"$@\"\n", encoding="utf-8")
        npm.chmod(0o755)
    return folder
