"""Builds what tests with real processes need: the load driver and its checker, and dictum itself."""

import os
import shutil
import subprocess
import sys

from .load import BIN
from .processes import FAULTS, ROOT, run


def build_load(who):
    """Builds the load driver and the checker of its histories; `who` is the test that says what it lacks."""
    BIN.mkdir(parents=True, exist_ok=True)
    if not shutil.which("go"):
        sys.exit(f"{who}: Go 1.24 or newer is needed to build the load driver and the checker")
    for folder, output in ((FAULTS / "drive", "drive"), (ROOT / "tests" / "histories", "histories")):
        run(["go", "build", "-o", BIN / output, "."], 600, cwd=folder, env={**os.environ, "GOFLAGS": "-buildvcs=false"})


def build_dictum(who, given):
    """The path of the program that was given; without one cargo builds a release."""
    if given:
        return os.path.abspath(given)
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "dictum"], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"{who}: dictum does not build (see above)")
    return os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "release", "dictum")
