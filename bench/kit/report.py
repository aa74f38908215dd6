"""Medians, ratios, marks, and the files of results."""

import csv
import json
import statistics


def median(values):
    """The median, or None of nothing."""
    return statistics.median(values) if values else None


def of(results, side, row, figure):
    """The figures of a side in a row, by repeat."""
    return {r["repeat"]: r[figure] for r in results if r["side"] == side and r["row"] == row.name and figure in r}


def ratios(results, row, side):
    """Dictum's figure over the other side's: repeat by repeat where both have one (so that both saw the same
    weather), the ratio of the medians for the kills, which do not come in pairs."""
    ours, theirs = of(results, "dictum", row, row.figure), of(results, side, row, row.figure)
    if row.load is None:
        return [median(list(ours.values())) / median(list(theirs.values()))] if ours and theirs else []
    return [ours[repeat] / theirs[repeat] for repeat in ours if theirs.get(repeat)]


def number(value, unit):
    """A figure for people."""
    if value is None:
        return "–"
    return f"{value:.3f} ms" if unit == "ms" and value < 100 else f"{value:,.0f} {unit}"


def table(results, rows, sides, say):
    """Prints the medians and, where Dictum took part, the ratios against their targets. Returns the marks."""
    marks = []
    say("")
    say("medians (p50 and p99 in ms)")
    for row in rows:
        say(f"  {row.title}")
        for side in sides:
            values = list(of(results, side.name, row, row.figure).values())
            if not values:
                continue
            p50 = median(list(of(results, side.name, row, "p50_ms").values()))
            p99 = median(list(of(results, side.name, row, "p99_ms").values()))
            digits = ",.3f" if row.unit == "ms" and max(values) < 100 else ",.0f"
            spread = f"{min(values):{digits}} … {max(values):{digits}}"
            tail = f"p50 {p50:.3f}  p99 {p99:.3f}" if p50 is not None and p99 is not None else ""
            say(f"    {side.title:34} {number(median(values), row.unit):>16}  {tail:28} n={len(values)}  ({spread})")
    if not any(r["side"] == "dictum" for r in results):
        return marks
    say("")
    say("Dictum against each: median of ratios, target, mark")
    for row in rows:
        for side, target in row.targets.items():
            found = ratios(results, row, side)
            if not found:
                continue
            ratio = median(found)
            passed = row.reaches(ratio, target)
            sign = "≤" if row.lower_is_better else "≥"
            ambition = ""
            if side == "redis" and row.ambition is not None:
                reached = "reached" if row.reaches(ratio, row.ambition) else "not reached"
                ambition = f"  ambition {row.ambition}× {reached}"
            mark = "pass" if passed else "FAIL"
            say(f"  {row.title:46} {side:11} {ratio:6.2f}×  {sign} {target}×  {mark}{ambition}")
            marks.append({"row": row.name, "against": side, "ratio": ratio, "target": target, "pass": passed})
        if row.at_most is not None:
            ours = list(of(results, "dictum", row, row.figure).values())
            if ours:
                figure = median(ours)
                passed = figure <= row.at_most
                mark = "pass" if passed else "FAIL"
                say(f"  {row.title:46} {'(absolute)':11} {figure:6.0f}   ≤ {row.at_most:.0f} ms  {mark}")
                marks.append({"row": row.name, "against": None, "figure": figure, "target": row.at_most,
                              "pass": passed})
    return marks


def write(folder, stamp, machine, results, marks):
    """Writes everything as JSON and the measurements as CSV; returns the JSON file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"peers-{stamp}.json"
    path.write_text(json.dumps({"machine": machine, "results": results, "marks": marks}, indent=1) + "\n")
    columns = ["repeat", "side", "row", "rate", "p50_ms", "p99_ms", "max_ms", "gap_ms", "idle_before", "stolen_before",
               "idle_during", "stolen_during"]
    with open(folder / f"peers-{stamp}.csv", "w", newline="", encoding="ascii") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(results)
    return path
