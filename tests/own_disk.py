"""What tests of disks need of the machine that they run on."""

import subprocess


def may(*command):
    """Whether this machine lets us do that."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
