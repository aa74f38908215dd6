"""What Dictum must reach in each row of `dictum lab compare`, and against whom: the project's own targets, not the laboratory's."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """What is asked of one row."""

    # Side → what the ratio of Dictum's figure to that side's must reach: at most this for times, at least for rates.
    against: dict = field(default_factory=dict)
    # The ratio to Redis alone that the project means to come close to; None where there is none.
    ambition: float | None = None
    # The largest figure of Dictum that passes, whatever the others do.
    at_most: float | None = None


TARGETS = {
    "set1": Target({"redis": 2.0, "redis-wait": 0.85, "etcd": 0.4}, 1.4),
    "set256": Target({"redis": 0.45, "redis-wait": 0.9, "etcd": 4.0}, 0.75),
    "set50x16": Target({"redis": 0.4}, 0.6),
    "get256": Target({"redis": 0.6, "etcd": 3.5}, 0.9),
    "get50x16": Target({"redis": 0.45}, 0.8),
    "kill": Target({"etcd": 1.0}, None, 1000.0),
}
# Rows without a target of their own.
OTHERS = ["ycsb-a", "ycsb-b", "ycsb-c"]


def reaches(ratio, target, unit):
    """Whether the ratio is good enough."""
    return ratio <= target if unit == "ms" else ratio >= target


def judge(rows, say):
    """Prints the rows of a comparison (one line of `--append`) against their targets. Returns the marks."""
    marks = []
    for row in rows:
        target, unit = TARGETS.get(row["row"], Target()), row["unit"]
        for side, wanted in target.against.items():
            if side not in row["ratios"]:
                if side in row["sides"]:
                    say(f"  {row['title']:46} {side:11} no figure: in all repeats of a side the load generator was saturated  FAIL")
                    marks.append({"row": row["row"], "against": side, "ratio": None, "target": wanted, "pass": False})
                continue
            found = row["ratios"][side]
            passed = reaches(found["value"], wanted, unit)
            ambition = ""
            if side == "redis" and target.ambition is not None:
                reached = "reached" if reaches(found["value"], target.ambition, unit) else "not reached"
                ambition = f"  ambition {target.ambition}× {reached}"
            spread = f"({found['low']:.2f} … {found['high']:.2f})"
            say(f"  {row['title']:46} {side:11} {found['value']:6.2f}× {spread:15} {'≤' if unit == 'ms' else '≥'} {wanted}×  "
                f"{'pass' if passed else 'FAIL'}{ambition}")
            marks.append({"row": row["row"], "against": side, "ratio": found["value"], "target": wanted, "pass": passed})
        ours = row["sides"].get("dictum")
        if target.at_most is not None and ours and ours["values"]:
            passed = ours["median"] <= target.at_most
            say(f"  {row['title']:46} {'(absolute)':11} {ours['median']:6.0f}   {'':15} ≤ {target.at_most:.0f} ms  "
                f"{'pass' if passed else 'FAIL'}")
            marks.append({"row": row["row"], "against": None, "figure": ours["median"], "target": target.at_most,
                          "pass": passed})
    return marks
