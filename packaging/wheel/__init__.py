"""Starts the program that this package carries, in place of this process: signals and the exit code are its own."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sarsen")
    # The program prints commands to paste, with the name that it was started by. `python -m` has none that could be pasted.
    name = sys.argv[0] if os.access(sys.argv[0], os.X_OK) else program
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        # A missing C library is "No such file", of the loader that the program names.
        sys.exit(f"{program} cannot be started: {error.strerror}; it needs Linux with glibc")
