"""A node with a wrong clock: what it asks the system for is answered by a shim in C, which the loader puts before the C library.

A time namespace does not shift the clock of the day, and setting that of the machine would be wrong for all nodes alike."""

import shutil
import time
from datetime import datetime, timezone

from harness.processes import Missing, run

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t which, struct timespec *out) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = next(which, out);
    const char *ahead = getenv("CLOCK_AHEAD_SECONDS");
    if (!code && ahead && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) out->tv_sec += atol(ahead);
    return code;
}
"""


def ahead(work, seconds):
    """What a node is started under so that its clock is ahead."""
    if not shutil.which("cc"):
        raise Missing("needs cc, to build a clock that is wrong")
    source, shim = work / "clock.c", work / "clock.so"
    source.write_text(SHIM)
    run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"])
    return ["env", f"LD_PRELOAD={shim}", f"CLOCK_AHEAD_SECONDS={seconds}"]


def of_log(lines):
    """How many seconds the clock is ahead that wrote the last of these lines of a log."""
    written = datetime.fromisoformat(lines[-1].split()[0].replace("Z", "+00:00"))
    return (written if written.tzinfo else written.replace(tzinfo=timezone.utc)).timestamp() - time.time()
