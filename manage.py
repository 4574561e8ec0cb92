#!/usr/bin/env python
"""The operators' door: every command of the service is `manage.py <command>`."""

import os
import sys

from config.management.program import run

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.exit(run(sys.argv))
