#!/usr/bin/env python3
"""Throughput of programs/vxlan_gateway over memory ports, by entries, frame size and cores.

    bench/gateway.py [PEERS_DIR] [--entries 100,1000,...] [--sizes 64,128,...] [--cores 1,2] [--rounds N] [--seconds S]
                     [--swx-max N] [--p4jet FILE] [--json FILE] [--svg FILE]

Measures inbound (a tunnel starts) and outbound (one ends) packets of bench/vxlan_gateway.py: all numbers of entries at the
smallest size on one core, all sizes with the fewest entries, and all numbers of cores with the fewest entries. Each round
covers all of these; the output has medians, minima and maxima. Sizes include the four bytes of the FCS; sizes too small for
a packet with its tunnel are skipped.

With PEERS_DIR, DPDK SWX is measured in turn, with bench/programs/vxlan_gateway.spec, on one core with at most --swx-max
entries (bench/run.py lists the requirements; PEERS_DIR/swx/swx_bench.c runs it); the ratio is the median over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from options import number, numbers
from run import swx_built, swx_run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "programs", "vxlan_gateway", "vxlan_gateway.p4")
SPEC = os.path.join(ROOT, "bench", "programs", "vxlan_gateway.spec")
SMALLEST = {"inbound": 64, "outbound": 114}


def workload(folder, entries, direction, size, packets=None):
    """A folder with entries.cmd and packets.pcap of bench/vxlan_gateway.py; as many packets as fill a cache if not said."""
    path = os.path.join(folder, f"{direction}-{entries}-{size}")
    if not os.path.isdir(path):
        subprocess.run([sys.executable, os.path.join(ROOT, "bench", "vxlan_gateway.py"), str(entries), path, direction,
                        "--bytes", str(size), "--packets", str(packets or max(2048, (1 << 22) // size))],
                       check=True)
    return path


def measure(args, path, cores):
    command = [args.p4jet, "bench", PROGRAM, "--commands", os.path.join(path, "entries.cmd"), "--pcap",
               os.path.join(path, "packets.pcap"), "--seconds", str(args.seconds), "--json", "--cores", str(cores)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    # Too long for the tunnel: nothing to measure.
    return None if report["drops"] else report["mpps"]


def measure_swx(args, swx, path):
    line = swx_run([swx, SPEC, os.path.join(path, "entries.swx"), os.path.join(path, "packets.pcap"), str(args.seconds)])
    # It takes too long to load.
    if line is None:
        return None
    if not line["packets"] or line["packets"] != line["per_port"][1]:
        sys.exit(f"SWX: packets by port are {line['per_port']}, expected all to be sent to port 1")
    return line["mpps"]


def cells(result, is_beside_swx):
    """Of a table's row, for one direction."""
    spread = lambda s: f"{s[0]:.2f}–{s[1]:.2f}"
    found = [f"{result['mpps']:.2f}", spread(result["spread"])] if result else [""] * 2
    if is_beside_swx:
        found += ([f"{result['swx_mpps']:.2f}", spread(result["swx_spread"]), f"{result['ratio']:.1f}"]
                  if result and "ratio" in result else [""] * 3)
    return found


def plot(results, file):
    """Packets a second by entries, both directions, as SVG."""
    lines = {d: [(r["entries"], r["mpps"]) for r in results if r["direction"] == d and r["kind"] == "entries"]
             for d in SMALLEST}
    top = max(mpps for points in lines.values() for _, mpps in points) * 1.1
    counts = sorted({n for points in lines.values() for n, _ in points})
    x = {n: 70 + 480 * i / max(1, len(counts) - 1) for i, n in enumerate(counts)}
    y = lambda mpps: 280 - 250 * mpps / top
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="12">',
           '<rect width="640" height="340" fill="white"/>']
    step = 1 if top < 8 else 2 if top < 16 else 5
    for mpps in range(0, int(top) + 1, step):
        out.append(f'<path d="M70 {y(mpps):.1f}H550" stroke="#ddd"/><text x="62" y="{y(mpps) + 4:.1f}" '
                   f'text-anchor="end">{mpps}</text>')
    for n in counts:
        out.append(f'<text x="{x[n]:.1f}" y="300" text-anchor="middle">{n:,}</text>')
    for (direction, points), color in zip(lines.items(), ("#1f77b4", "#d62728")):
        path = " ".join(f"{x[n]:.1f},{y(mpps):.1f}" for n, mpps in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{x[n]:.1f}" cy="{y(mpps):.1f}" r="3" fill="{color}"/>' for n, mpps in points]
        out.append(f'<text x="558" y="{y(points[-1][1]) + 4:.1f}" fill="{color}">{direction}</text>')
    out.append('<text x="310" y="326" text-anchor="middle">entries</text><text x="16" y="155" text-anchor="middle" '
               'transform="rotate(-90 16 155)">million packets a second, one core</text></svg>')
    with open(file, "w") as svg:
        svg.write("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="?", metavar="PEERS_DIR")
    parser.add_argument("--entries", type=numbers(1, 1000000), default="100,1000,10000,100000,1000000")
    parser.add_argument("--sizes", type=numbers(64, 1518, least=0), default="64,128,256,512,1024,1280,1518")
    parser.add_argument("--cores", type=numbers(1, 64, least=0), default="1,2")
    parser.add_argument("--rounds", type=number(1), default=5)
    parser.add_argument("--seconds", type=number(0.01, 3600, float), default=0.5)
    # SWX compares each new entry with all existing ones: 100,000 take minutes.
    parser.add_argument("--swx-max", type=number(0), default=10_000, help="maximum number of entries for SWX")
    parser.add_argument("--p4jet", default=os.path.join(ROOT, "target/release/p4jet"))
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--svg", help="file for a plot of rate by entries")
    args = parser.parse_args()
    entries, sizes, cores = args.entries, args.sizes, args.cores
    if not os.path.exists(args.p4jet):
        sys.exit(f"no {args.p4jet}: build it with `cargo build --release`, or give --p4jet FILE")
    cases = []
    for direction, smallest in SMALLEST.items():
        cases += [("entries", direction, n, smallest, 1) for n in entries]
        cases += [("sizes", direction, entries[0], size, 1) for size in sizes if size >= smallest]
        cases += [("cores", direction, n, smallest, k) for n in (entries[0], entries[-1]) for k in cores if k > 1]
    rates = {case: [] for case in cases}
    swx_rates = {case: [] for case in cases if args.peers and case[4] == 1 and case[2] <= args.swx_max}
    with tempfile.TemporaryDirectory(prefix="p4jet-gateway") as folder:
        swx = None
        if args.peers:
            swx, why = swx_built(args.peers, folder)
            if not swx:
                print(f"left out: DPDK SWX: {why}", file=sys.stderr)
                swx_rates = {}
        paths = {case: workload(folder, case[2], case[1], case[3]) for case in cases}
        for _ in range(args.rounds):
            for case in cases:
                rates[case].append(measure(args, paths[case], case[4]))
                if case in swx_rates and rates[case][-1]:
                    swx_rates[case].append(measure_swx(args, swx, paths[case]))
    results = []
    for case, rate in rates.items():
        if None in rate:
            continue
        kind, direction, n, size, k = case
        results.append({"kind": kind, "direction": direction, "entries": n, "bytes": size, "cores": k,
                        "mpps": statistics.median(rate), "spread": [min(rate), max(rate)]})
        swx_rate = swx_rates.get(case, [None])
        if None not in swx_rate:
            results[-1] |= {"swx_mpps": statistics.median(swx_rate), "swx_spread": [min(swx_rate), max(swx_rate)],
                            "ratio": statistics.median(x / y for x, y in zip(rate, swx_rate))}
    for kind, key, heading in (("entries", "entries", "entries"), ("sizes", "bytes", "bytes with FCS"),
                               ("cores", None, "cores")):
        rows = {}
        for r in results:
            if r["kind"] == kind:
                name = f"{r[key]:,}" if key else f"{r['cores']}, {r['entries']:,} entries"
                rows.setdefault(name, {})[r["direction"]] = r
        if not rows:
            continue
        is_beside_swx = any("ratio" in r for row in rows.values() for r in row.values())
        headings = [heading]
        for d in SMALLEST:
            headings += [f"{d}, Mpps", "spread", *(["SWX, Mpps", "spread", "ratio"] if is_beside_swx else [])]
        print("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|")
        for name, row in rows.items():
            print("| " + " | ".join([name, *(c for d in SMALLEST for c in cells(row.get(d), is_beside_swx))]) + " |")
        print()
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"command": sys.argv, "results": results}, file, indent=1)
    if args.svg:
        plot(results, args.svg)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        # The command has printed the reason.
        sys.exit(f"bench/gateway.py: {os.path.basename(error.cmd[0])} failed with status {error.returncode}")
