"""The rows of the comparison: what is measured, in which unit, and what Dictum must reach against whom."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One kind of work. `figure` is the key of a measurement that the row compares."""

    name: str
    title: str
    figure: str
    unit: str
    # Side → what the ratio of Dictum's figure to that side's must reach: at most this for times, at least for rates.
    targets: dict = field(default_factory=dict)
    # The ratio to Redis alone that the project means to come close to; None where there is none.
    ambition: float | None = None
    # The largest figure of Dictum that passes, whatever the others do.
    at_most: float | None = None
    # redis-benchmark's test, connections and pipeline depth; None for a row that has its own driver.
    load: tuple | None = None

    @property
    def lower_is_better(self):
        """Whether the figure is a time."""
        return self.unit == "ms"

    def reaches(self, ratio, target):
        """Whether the ratio is good enough for the target."""
        return ratio <= target if self.lower_is_better else ratio >= target


ROWS = [
    Row("set1", "SET, 1 client, p50", "p50_ms", "ms", {"redis": 2.0, "redis-wait": 0.85, "etcd": 0.4}, 1.4, None,
        ("set", 1, 1)),
    Row("set256", "SET, 256 clients", "rate", "op/s", {"redis": 0.45, "redis-wait": 0.9, "etcd": 4.0}, 0.75, None,
        ("set", 256, 1)),
    Row("set50x16", "SET, 50 clients, pipeline 16", "rate", "op/s", {"redis": 0.4}, 0.6, None, ("set", 50, 16)),
    Row("get256", "GET linearizable, 256 clients", "rate", "op/s", {"redis": 0.6, "etcd": 3.5}, 0.9, None,
        ("get", 256, 1)),
    Row("get50x16", "GET linearizable, 50 clients, pipeline 16", "rate", "op/s", {"redis": 0.45}, 0.8, None,
        ("get", 50, 16)),
    Row("kill", "kill -9 of the leader under load: longest gap", "gap_ms", "ms", {"etcd": 1.0}, None, 1000.0),
]
BY_NAME = {row.name: row for row in ROWS}
