#!/usr/bin/env python3
"""How close is p4jet to the same program written by hand in C? One Markdown table, medians of paired runs.

bench/compare.py PEERS_DIR [--p4jet target/release/p4jet] [--rounds 5] [--seconds 1] [--entries 64,1024,100000]

PEERS_DIR holds workload.py (entries and packets) and hand/hand_bench.c (the peer). Both sides run in turn in every round, so
that a noisy machine disturbs both; compare ratios, not figures of different days. Outputs are checked: p4jet must send as
many packets to each port, in proportion, as the peer.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = {"l2": "basic_l2", "l3": "simple_router"}


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def shares(counts):
    total = sum(counts) or 1
    return [n / total for n in counts]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("peers")
    a.add_argument("--p4jet", default=os.path.join(ROOT, "target/release/p4jet"))
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--entries", default="64,1024,100000")
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as work:
        hand = os.path.join(work, "hand_bench")
        source = os.path.join(o.peers, "hand/hand_bench.c")
        subprocess.run(["cc", "-O3", "-march=native", source, "-o", hand], check=True)
        print("| workload | entries | p4jet, Mpps | spread | by hand in C, Mpps | spread | ratio |")
        print("|---|---|---|---|---|---|---|")
        for kind, program in PROGRAMS.items():
            for n in map(int, o.entries.split(",")):
                folder = os.path.join(work, f"{kind}-{n}")
                workload = os.path.join(o.peers, "workload.py")
                subprocess.run([sys.executable, workload, kind, str(n), folder], check=True)
                entries, packets = f"{folder}/entries.cmd", f"{folder}/packets.pcap"
                p4 = os.path.join(ROOT, f"programs/{program}/{program}.p4")
                ours, theirs = [], []
                for _ in range(o.rounds):
                    m = run([o.p4jet, "bench", p4, "--commands", entries, "--pcap", packets,
                             "--seconds", str(o.seconds), "--json"])
                    h = run([hand, kind, entries, packets, str(o.seconds)])
                    mine = shares([m["per_port"].get(str(p), 0) for p in range(4)])
                    if any(abs(x - y) > 0.01 for x, y in zip(mine, shares(h["per_port"]))):
                        sys.exit(f"{kind} {n}: the outputs differ: {mine} and {shares(h['per_port'])}")
                    ours.append(m["mpps"])
                    theirs.append(h["mpps"])
                ratio = statistics.median(x / y for x, y in zip(ours, theirs))
                spread = lambda v: f"{min(v):.0f}–{max(v):.0f}"
                print(f"| {kind} | {n} | {statistics.median(ours):.1f} | {spread(ours)} "
                      f"| {statistics.median(theirs):.1f} | {spread(theirs)} | {ratio:.2f} |", flush=True)


main()
