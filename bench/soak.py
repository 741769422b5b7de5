#!/usr/bin/env python3
"""A switch under load for a long time, while everything around it changes: is every packet accounted for?

    bench/soak.py [--seconds N] [--rate PPS] [--kind packet|xdp] [--cores N] [--p4jet FILE] [--json FILE]

Needs root and iproute2. Creates and removes two network namespaces: the generator's, with `p4jet traffic`, and
the switch's, with `p4jet run` of programs/simple_router, connected by veth pairs. While frames flow, one of a hundred of
them malformed:

* entries are added, changed and deleted through one `p4jet ctl`, without pause;
* interfaces go down and up, are deleted and recreated, and a port is removed and added, more than once per second;
* every few seconds another program replaces the running one, or one that does not compile is refused.

Twice a second the switch's own numbers must add up: received + copies = done + sent + not sent + waiting + dropped, by
reason. At the end nothing changes any more, and all frames sent then must arrive. Memory, threads and descriptors must
not grow, the log must contain no error, and all commands must have succeeded. Otherwise the exit status is 1.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GEN, SW = f"p4jg{os.getpid()}", f"p4js{os.getpid()}"
DST = "02:00:00:00:00:02"
PAIRS = 3
# Maximum growth of the median of memory in use from the second quarter of the time to the last: it rises and falls with
# each reload. In a run shorter than SETTLED_SECONDS, memory still rises to its steady level, which is about 80 MiB.
GROWTH_BYTES_MAX = 8 << 20
EARLY_GROWTH_BYTES_MAX = 32 << 20
SETTLED_SECONDS = 120
ENTRIES_MAX = 500
FIXED_ENTRIES = (
    "table_add ipv4_lpm set_nhop 10.0.1.0/24 => 10.0.1.2 1\n"
    f"table_add forward set_dmac 10.0.1.2 => {DST}\n"
    "table_add send_frame rewrite_mac 1 => 02:00:00:00:01:01\n"
)
# Words that a log line must not contain.
BAD_WORDS = ("error", "panic", "no longer used", "failed", "the log ends")


def sh(*command):
    out = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if out.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {out.stdout.strip()}")
    return out.stdout


def add_pair(i):
    """The generator's g<i> and the switch's s<i>, up."""
    sh("ip", "link", "add", f"g{i}", "netns", GEN, "type", "veth", "peer", "name", f"s{i}", "netns", SW)
    for namespace, name in ((GEN, f"g{i}"), (SW, f"s{i}")):
        # Otherwise the kernel sends frames of its own.
        quiet = f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6"
        sh("ip", "netns", "exec", namespace, "sh", "-c", quiet)
        sh("ip", "-n", namespace, "link", "set", name, "up")


class Ctl:
    """A `p4jet ctl --json` that stays connected."""

    def __init__(self, p4jet, socket):
        self.process = subprocess.Popen(
            [p4jet, "ctl", "--json", "--socket", socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"ctl ended at `{command}`")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Soak:
    """A run: its concurrent events, and the errors found."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.stop = threading.Event()
        self.wrong = []
        self.count = dict.fromkeys(("rules", "flaps", "reloads", "refused", "samples"), 0)
        self.memory = []
        self.handles = []

    def fail(self, what):
        if len(self.wrong) < 20:
            print(f"WRONG: {what}", file=sys.stderr, flush=True)
        self.wrong.append(what)

    def worker(self, work, pause):
        """Repeats `work` until the end, on a thread; what it raises is wrong."""

        def run():
            ctl, chance = Ctl(self.args.p4jet, self.socket), random.Random(work.__name__)
            try:
                while not self.stop.is_set():
                    work(ctl, chance)
                    self.stop.wait(pause)
            except Exception as error:
                self.fail(f"{work.__name__}: {error}")
            finally:
                ctl.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def rule(self, ctl, chance):
        """Changes one entry. They are for addresses to which nothing is sent."""
        what = chance.random()
        if len(self.handles) < 50 or (what < 0.4 and len(self.handles) < ENTRIES_MAX):
            # Some exist already.
            prefix = f"10.{chance.randrange(128, 256)}.{chance.randrange(256)}.0/24"
            answer = ctl.ask(f"table_add ipv4_lpm set_nhop {prefix} => 10.0.1.2 {chance.randrange(4)}")
            if answer["ok"]:
                self.handles.append(answer["data"]["handle"])
            elif answer["error"].get("code") != "DUPLICATE_ENTRY":
                raise RuntimeError(f"table_add: {answer}")
        else:
            at = chance.randrange(len(self.handles))
            if what < 0.7:
                command = f"table_modify ipv4_lpm _drop {self.handles[at]}"
            else:
                command = f"table_delete ipv4_lpm {self.handles.pop(at)}"
            answer = ctl.ask(command)
            if not answer["ok"]:
                raise RuntimeError(f"{command}: {answer}")
        self.count["rules"] += 1

    def flap(self, ctl, chance):
        """Disturbs one port, and puts it right again."""
        i, kind = chance.randrange(PAIRS), chance.randrange(3)
        if kind == 0:
            namespace, name = chance.choice(((SW, f"s{i}"), (GEN, f"g{i}")))
            sh("ip", "-n", namespace, "link", "set", name, "down")
            time.sleep(chance.uniform(0, 0.3))
            sh("ip", "-n", namespace, "link", "set", name, "up")
        elif kind == 1:
            sh("ip", "-n", SW, "link", "del", f"s{i}")
            time.sleep(chance.uniform(0, 0.3))
            add_pair(i)
        else:
            for command in (f"port_remove {i}", f"port_add {self.args.kind}:s{i} {i}"):
                answer = ctl.ask(command)
                if not answer["ok"]:
                    raise RuntimeError(f"{command}: {answer}")
        self.count["flaps"] += 1

    def reload(self, ctl, chance):
        """Another program, or one that does not compile."""
        name = chance.choice([name for name in self.programs if name != getattr(self, "last", None)])
        self.last = name
        answer = ctl.ask(f"load {self.programs[name]}")
        if answer["ok"] == (name == "wrong"):
            raise RuntimeError(f"load {name}: {answer}")
        self.count["refused" if name == "wrong" else "reloads"] += 1

    def sample(self, ctl, _chance):
        """Do the switch's numbers add up?"""
        stats = self.stats(ctl)
        came = stats["received"] + stats["copies"]
        went = stats["done"] + stats["sent"] + stats["not_sent"] + stats["waiting"]
        went += sum(drop["packets"] for drop in stats["drops"] + stats["no_port"])
        if came != went:
            self.fail(f"{came} packets and copies, {went} accounted for: {stats}")
        with open(f"/proc/{self.switch.pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        descriptors = len(os.listdir(f"/proc/{self.switch.pid}/fd"))
        self.memory.append((int(lines["VmRSS"].split()[0]) << 10, int(lines["Threads"]), descriptors))
        self.count["samples"] += 1

    def stats(self, ctl):
        answer = ctl.ask("stats")
        if not answer["ok"]:
            raise RuntimeError(f"stats: {answer}")
        return answer["data"]

    def lost(self, ctl):
        """Frames that the kernel had no room for, by the switch's count."""
        return sum(port["extra"]["lost"] for port in ctl.ask("show_ports")["data"])

    def write_programs(self):
        """Programs that differ, with the same tables; one has more, one is wrong."""
        with open(os.path.join(ROOT, "programs/simple_router/simple_router.p4")) as file:
            router = file.read()
        more = (
            "counter(256, CounterType.packets_and_bytes) seen;\n    table more {\n"
            "        key = { hdr.ipv4.protocol : exact; }\n        actions = { NoAction; }\n    }\n    apply {\n"
            "        seen.count((bit<32>) hdr.ipv4.protocol);\n        more.apply();\n"
        )
        at = router.index("apply {", router.index("control ingress"))
        texts = {
            "router": router,
            "other": router.replace("hdr.ipv4.ttl > 1", "hdr.ipv4.ttl > 2"),
            "more": router[:at] + more + router[at + len("apply {") :],
            "wrong": router.replace("hdr.ipv4.ttl > 1", "hdr.ipv4.nothing > 1"),
        }
        assert len(set(texts.values())) == len(texts)
        self.programs = {}
        for name, text in texts.items():
            self.programs[name] = os.path.join(self.folder, f"{name}.p4")
            with open(self.programs[name], "w") as file:
                file.write(text)

    def start(self):
        """Starts the switch and waits until it forwards."""
        self.write_programs()
        self.socket = os.path.join(self.folder, "switch.sock")
        entries = os.path.join(self.folder, "entries.cmd")
        with open(entries, "w") as file:
            file.write(FIXED_ENTRIES)
        ports = [word for i in range(PAIRS) for word in ("-i", f"{i}@{self.args.kind}:s{i}")]
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "w") as log:
            self.switch = subprocess.Popen(
                ["ip", "netns", "exec", SW, self.args.p4jet, "run", self.programs["router"], "--commands", entries]
                + ["--control", self.socket, "--cores", str(self.args.cores)] + ports,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        end = time.monotonic() + 30
        while "forwarding between" not in self.said():
            if self.switch.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the switch did not start:\n{self.said()}")
            time.sleep(0.05)

    def said(self):
        with open(self.log) as log:
            return log.read()

    def traffic(self, seconds, rate, *more):
        """`p4jet traffic` from port 0 to port 1."""
        words = ["--send", "g0", "--receive", "g1", "--json", "--seconds", str(seconds), "--rate", str(rate), *more]
        return subprocess.Popen(
            ["ip", "netns", "exec", GEN, self.args.p4jet, "traffic", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
        )

    def run(self):
        """All of it; a summary."""
        seconds = self.args.seconds
        self.start()
        load = self.traffic(seconds / 1.1, self.args.rate, "--malformed", "0.01", "--size", "128")
        threads = [
            self.worker(*what)
            for what in ((self.rule, 0.002), (self.flap, 0.4), (self.reload, self.args.reload), (self.sample, 0.5))
        ]
        end = time.monotonic() + seconds + 60
        while load.poll() is None and time.monotonic() < end and self.switch.poll() is None:
            time.sleep(0.2)
        self.stop.set()
        for thread in threads:
            thread.join()
        if load.poll() is None:
            load.kill()
            self.fail("the generator did not end")
        out = load.communicate()[0]
        if load.returncode != 0:
            self.fail(f"the generator failed: {out}")
        if self.switch.poll() is not None:
            self.fail(f"the switch has ended:\n{self.said()}")
            return {}
        loaded = json.loads(out)
        calm = self.calm()
        self.judge_memory()
        self.switch.send_signal(signal.SIGTERM)
        if self.switch.wait(20) != 0:
            self.fail(f"the switch ended with status {self.switch.returncode}")
        for line in self.said().splitlines():
            # An interface that disappears just when it is opened is no error, and neither are programs that must be
            # refused.
            meant = "No such device" in line or "wrong.p4 is not loaded" in line
            if any(word in line.lower() for word in BAD_WORDS) and not meant:
                self.fail(f"the log says: {line}")
        total = self.last_stats
        drops = {drop["reason"]: drop["packets"] for drop in total["drops"]}
        return {
            "seconds": seconds, **self.count, "offered": loaded["sent"], "not_offered": loaded["not_sent"], "malformed": loaded["malformed"],
            "received": total["received"], "sent": total["sent"], "not_sent": total["not_sent"], "dropped": drops,
            "no_port": sum(drop["packets"] for drop in total["no_port"]), "came_back": loaded["received"],
            "calm": calm, "memory_mib": self.memory_mib, "wrong": len(self.wrong),
        }

    def calm(self):
        """Nothing changes any more: every frame that is sent must arrive, and be counted."""
        ctl = Ctl(self.args.p4jet, self.socket)
        answer = ctl.ask(f"load {self.programs['router']}")
        if not answer["ok"]:
            self.fail(f"load: {answer}")
        end = time.monotonic() + 20
        while not all(port["up"] for port in ctl.ask("show_ports")["data"]):
            if time.monotonic() > end:
                self.fail(f"a port stays down: {ctl.ask('show_ports')}")
                break
            time.sleep(0.1)
        # Frames that other ends send when their link comes up.
        time.sleep(0.5)
        before, before_lost = self.stats(ctl), self.lost(ctl)
        # On a busy machine the switch may have to wait long.
        sent = json.loads(self.traffic(2, min(self.args.rate, 1000)).communicate(timeout=30)[0])
        time.sleep(0.2)
        after = self.last_stats = self.stats(ctl)
        came = {what: after[what] - before[what] for what in ("received", "sent", "not_sent")}
        lost = self.lost(ctl) - before_lost
        if not (sent["sent"] == came["received"] + lost and came["received"] == came["sent"] == sent["received"]):
            self.fail(f"after the load, traffic measured {sent}, the switch {came}, and the kernel lost {lost}")
        if sent["reordered"]:
            self.fail(f"{sent['reordered']} packets out of order")
        entries = ctl.ask("table_num_entries ipv4_lpm")["data"]
        if entries != len(self.handles) + 1:
            self.fail(f"{entries} entries in ipv4_lpm, expected {len(self.handles) + 1}")
        self.sample(ctl, None)
        ctl.close()
        return sent["received"]

    def judge_memory(self):
        quarter = max(1, len(self.memory) // 4)
        early, late = self.memory[quarter : 2 * quarter] or self.memory, self.memory[-quarter:]
        before, after = (statistics.median(rss for rss, *_ in part) for part in (early, late))
        self.memory_mib = [round(rss / 2**20, 1) for rss in (before, after)]
        growth_max = GROWTH_BYTES_MAX if self.args.seconds >= SETTLED_SECONDS else EARLY_GROWTH_BYTES_MAX
        if after > before + growth_max:
            self.fail(f"memory grew from {self.memory_mib[0]} to {self.memory_mib[1]} MiB")
        for n, what in ((1, "threads"), (2, "descriptors")):
            first, last = max(sample[n] for sample in early), self.memory[-1][n]
            if last > first:
                self.fail(f"{last} {what} at the end, at most {first} before")

    def end(self):
        """Whatever happened."""
        self.stop.set()
        switch = getattr(self, "switch", None)
        if switch is not None and switch.poll() is None:
            switch.kill()
            switch.wait()


def main():
    """Creates the network, runs, prints the result, removes the network."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--rate", type=float, default=50_000, help="frames per second")
    options.add_argument("--kind", choices=("packet", "xdp"), default="packet", help="kind of the switch's ports")
    options.add_argument("--cores", type=int, default=1, help="number of workers")
    options.add_argument("--reload", type=float, default=3, help="seconds between reloads")
    options.add_argument("--p4jet", default=os.path.join(ROOT, "target/release/p4jet"))
    options.add_argument("--json", help="a file for the summary")
    args = options.parse_args()
    args.p4jet = os.path.abspath(args.p4jet)
    with tempfile.TemporaryDirectory(prefix="p4jet-soak-") as folder:
        soak = Soak(args, folder)
        try:
            for namespace in (GEN, SW):
                sh("ip", "netns", "add", namespace)
                sh("ip", "-n", namespace, "link", "set", "lo", "up")
            for i in range(PAIRS):
                add_pair(i)
            summary = soak.run()
        finally:
            soak.end()
            for namespace in (GEN, SW):
                subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL, check=False)
    text = json.dumps(summary)
    print(text)
    if args.json:
        with open(args.json, "w") as file:
            file.write(text + "\n")
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
