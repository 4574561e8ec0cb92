"""Run a command as on a production server: `python -m tests.deployment manage.py check --deploy`."""

import os
import subprocess
import sys
import tempfile

PRODUCTION = {
    "ENV_FILE": os.devnull,
    "SECRET_KEY": "".join(chr(33 + at * 7 % 90) for at in range(60)),
    "ALLOWED_HOSTS": "flags.example.com",
    "SECURE_PROXY_SSL_HEADER": "X-Forwarded-Proto",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="halyard-") as runtime:
        environment = {**os.environ, **PRODUCTION, "RUNTIME_DIR": runtime}
        return subprocess.run([sys.executable, *sys.argv[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
