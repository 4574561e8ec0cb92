#!/usr/bin/env python
"""The operators' door: every command of the service is `manage.py <command>`."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        from config.management.program import run

        sys.exit(run(sys.argv))
    except KeyboardInterrupt:  # while all this is imported, for example
        sys.exit(130)
