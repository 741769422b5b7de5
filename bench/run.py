#!/usr/bin/env python3
"""How fast is p4jet, compared with the same programs in handwritten C and as DPDK SWX pipelines? Writes results.md and results.json.

bench/run.py [PEERS_DIR] [--only WORD,…] [--rounds 5] [--seconds 1] [--small] [--out FOLDER] [--p4jet FILE]

PEERS_DIR contains workload.py (entries and packets of l2 and l3), hand/hand_bench.c, and swx/ with swx_bench.c and its
pipelines. Without it, only the workloads without a peer run. SWX requires that pkg-config finds libdpdk, that the environment
variable SWX_INTERNAL names the folder lib/pipeline of DPDK's source, and that 1600 huge pages are free.

In every round the competitors run in turn on one core, so that a noisy machine disturbs all of them: ratios are medians of
paired runs, and only ratios from one run of this command are comparable. The script checks that all do the same work: both
engines of p4jet must have the same digest of each capture, and the peers the same shares of packets by port.
"""
import argparse, dataclasses, datetime, glob, json, os, platform, shlex, shutil, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HERE = os.path.join(ROOT, "bench")
HUGE_PAGES = 1600
# SWX takes a minute and a half to load and warm up with 100 000 routes.
TIMEOUT_S = 600
NOT_IN_TWO_MINUTES = "does not load in two minutes"


@dataclasses.dataclass
class Workload:
    name: str
    program: str
    # The command that generates entries.cmd and packets.pcap: these words, the number of entries, a folder, and further
    # words.
    generator: list
    n: int
    more: list = dataclasses.field(default_factory=list)
    # The program's name in the peers.
    peer: str = ""
    swx: bool = False
    # Why the line of SWX is empty.
    swx_note: str = ""
    # Goals: ratios to peers, million packets per second, time to load, memory of tables.
    hand_min: float = 0
    swx_min: float = 0
    mpps_min: float = 0
    load_s_max: float = 0
    entry_bytes_max: float = 0
    table_bytes_max: int = 0
    # Number of entries that are deleted and added again while packets flow.
    churn: int = 0


def workloads(peers):
    shipped = lambda name: os.path.join(ROOT, "programs", name, f"{name}.p4")
    own = lambda name: os.path.join(HERE, "programs", f"{name}.p4")
    script = lambda *words: [sys.executable, os.path.join(HERE, words[0]), *words[1:]]
    found = []
    if peers:
        generator = [sys.executable, os.path.join(peers, "workload.py")]
        for kind, program, floors in [
            ("l2", "basic_l2", {64: (0.75, 7), 1024: (0.75, 7), 100_000: (0.80, 4), 1_000_000: (0.80, 0)}),
            ("l3", "simple_router", {64: (0.70, 8), 1024: (0.70, 8), 100_000: (0.80, 20), 1_000_000: (0.80, 0)}),
        ]:
            for n, (hand, swx) in floors.items():
                million = n == 1_000_000
                found.append(Workload(
                    f"{kind} {n}", shipped(program), [*generator, kind], n, peer=kind, swx=not million,
                    swx_note=NOT_IN_TWO_MINUTES if million else "", hand_min=hand, swx_min=swx,
                    load_s_max=2 if million else 0,
                    # 48 bits of key and 9 of action data are 8 bytes.
                    entry_bytes_max=2.5 * 8 if million and kind == "l2" else 0,
                    table_bytes_max=128 << 20 if million and kind == "l3" else 0,
                    churn=1024 if n == 100_000 else 0))
        for kind, program in [("l2", "basic_l2"), ("l3", "simple_router")]:
            # The capture takes as much memory as one of 65,536 small packets.
            found.append(Workload(f"{kind} 1024, 1500 bytes", shipped(program), [*generator, kind], 1024,
                                  ["--size", "1500", "--packets", "2800"], peer=kind))
    for n, floor in [(1000, 6), (10_000, 3)]:
        found.append(Workload(f"acl {n}", shipped("acl_router"), script("acl.py", "acl"), n, mpps_min=floor, churn=n))
    found.append(Workload("ipv6 200000", own("ipv6_router"), script("ipv6.py"), 200_000, mpps_min=12, churn=1024))
    found.append(Workload("twelve tables", own("twelve_tables"), script("twelve_tables.py"), 1024, mpps_min=6))
    found.append(Workload("deep tunnel", own("deep_tunnel"), script("deep_tunnel.py"), 1024, mpps_min=15))
    return found


def run(command, pinned=False, **more):
    if pinned:
        # SWX chooses its own core.
        more["preexec_fn"] = lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, **more)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def p4jet_built():
    run(["cargo", "build", "--release", "--quiet"], cwd=ROOT)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/p4jet")


def hand_built(peers, work):
    binary = os.path.join(work, "hand_bench")
    run(["cc", "-O3", "-march=native", os.path.join(peers, "hand/hand_bench.c"), "-o", binary])
    return binary


def swx_built(peers, work):
    """The binary, or why there is none."""
    if subprocess.run(["pkg-config", "--exists", "libdpdk"]).returncode != 0:
        return None, "pkg-config does not know libdpdk (Debian: libdpdk-dev, libpcap-dev)"
    internal = os.environ.get("SWX_INTERNAL", "")
    if not os.path.exists(os.path.join(internal, "rte_swx_pipeline_internal.h")):
        return None, "SWX_INTERNAL does not name lib/pipeline of DPDK's source (apt-get source dpdk)"
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") as f:
        free = int(f.read())
    if free < HUGE_PAGES:
        return None, (f"{free} huge pages are free, {HUGE_PAGES} needed "
                      "(/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages)")
    binary = os.path.join(work, "swx_bench")
    flags = run(["pkg-config", "--cflags", "--libs", "libdpdk"]).split()
    source = os.path.join(peers, "swx/swx_bench.c")
    run(["cc", "-O3", "-march=native", "-DALLOW_EXPERIMENTAL_API", source, "-o", binary, *flags, "-ldl"])
    return binary, ""


def swx_run(command):
    """Its last line, or nothing if it takes too long; what it leaves in /tmp is removed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            out = None
        for left in glob.glob(f"/tmp/swx_{process.pid}.*"):
            os.remove(left)
    if out is None:
        return None
    if process.returncode != 0:
        sys.exit(f"{shlex.join(command)}: status {process.returncode}\n{out}{err}")
    return json.loads(out.splitlines()[-1])


def shares(per_port, drops):
    """Of the packets, by port."""
    total = sum(per_port) + drops or 1
    return [n / total for n in per_port]


def summary(rates):
    return {"median": statistics.median(rates), "min": min(rates), "max": max(rates), "runs": rates}


def measure(w, o, tools, folder):
    """Everything about one workload."""
    n, more = (min(w.n, 64), [*w.more, "--packets", "512"]) if o.small else (w.n, w.more)
    generator = [*w.generator, str(n), folder, *more]
    run(generator)
    entries, packets = os.path.join(folder, "entries.cmd"), os.path.join(folder, "packets.pcap")
    result = {"workload": w.name, "program": os.path.relpath(w.program, ROOT),
              "generator": shlex.join(shortened(generator, tools))}
    seconds = str(o.seconds)
    bench = [tools["p4jet"], "bench", w.program, "--commands", entries, "--pcap", packets, "--json", "--seconds"]
    commands = {"p4jet": [*bench, seconds]}
    result["digest"] = json.loads(run([*bench, "0.01", "--engine", "interp"]))["digest"]
    if w.peer and tools["hand"]:
        commands["hand"] = [tools["hand"], w.peer, entries, packets, seconds]
    if w.swx and tools["swx"]:
        commands["swx"] = [tools["swx"], os.path.join(o.peers, "swx", f"{w.peer}.spec"),
                           os.path.join(folder, "entries.swx"), packets, seconds]
    lines = {name: [] for name in commands}
    for _ in range(o.rounds):
        for name, command in list(commands.items()):
            line = swx_run(command) if name == "swx" else json.loads(run(command, pinned=True))
            if line is None:
                del commands["swx"], lines["swx"]
                result["swx_note"] = f"takes more than {TIMEOUT_S} s to load and warm up"
            else:
                lines[name].append(line)
    ours = lines["p4jet"]
    if {line["digest"] for line in ours} != {result["digest"]}:
        sys.exit(f"{w.name}: the digest is not the interpreter's, {result['digest']}, in every round")
    for name in lines.keys() - {"p4jet"}:
        theirs = lines[name][0]
        # SWX does not report drops.
        drops = ours[0]["drops"] if "drops" in theirs else 0
        mine = shares([ours[0]["per_port"].get(str(p), 0) for p in range(4)], drops)
        other = shares(theirs["per_port"], theirs.get("drops", 0))
        if any(abs(x - y) > 0.01 for x, y in zip(mine, other)):
            sys.exit(f"{w.name}: shares of packets by port are {mine}, those of {name} {other}")
    rates = {name: [line["mpps"] for line in runs] for name, runs in lines.items()}
    result["mpps"] = {name: summary(runs) for name, runs in rates.items()}
    result["ratios"] = {name: statistics.median(x / y for x, y in zip(rates["p4jet"], runs))
                        for name, runs in rates.items() if name != "p4jet"}
    result["commands"] = {name: shlex.join(shortened(c, tools)) for name, c in commands.items()}
    result["entries"] = ours[0]["entries"]
    for key in ("compile_ms", "load_ms", "memory_bytes"):
        result[key] = statistics.median(line[key] for line in ours)
    for name, more in [("stages", ["--stages"]), *([("churn", ["--churn", str(min(w.churn, n))])] if w.churn else [])]:
        command = [*commands["p4jet"], *more]
        line = json.loads(run(command))
        if {line["digest"], line.get("stages_digest", line["digest"])} != {result["digest"]}:
            sys.exit(f"{w.name}: with {' '.join(more)} the digest differs")
        result["commands"][name] = shlex.join(shortened(command, tools))
        result.update({key: line[key] for key in ("stages", "stages_sum_ns", "whole_ns", "churn") if key in line})
    if w.swx_note or (w.swx and not tools["swx"]):
        result["swx_note"] = w.swx_note or tools["swx_note"]
    result["goals"] = [] if o.small else goals(w, result)
    return result


# Changes per second during which the packet rate must not fall.
PACE = 300_000


def goals(w, result):
    """What was to be reached: each with what came out."""
    found = []

    def goal(what, got, least=None, most=None):
        met = got >= least if least is not None else got <= most
        found.append({"goal": what, "least": least, "most": most, "got": got, "met": met})

    if w.hand_min and "hand" in result["ratios"]:
        goal("ratio to handwritten C", result["ratios"]["hand"], least=w.hand_min)
    if w.swx_min and "swx" in result["ratios"]:
        goal("ratio to SWX", result["ratios"]["swx"], least=w.swx_min)
    if w.mpps_min:
        goal("Mpps", result["mpps"]["p4jet"]["median"], least=w.mpps_min)
    if w.load_s_max:
        goal("seconds to load", result["load_ms"] / 1e3, most=w.load_s_max)
    if w.entry_bytes_max:
        goal("bytes per entry", result["memory_bytes"] / result["entries"], most=w.entry_bytes_max)
    if w.table_bytes_max:
        goal("MiB of tables", result["memory_bytes"] / 2**20, most=w.table_bytes_max / 2**20)
    if "churn" in result:
        churn = result["churn"]
        goal("changes per second", churn["changes_per_second"], least=PACE)
        # The ratio counts only if about this many changes were made.
        goal("paced changes per second", churn["paced_per_second"], least=0.9 * PACE)
        goal("rate during changes", churn["ratio"], least=0.8)
        if churn["effect_us_max"] is not None:
            goal("µs to effect", churn["effect_us_max"], most=1000)
    return found


def shortened(command, tools):
    """As one would type it."""
    names = {tools["p4jet"]: "p4jet", tools["hand"]: "hand_bench", tools["swx"]: "swx_bench", sys.executable: "python3"}
    drop = [ROOT + "/", tools["work"] + "/"]
    words = []
    for word in command:
        word = names.get(word, word)
        for prefix in drop:
            word = word.removeprefix(prefix)
        words.append(word)
    return words


def machine():
    def read(path, key):
        try:
            with open(path) as f:
                return next((l.split(":", 1)[1].strip() for l in f if l.startswith(key)), "unknown")
        except OSError:
            return "unknown"
    return {"cpu": read("/proc/cpuinfo", "model name"), "cpus": os.cpu_count(),
            "memory": read("/proc/meminfo", "MemTotal"), "system": f"{platform.system()} {platform.release()}",
            "load": os.getloadavg()}


def commit():
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def spread(s):
    return f"{s['min']:.1f}–{s['max']:.1f}"


def rate_cells(result, name):
    s = result["mpps"].get(name)
    if not s:
        return ["–", "–"] if name == "p4jet" else ["–", "–", "–"]
    cells = [f"{s['median']:.1f}", spread(s)]
    return cells if name == "p4jet" else [*cells, f"{result['ratios'][name]:.2f}"]


def goal_text(g):
    sign, limit = ("≥", g["least"]) if g["least"] is not None else ("≤", g["most"])
    got = f"{g['got']:.3g}" if g["got"] < 1000 else f"{g['got']:.0f}"
    return f"{g['goal']} {sign} {limit:.6g}: {'met' if g['met'] else 'missed'} ({got})"


def goals_text(result, which):
    return "; ".join(goal_text(g) for g in result["goals"] if which(g["goal"])) or "–"


# Goals that are shown in the table of control figures.
CONTROL_GOALS = {"seconds to load", "bytes per entry", "MiB of tables", "changes per second", "paced changes per second",
                 "rate during changes", "µs to effect"}
RATES = ["workload", "p4jet, Mpps", "spread", "handwritten C", "spread", "ratio", "SWX", "spread", "ratio", "goals"]


def rates_row(result):
    return [result["workload"], *rate_cells(result, "p4jet"), *rate_cells(result, "hand"), *rate_cells(result, "swx"),
            goals_text(result, lambda goal: goal not in CONTROL_GOALS)]


CONTROL = ["workload", "entries", "load time, ms", "table bytes per entry", "changes per second: rate ratio",
           "paced changes per second: rate ratio", "µs to effect: median, 99 %, maximum", "goals"]


def control_row(result):
    churn = result.get("churn")
    cells = ["–"] * 3
    if churn:
        us = [churn[f"effect_us_{share}"] for share in ("median", "p99", "max")]
        cells = [f"{churn['changes_per_second']:.0f}: {churn['ratio_at_most_changes']:.2f}",
                 f"{churn['paced_per_second']:.0f}: {churn['ratio']:.2f}",
                 "–" if None in us else ", ".join(f"{x:.1f}" for x in us)]
    return [result["workload"], str(result["entries"]), f"{result['load_ms']:.1f}",
            f"{result['memory_bytes'] / max(result['entries'], 1):.0f}", *cells,
            goals_text(result, lambda goal: goal in CONTROL_GOALS)]


STAGES = ["stage", "ns", "total ns", "cycles", "packets"]


def stages_rows(result):
    sum_ns = 0
    for stage in result["stages"]:
        sum_ns += stage["ns"]
        yield [stage["stage"], f"{stage['ns']:.2f}", f"{sum_ns:.2f}", f"{stage['cycles']:.1f}",
               f"{100 * stage['packets']:.0f} %"]
    yield ["undivided pipeline", "", f"{result['whole_ns']:.2f}", "", ""]


def table(header, rows):
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def markdown(report):
    m = report["machine"]
    text = [f"{report['date']}, commit {report['commit']}, `{report['command']}`; {m['cpu']}, {m['cpus']} CPUs, "
            f"{m['memory']}, {m['system']}, load at start {m['load'][0]:.1f}. Medians of {report['rounds']} rounds of "
            f"{report['seconds']:g} s; the spread is from minimum to maximum; a ratio is the median over all rounds.",
            table(RATES, map(rates_row, report["workloads"]))]
    notes = {}
    for r in report["workloads"]:
        if "swx_note" in r:
            notes.setdefault(r["swx_note"], []).append(r["workload"])
    text += [f"SWX with {', '.join(names)}: {note}." for note, names in notes.items()]
    text += ["Digests of all packets equal the interpreter's (they are in results.json)."]
    text += ["### Control", "A second thread makes changes one by one (`p4jet bench --churn`): at full speed, and at 300,000 per "
             "second. The ratio is that of the packet rate to the rate without changes. Memory includes that of "
             "the control plane.", table(CONTROL, map(control_row, report["workloads"]))]
    text += ["### Stages", "For each packet received (`p4jet bench --stages`): the pipeline is cut after each stage, and every cut "
             "has a cost, so the sum exceeds the cost of the undivided pipeline. This code is not adapted to the packets, "
             "unlike that for the rates."]
    for r in report["workloads"]:
        text += [f"{r['workload']}:", table(STAGES, stages_rows(r))]
    return "\n\n".join(text) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("peers", nargs="?", metavar="PEERS_DIR")
    a.add_argument("--only", default="", metavar="WORD,…", help="only workloads whose name contains one of these")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--small", action="store_true", help="few entries and packets: a functional test without meaningful figures")
    a.add_argument("--out", default=os.path.join(ROOT, "target/bench"), metavar="FOLDER")
    a.add_argument("--p4jet", metavar="FILE", help="p4jet to measure; built here by default")
    o = a.parse_args()
    if o.rounds < 1:
        a.error("--rounds: expected at least 1")
    if not o.seconds > 0:
        a.error("--seconds: expected more than 0")
    if o.peers and not os.path.isfile(os.path.join(o.peers, "workload.py")):
        a.error(f"{o.peers}: expected a folder with workload.py, hand/ and swx/")
    if o.p4jet and not os.access(o.p4jet, os.X_OK):
        a.error(f"--p4jet: {o.p4jet} is not a program that can be run")
    only = [word for word in o.only.split(",") if word]
    names = [w.name for w in workloads(o.peers)]
    for word in only:
        if not any(word in name for name in names):
            a.error(f"--only: no workload name contains '{word}'; the names are: {'; '.join(names)}")
    try:
        os.makedirs(o.out, exist_ok=True)
    except OSError as error:
        a.error(f"--out: {error}")
    with tempfile.TemporaryDirectory() as work:
        tools = {"p4jet": o.p4jet or p4jet_built(), "hand": None, "swx": None, "swx_note": "", "work": work}
        if o.peers:
            tools["hand"] = hand_built(o.peers, work)
            tools["swx"], tools["swx_note"] = swx_built(o.peers, work)
        report = {"date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine(),
                  "command": shlex.join(["bench/run.py", *sys.argv[1:]]), "rounds": o.rounds, "seconds": o.seconds,
                  "workloads": []}
        for w in workloads(o.peers):
            if only and not any(word in w.name for word in only):
                continue
            folder = os.path.join(work, w.name.replace(" ", "-").replace(",", ""))
            report["workloads"].append(measure(w, o, tools, folder))
            shutil.rmtree(folder)
            print(" | ".join(rates_row(report["workloads"][-1])), file=sys.stderr, flush=True)
            # Written each time, because later runs may fail.
            with open(os.path.join(o.out, "results.json"), "w") as f:
                json.dump(report, f, indent=1, ensure_ascii=False)
            with open(os.path.join(o.out, "results.md"), "w") as f:
                f.write(markdown(report))
    print(markdown(report))
    missed = [f"{w['workload']}: {goal['goal']}" for w in report["workloads"] for goal in w["goals"] if not goal["met"]]
    print(f"goals missed: {', '.join(missed) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()
