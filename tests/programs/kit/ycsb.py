"""Java YCSB's six core workloads over a small RESP binding of ours. YCSB itself verifies what it reads (dataintegrity)."""

from harness.processes import Failure, run, say

from .packages import java, place

RECORDS = 10_000
THREADS = 32
# What workloads/workloada to workloadf of YCSB set; E counts scans of up to 100 records, so fewer operations.
ZIPFIAN, LATEST = "requestdistribution=zipfian", "requestdistribution=latest"
WORKLOADS = {
    "A": (20_000, ZIPFIAN, "readproportion=0.5", "updateproportion=0.5"),
    "B": (20_000, ZIPFIAN, "readproportion=0.95", "updateproportion=0.05"),
    "C": (20_000, ZIPFIAN, "readproportion=1", "updateproportion=0"),
    "F": (20_000, ZIPFIAN, "readproportion=0.5", "updateproportion=0", "readmodifywriteproportion=0.5"),
    "D": (20_000, LATEST, "readproportion=0.95", "updateproportion=0", "insertproportion=0.05"),
    "E": (2_000, ZIPFIAN, "readproportion=0", "updateproportion=0", "scanproportion=0.95", "insertproportion=0.05",
          "maxscanlength=100", "scanlengthdistribution=uniform"),
}


def figures(printed):
    """YCSB's figures, as {(section, name): number}."""
    rows = (line.split(", ") for line in printed.splitlines() if line.startswith("["))
    return {(row[0].strip("[]"), row[1]): float(row[2]) for row in rows if len(row) == 3}


def phase(context, cluster, name, records, operations, *properties):
    """One run of YCSB's client; fails unless every operation, and every check of what was read, was right."""
    told = {"hosts": ",".join(context.addresses(cluster)), "recordcount": records, "operationcount": operations,
            "threadcount": THREADS, "dataintegrity": "true", "fieldlengthdistribution": "constant",
            "workload": "site.ycsb.workloads.CoreWorkload", "measurementtype": "hdrhistogram"}
    words = [word for one in [*(f"{key}={value}" for key, value in told.items()), *properties] for word in ("-p", one)]
    kind = "-load" if name == "load" else "-t"
    done = run(java(place("ycsb"), "site.ycsb.Client", "-db", "RespClient", kind, *words), 900, check=False)
    (context.work / f"{name}.log").write_text(done.stdout + done.stderr)
    found = figures(done.stdout)
    wrong = {key: count for key, count in found.items() if key[1].startswith("Return=") and key[1] != "Return=OK"}
    right = sum(count for key, count in found.items() if key[1] == "Return=OK" and key[0] not in ("VERIFY", "READ-MODIFY-WRITE"))
    if done.returncode != 0 or wrong or "FAILED" in done.stderr or right < operations:
        raise Failure(f"workload {name}: {right:.0f} operations of {operations} were right, and there were {wrong}; "
                      f"see {context.work}/{name}.log")
    if name in "ABCDF" and not found.get(("VERIFY", "Return=OK")):
        raise Failure(f"workload {name}: YCSB verified nothing that it read; see {context.work}/{name}.log")
    return found


def ycsb(context):
    """Java YCSB: the workloads A to F, 10,000 records of 1 KB, 32 clients on all three nodes, each read verified."""
    with context.cluster() as cluster:
        cluster.reply(cluster.nodes[0], "flushall")
        phase(context, cluster, "load", RECORDS, RECORDS)
        records = RECORDS
        for name, (operations, *properties) in WORKLOADS.items():
            found = phase(context, cluster, name, records, operations, *properties)
            records += int(found.get(("INSERT", "Operations"), 0))
            parts = [f"{kind.lower()} mean {found[kind, 'AverageLatency(us)'] / 1000:.1f} "
                     f"p99 {found[kind, '99thPercentileLatency(us)'] / 1000:.1f} ms"
                     for kind in ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE") if (kind, "Operations") in found]
            say(f"  {name}: {found['OVERALL', 'Throughput(ops/sec)']:.0f} operations a second; {'; '.join(parts)}")
            for node in cluster.nodes:
                sizes = cluster.reply(node, "dbsize"), cluster.reply(node, "zcard", "_indices")
                if sizes != (str(records + 1), str(records)):
                    raise Failure(f"after {name} {node.name} has {sizes} keys and members of the index, not {records + 1} and {records}")
    return f"{sum(one[0] for one in WORKLOADS.values())} operations, all right, and what was read was what had been written"


SESSIONS = {"ycsb": ycsb}
