#!/usr/bin/env python3
"""The controller of l2_learning: adds stations that the switch has seen, removes those that have been silent.

    controller.py [--socket PATH] [--ports 0,1,2,3] [--age SECONDS] [P4JET]

It speaks to the running switch by `p4jet ctl`: one process gives it messages, another takes its commands, each a line
of JSON. Flooding goes to the ports that `show_ports` lists, or to those given.
"""

import argparse
import json
import subprocess
import sys


class Switch:
    """Commands to a switch, and its messages."""

    def __init__(self, p4jet, socket):
        base = [p4jet, "ctl"] + (["--socket", socket] if socket else [])
        both = subprocess.PIPE
        topics = ["subscribe", "digests", "ageing", "ports", "--json"]
        self.listening = subprocess.Popen(base + topics, stdout=both, text=True)
        self.ctl = subprocess.Popen(base + ["--json"], stdin=both, stdout=both, text=True)

    def command(self, line):
        """Carries out a command; what it found, or made. None if it was refused."""
        self.ctl.stdin.write(line + "\n")
        self.ctl.stdin.flush()
        answer = json.loads(self.ctl.stdout.readline())
        if not answer["ok"]:
            print(f"{line}: {answer['error']['text']}", file=sys.stderr)
            return None
        return answer.get("data", {})

    def messages(self):
        """Digests, aged entries and ports, as they come."""
        for line in self.listening.stdout:
            yield json.loads(line)


class Learner:
    """What the controller knows: for each station its port and the handles of its entries."""

    def __init__(self, switch, ports, age_ms):
        self.switch, self.given_ports, self.age_ms = switch, ports, age_ms
        self.stations = {}
        self.node = None
        self.begin()

    def begin(self):
        """Takes over what an earlier controller left: forgets it, so that it is learned again."""
        self.switch.command("table_clear smac")
        self.switch.command("table_clear dmac")
        self.flood()

    def flood(self):
        """Floods to the ports that there are."""
        ports = self.given_ports
        if ports is None:
            ports = [port["port"] for port in self.switch.command("show_ports") or []]
        text = " ".join(map(str, ports))
        if self.node is None:
            groups = self.switch.command("mc_dump") or {}
            nodes = [n for g in groups.get("groups", []) if g.get("group") == 1 for n in g.get("nodes", [])]
            if nodes:
                self.node = nodes[0]["handle"]
            else:
                self.switch.command("mc_mgrp_create 1")
                self.node = self.switch.command(f"mc_node_create 0 {text}")["handle"]
                self.switch.command(f"mc_node_associate 1 {self.node}")
                return
        self.switch.command(f"mc_node_update {self.node} {text}")

    def learn(self, mac, port):
        """A station sent from a port."""
        known = self.stations.get(mac)
        if known and known["port"] == port:
            return  # Frames that came before the entry was there.
        if known:
            self.forget(mac)  # It has moved.
        smac = self.switch.command(f"table_add smac NoAction {mac} {port} =>")
        dmac = self.switch.command(f"table_add dmac forward {mac} => {port}")
        if smac is None or dmac is None:
            # A table is full: the station is flooded to.
            for table, made in (("smac", smac), ("dmac", dmac)):
                if made is not None:
                    self.switch.command(f"table_delete {table} {made['handle']}")
            return
        self.switch.command(f"table_set_timeout smac {smac['handle']} {self.age_ms}")
        self.stations[mac] = {"port": port, "smac": smac["handle"], "dmac": dmac["handle"]}
        print(f"learned {mac} at port {port}", flush=True)

    def forget(self, mac):
        """A station has moved, or has sent nothing for a while."""
        known = self.stations.pop(mac)
        self.switch.command(f"table_delete smac {known['smac']}")
        self.switch.command(f"table_delete dmac {known['dmac']}")

    def take(self, message):
        """Does what a message asks for."""
        event = message["event"]
        if event == "digest" and message["name"] == "learn_t":
            self.learn(message["fields"]["mac"], int(message["fields"]["port"], 16))
        elif event == "aged" and message["table"].endswith("smac"):
            mac = next((m for m, s in self.stations.items() if s["smac"] == message["handle"]), None)
            if mac is not None:
                self.forget(mac)
                print(f"forgot {mac}", flush=True)
        elif event == "port" and message["change"] in ("added", "removed"):
            self.flood()
            gone = [m for m, s in self.stations.items() if s["port"] == message["port"]]
            for mac in gone if message["change"] == "removed" else []:
                self.forget(mac)
        elif event == "lost":
            # A station that is not learned comes again with its next frame; a silent one does not.
            for entry in (self.switch.command("table_dump smac") or {}).get("entries", []):
                if entry.get("since_hit_ms", 0) > entry.get("timeout_ms", self.age_ms):
                    self.take({"event": "aged", "table": "smac", **entry})


def main():
    """Reads the command line and learns until the switch ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", help="the control socket of the switch")
    parser.add_argument("--ports", help="the ports to flood to; without it all")
    parser.add_argument("--age", type=float, default=300, help="seconds of silence after which a station is forgotten")
    parser.add_argument("p4jet", nargs="?", default="p4jet", help="the p4jet binary")
    args = parser.parse_args()
    ports = None if args.ports is None else [int(port) for port in args.ports.split(",")]
    switch = Switch(args.p4jet, args.socket)
    learner = Learner(switch, ports, int(args.age * 1000))
    for message in switch.messages():
        learner.take(message)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
