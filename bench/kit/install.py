"""Gets what the benchmarks need: Redis from the distribution's packages; etcd, NATS and our load programs built by Go; Cassandra by Maven;
the rest by cargo."""

import os
import shutil
import subprocess

from .machine import BENCH, ROOT, WORK, BenchError, run

BIN = WORK / "bin"


def redis(say):
    """Makes sure that redis-server, redis-cli and redis-benchmark are there."""
    missing = [t for t in ("redis-server", "redis-cli", "redis-benchmark") if not shutil.which(t)]
    if not missing:
        return
    wanted = f"{', '.join(missing)} not found. Install the packages redis-server and redis-tools"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise BenchError(wanted + " (run as root on a Debian system, bench/peers does it itself)")
    say("installing redis-server and redis-tools (once)")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    # A policy that forbids starting services: the package's own Redis must not run beside the measured one.
    policy, had_policy = "/usr/sbin/policy-rc.d", os.path.exists("/usr/sbin/policy-rc.d")
    if not had_policy:
        with open(policy, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 101\n")
        os.chmod(policy, 0o755)
    try:
        run(["apt-get", "update"], env=quiet)
        run(["apt-get", "install", "-y", "--no-install-recommends", "redis-server", "redis-tools"], env=quiet)
    finally:
        if not had_policy:
            os.remove(policy)


def _go_build(say, what, folder, output, package="."):
    """Builds one Go program into WORK/bin unless it is there and newer than its sources."""
    target = BIN / output
    newest = max(p.stat().st_mtime for p in folder.iterdir())
    if target.exists() and target.stat().st_mtime > newest:
        return
    if not shutil.which("go"):
        raise BenchError(f"Go is needed to build {what}: install Go 1.24 or newer, or leave that side out with --only")
    say(f"building {what} (once)")
    BIN.mkdir(parents=True, exist_ok=True)
    flags = {**os.environ, "GOFLAGS": "-buildvcs=false"}
    run(["go", "build", "-trimpath", "-o", target, package], seconds=3600, cwd=folder, env=flags)


def drive(say):
    """Builds our own small load programs."""
    _go_build(say, "the load programs", BENCH / "drive", "drive")


def etcd(say):
    """Builds the etcd server, through Go's module proxy as it is configured."""
    _go_build(say, "etcd", BENCH / "etcd", "etcd")


def nats(say):
    """Builds the NATS server, through Go's module proxy as it is configured."""
    _go_build(say, "NATS", BENCH / "nats", "nats-server")


def cassandra(say):
    """Lets Maven fetch Cassandra's jars into WORK/bin/cassandra, unless they are there and newer than the list of what is wanted."""
    for tool, package in (("java", "a JDK, 17 (Cassandra 5.0 does not run on newer ones)"), ("mvn", "Maven")):
        if not shutil.which(tool):
            raise BenchError(f"{tool} is needed for Cassandra: install {package}, or leave that side out with --only")
    wanted, target, stamp = BENCH / "cassandra", BIN / "cassandra", BIN / "cassandra" / ".fetched"
    if stamp.exists() and stamp.stat().st_mtime > (wanted / "pom.xml").stat().st_mtime:
        return
    say("fetching Cassandra's jars by Maven (once)")
    shutil.rmtree(target, ignore_errors=True)
    run(["mvn", "-q", "-B", "-f", wanted / "pom.xml", f"-Dmaven.repo.local={WORK / 'maven'}", "dependency:copy-dependencies",
         f"-DoutputDirectory={target}", "-DincludeScope=runtime"], seconds=1800)
    if not list(target.glob("cassandra-all-*.jar")):
        raise BenchError(f"Maven has put no cassandra-all into {target}; run it by hand: mvn -f {wanted / 'pom.xml'} "
                         f"dependency:copy-dependencies -DoutputDirectory={target}")
    stamp.touch()


def _cargo_build(say, what, *arguments):
    """Builds a program of ours as a release; `arguments` are those of `cargo build`."""
    if not shutil.which("cargo"):
        raise BenchError(f"cargo is needed to build {what}: install Rust, or name a built one (see --help)")
    say(f"building {what} (release)")
    done = subprocess.run(["cargo", "build", "--release", *arguments], cwd=ROOT, check=False)
    if done.returncode != 0:
        raise BenchError(f"{what} does not build (see above)")


def peers(say):
    """Builds the program that drives etcd, Cassandra and NATS for the laboratory, and returns its path."""
    manifest = ROOT / "lab-peers" / "Cargo.toml"
    target = ROOT / "lab-peers" / "target"
    _cargo_build(say, "lab-peers", "--manifest-path", str(manifest), "--target-dir", str(target))
    return str(target / "release" / "lab-peers")


def dictum(say, given):
    """Returns the path of the release build of `dictum`; builds it with cargo unless one was named."""
    if given:
        if not os.access(given, os.X_OK):
            raise BenchError(f"{given} is not a program")
        return given
    _cargo_build(say, "dictum", "--bin", "dictum")
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return os.path.join(ROOT, target, "release", "dictum")
