"""Build the packages of the clients: `python -m flags.clients`."""

from __future__ import annotations

import sys

from flags.clients.building import FOLDER, build

if __name__ == "__main__":
    for name in build():
        sys.stdout.write(f"{FOLDER / name}\n")
