"""Whether a test may mount file systems of its own."""

import subprocess

import pytest

MAY_MOUNT = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
needs_mounts = pytest.mark.skipif(not MAY_MOUNT, reason="only root may mount file systems")
