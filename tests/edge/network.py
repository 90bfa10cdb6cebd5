"""A network of this test's own, with addresses that are not this machine's loopback: those have no limit of connections."""

import ctypes
import os
import subprocess
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000


@contextmanager
def network(addresses):
    """This thread, and the programs that it starts, are in a network namespace with these addresses until the end."""
    name, libc = f"sarsen-{os.getpid()}", ctypes.CDLL(None, use_errno=True)

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True)

    made = ip("netns", "add", name)
    if made.returncode != 0:
        raise PermissionError(made.stderr.strip())
    try:
        inside = [["link", "set", "lo", "up"], *(["addr", "add", address, "dev", "lo"] for address in addresses)]
        for words in inside:
            done = ip("-n", name, *words)
            if done.returncode != 0:
                raise PermissionError(done.stderr.strip())
        with open("/proc/thread-self/ns/net", "rb") as before, open(f"/run/netns/{name}", "rb") as own:
            if libc.setns(own.fileno(), CLONE_NEWNET) != 0:
                raise PermissionError(os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                assert libc.setns(before.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    finally:
        ip("netns", "del", name)
