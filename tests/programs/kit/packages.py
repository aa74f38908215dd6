"""Fetches and builds what the programs need: pinned packages, through the machine's ordinary package managers.

Each program's folder is copied into a cache outside of the repository and built there. A stamp with a digest of what
it is built from says whether that has been done."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from harness.processes import Failure, Missing, run, say

PROGRAMS = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("DICTUM_PROGRAMS_CACHE")
             or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dictum-programs")


def _need(tool, what):
    if not shutil.which(tool):
        raise Missing(f"needs {tool} ({what})")


def _python(place):
    run([sys.executable, "-m", "venv", place / "venv"], 300)
    run([place / "venv/bin/pip", "install", "--quiet", "--no-deps", "-r", "requirements.txt"], 900, cwd=place)


def _node(place):
    _need("npm", "Node 20 or newer")
    # Not `npm ci`: it wants the lock to hold optional parts for other systems too.
    run(["npm", "install", "--no-save", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"], 900, cwd=place)


def _go(place):
    _need("go", "Go 1.26 or newer")
    run(["go", "build", "-o", "session", "."], 900, cwd=place, env={**os.environ, "GOFLAGS": "-buildvcs=false"})


def _java(place):
    _need("mvn", "Maven and a JDK, 17 or newer")
    done = run(["mvn", "-q", "-B", f"-Dmaven.repo.local={CACHE / 'maven'}", "compile", "dependency:copy-dependencies"],
               1800, check=False, cwd=place)
    if done.returncode != 0:
        raise Failure("Maven does not build it:\n" + "\n".join(done.stdout.splitlines()[:20]))


# By the file that pins the packages: how they are fetched and built, and which files that depends on.
BUILDERS = {"requirements.txt": (_python, "requirements.txt"), "package-lock.json": (_node, "package*.json"),
            "go.sum": (_go, "**/*"), "pom.xml": (_java, "**/*")}


def _digest(folder, pattern):
    digest = hashlib.sha256()
    for file in sorted(folder.glob(pattern)):
        if file.is_file():
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def place(name):
    """The folder in which that program is built and runs; fetches and builds it if that is not done yet."""
    source, there = PROGRAMS / name, CACHE / name
    build, pattern = next((how for file, how in BUILDERS.items() if (source / file).exists()), (None, None))
    if not build:
        return source
    stamp, digest = there / "built", _digest(source, pattern)
    if not stamp.exists() or stamp.read_text() != digest:
        say(f"  {name}: fetching and building its packages (once)")
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(source, there)
        build(there)
        stamp.write_text(digest)
    else:
        shutil.copytree(source, there, dirs_exist_ok=True)
    return there


def java(there, main, *words):
    """A command that runs a Java program built in that folder."""
    return ["java", "-cp", f"{there / 'target/classes'}:{there / 'target/dependency'}/*", main, *words]
