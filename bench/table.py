#!/usr/bin/env python3
"""Make the README's table from bench/results/cpu.jsonl: medians over the turns, and ours over the best peer's.

usage: table.py [--results FILE] [--into README.md]     without --into: print it
In the file that --into names, what stands between `<!-- table: cpu -->` and `<!-- end of table -->` is replaced.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys

bench = pathlib.Path(__file__).resolve().parent
begin, end = "<!-- table: cpu -->", "<!-- end of table -->"

ap = argparse.ArgumentParser()
ap.add_argument("--results", type=pathlib.Path, default=bench / "results/cpu.jsonl")
ap.add_argument("--into", type=pathlib.Path)
A = ap.parse_args()

lines = [json.loads(line) for line in A.results.read_text().splitlines() if line.strip()]
machine, rows = lines[0], lines[1:]
if "machine" not in machine:
    sys.exit(f"{A.results}: the first line does not say on which machine")

taken = collections.defaultdict(lambda: collections.defaultdict(list))
for row in rows:
    if "pipelined_us" in row:
        taken[row["workload"]][row["peer"]].append(row)

names = list(dict.fromkeys(row["peer"] for row in rows))
peers = [n for n in names if n != "reprise"]


def middle(workload, peer, field="pipelined_us"):
    some = taken[workload].get(peer)
    return statistics.median(row[field] for row in some) if some else None


def cell(value):
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


table = ["| rung | reprise | " + " | ".join(peers) + " | ours / best | first call, ms |",
         "| --- |" + " ---: |" * (len(peers) + 3)]
for workload in taken:
    ours, theirs = middle(workload, "reprise"), [middle(workload, p) for p in peers]
    best = min((t for t in theirs if t is not None), default=None)
    ratio = f"{ours / best:.2f}" if ours is not None and best else ""
    table.append(f"| {workload} | " + " | ".join(map(cell, [ours, *theirs])) +
                 f" | {ratio} | {cell(middle(workload, 'reprise', 'first_call_ms'))} |")

versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items() if any(p.startswith(k) for p in peers))
text = (f"Microseconds of a pipelined call, medians of {machine['runs']} alternating runs at scale {machine['scale']} on "
        f"{machine['cores']} cores of an {machine['machine']} ({versions}; {machine['date'][:10]}, commit "
        f"{machine['commit'][:8]}, load before the run {machine['load_before']:.1f}).\n\n" + "\n".join(table) + "\n")

if A.into is None:
    print(text, end="")
else:
    page = A.into.read_text()
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        sys.exit(f"{A.into}: needs one {begin} and after it one {end}")
    head, rest = page.split(begin)
    A.into.write_text(f"{head}{begin}\n{text}{end}{rest.split(end)[1]}")
