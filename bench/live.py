#!/usr/bin/env python3
"""Throughput and latency over veth pairs, p4jet compared with the switches of the system.

    bench/live.py [--gateway] [--rounds N] [--seconds S] [--sizes 64,128,...] [--peers NAME,...] [--p4jet FILE]
                  [--json FILE]

Needs root, two processors and iproute2. Creates and removes two network namespaces: the generator's, with
`p4jet traffic`, and the switch's, connected by two veth pairs. The whole work of the switch, including that of the kernel,
stays on one processor (receive packet steering, NAPI threads for XDP); generator and receiver use the other. In every
round the switches take turns, each with every frame size: one run at the generator's full speed, and one at a rate that all
can carry, for the latency. The output has medians, and the range of rates at full speed. A star marks figures that the
generator limited.

Switches that are not installed are skipped with a message: the Linux bridge, IPv4 forwarding of the kernel,
Open vSwitch (openvswitch-switch, user-space datapath), Open vSwitch on DPDK's af_packet devices
(openvswitch-switch-dpdk; 1 GiB of huge pages) and bmv2's simple_switch with a compiled basic_l2.json (--bmv2-json).

--gateway: programs/vxlan_gateway instead, with entries and packets of bench/vxlan_gateway.py for 100 virtual addresses and
routes, inbound (a tunnel starts) and outbound (one ends), compared with the kernel's own routing and VXLAN devices. Sizes are
those of sent frames; outbound, a size too small for a tunnel stands for the smallest that fits one, 114.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import gateway
from options import number, numbers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GEN, SW = f"p4jg{os.getpid()}", f"p4js{os.getpid()}"
DST, SRC = "02:00:00:00:00:02", "02:00:00:00:00:01"


def sh(*command, check=True, quiet=True):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and out.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {out.stdout.strip()}")
    return out.stdout


def inside(namespace, *command, **how):
    return sh("ip", "netns", "exec", namespace, *command, **how)


def write_inside(namespace, path, value):
    inside(namespace, "sh", "-c", f"echo {value} > {path}")


class Network:
    """Both namespaces with g0-s0 and g1-s1 between them."""

    def __init__(self, switch_cpu, generator_cpu, mtu):
        self.mtu = mtu
        self.masks = {SW: 1 << switch_cpu, GEN: 1 << generator_cpu}

    def __enter__(self):
        for namespace in (GEN, SW):
            sh("ip", "netns", "add", namespace)
        for i in (0, 1):
            sh("ip", "link", "add", f"g{i}", "netns", GEN, "type", "veth", "peer", "name", f"s{i}", "netns", SW)
            for namespace, name in ((GEN, f"g{i}"), (SW, f"s{i}")):
                write_inside(namespace, f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", 1)
                write_inside(namespace, f"/sys/class/net/{name}/queues/rx-0/rps_cpus", f"{self.masks[namespace]:x}")
                sh("ip", "-n", namespace, "link", "set", name, "mtu", str(self.mtu), "up")
        # An interface may drop frames for up to a second after it was set up.
        end = time.time() + 5
        while time.time() < end and any("state UP" not in sh("ip", "-n", namespace, "link", "show", name)
                                        for namespace, name in ((GEN, "g0"), (GEN, "g1"), (SW, "s0"), (SW, "s1"))):
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        for namespace in (GEN, SW):
            sh("ip", "netns", "del", namespace, check=False)


def receive_in_threads(cpu):
    """Native XDP on veth runs where the sender runs, which is the generator's processor: it gets threads on the switch's."""
    for i in (0, 1):
        write_inside(SW, f"/sys/class/net/s{i}/threaded", 1)
    for line in sh("ps", "-eo", "pid,comm").splitlines():
        pid, name = line.split(None, 1)
        if name.startswith(("napi/s0-", "napi/s1-")):
            sh("taskset", "-pc", str(cpu), pid)


class Peer:
    """A switch under test: `start` and `stop`; `mac` is where frames are sent to, `mtu` the interfaces'."""

    mac, mtu = DST, 1500

    def __init__(self, args, folder):
        self.args, self.folder, self.processes = args, folder, []

    def frames(self, size):
        """What `p4jet traffic` is to send."""
        return ["--size", str(size), "--dst-mac", self.mac, "--src-mac", SRC]

    def missing(self):
        return None

    def spawn(self, *command, wait=None, timeout=20, env=None):
        log = open(os.path.join(self.folder, f"{self.name.replace(' ', '_')}.log"), "a+")
        if not self.processes:
            # Discards the log of the previous round.
            log.truncate(0)
        process = subprocess.Popen(
            ["ip", "netns", "exec", SW, "taskset", "-c", str(self.args.switch_cpu), *command],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
        )
        self.processes.append(process)
        end = time.time() + timeout
        while wait:
            log.seek(0)
            if wait in log.read():
                break
            if process.poll() is not None or time.time() > end:
                log.seek(0)
                raise RuntimeError(f"{self.name} did not start: {log.read()[-600:]}")
            time.sleep(0.05)
        return process

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


class P4jet(Peer):
    program, kind, entries = "basic_l2", "packet", f"table_add forward set_dest {DST} => 1\n"

    def start(self):
        commands = os.path.join(self.folder, "entries.cmd")
        with open(commands, "w") as file:
            file.write(self.entries)
        program = os.path.join(ROOT, "programs", self.program, self.program + ".p4")
        ports = [part for i in (0, 1) for part in ("-i", f"{i}@{self.kind}:s{i}")]
        self.spawn(self.args.p4jet, "run", program, "--commands", commands, *ports, wait="forwarding between")
        if self.kind == "xdp":
            receive_in_threads(self.args.switch_cpu)


class P4jetPacket(P4jet):
    name = "p4jet, AF_PACKET"


class P4jetXdp(P4jet):
    name, kind = "p4jet, AF_XDP", "xdp"


class P4jetRouter(P4jet):
    """The same work as the kernel's forwarding."""

    name, program = "p4jet router, AF_PACKET", "simple_router"
    entries = (
        "table_add ipv4_lpm set_nhop 10.0.1.0/24 => 10.0.1.2 1\n"
        f"table_add forward set_dmac 10.0.1.2 => {DST}\n"
        "table_add send_frame rewrite_mac 1 => 02:00:00:00:01:01\n"
    )


class P4jetRouterXdp(P4jetRouter):
    name, kind = "p4jet router, AF_XDP", "xdp"


class Gateway(Peer):
    """Entries and packets of the gateway; `direction` is inbound or outbound."""

    # A frame of 1514 bytes with its tunnel headers.
    mtu = 1550

    def workload(self, size):
        size = max(size, gateway.SMALLEST[self.direction])
        return gateway.workload(self.folder, 100, self.direction, size, packets=1024)

    def frames(self, size):
        return ["--pcap", os.path.join(self.workload(size), "packets.pcap")]

    def read_entries(self):
        with open(os.path.join(self.workload(0), "entries.cmd")) as file:
            return file.read()


class P4jetGateway(Gateway, P4jet):
    program = "vxlan_gateway"

    def start(self):
        self.entries = self.read_entries()
        super().start()


class P4jetInbound(P4jetGateway):
    name, direction = "inbound: p4jet, AF_PACKET", "inbound"


class P4jetInboundXdp(P4jetInbound):
    name, kind = "inbound: p4jet, AF_XDP", "xdp"


class P4jetOutbound(P4jetGateway):
    name, direction = "outbound: p4jet, AF_PACKET", "outbound"


class P4jetOutboundXdp(P4jetOutbound):
    name, kind = "outbound: p4jet, AF_XDP", "xdp"


class LinuxGateway(Gateway):
    """The same entries for routing, neighbours and VXLAN devices of the kernel; back ends are a route's next hops."""

    def start(self):
        lines = [line.split() for line in self.read_entries().splitlines()]

        def table(name):
            """Keys and action data of the entries with this action."""
            for words in lines:
                if " ".join(words[1:3]) == name:
                    arrow = words.index("=>")
                    yield words[3:arrow], words[arrow + 1:]

        # Virtual addresses come from where no route leads to them.
        for name in ("all", "default", "s0", "s1"):
            write_inside(SW, f"/proc/sys/net/ipv4/conf/{name}/rp_filter", 0)
        write_inside(SW, "/proc/sys/net/ipv6/conf/default/disable_ipv6", 1)
        write_inside(SW, "/proc/sys/net/ipv4/ip_forward", 1)
        (_, (_, own_mac)), = [*table("attachments external"), *table("attachments underlay")]
        vteps = {keys[0]: data for keys, data in table("encapsulations encapsulate_v4")}
        local = next(iter(vteps.values()))[3]
        # Next hops need addresses, which p4jet's entries do not.
        address = lambda hop: f"172.{16 + int(hop) // 65536}.{int(hop) // 256 % 256}.{int(hop) % 256}"
        device = f"local {local} dstport 4789 srcport 49152 65535 ttl 64 df set nolearning noudpcsum"
        links = [f"link set s{i} address {own_mac}" for i in (0, 1)]
        stations = []
        if self.direction == "inbound":
            links.append(f"addr add {local}/16 dev s1")
            links += [f"neigh add {data[4]} lladdr {data[1]} dev s1 nud permanent" for data in vteps.values()]
            links.append(f"link add vx0 type vxlan id 100 {device}")
            hops = dict((keys[0], data) for keys, data in table("next_hops tunnel"))
            links.append(f"link set vx0 address {next(iter(hops.values()))[3]} mtu 1500 up")
            links.append("addr add 172.31.255.254/12 dev vx0")
            for hop, (vtep, vni, _, _, mac) in hops.items():
                links.append(f"neigh add {address(hop)} lladdr {mac} dev vx0 nud permanent")
                stations.append(f"fdb add {mac} dev vx0 dst {vteps[vtep][4]} vni {vni} self permanent")
            members = [words[3] for words in lines if words[0] == "act_prof_create_member"]
            groups = {}
            for words in lines:
                if words[0] == "act_prof_add_member_to_group":
                    groups.setdefault(words[3], {})[members[int(words[2])]] = True
            pools = {words[2]: words[4] for words in lines if words[0] == "table_indirect_add_with_group"}
            for keys, data in table("hosts_v4 balance"):
                ways = " ".join(f"nexthop via {address(hop)} dev vx0" for hop in groups[pools[data[0]]])
                links.append(f"route add {keys[1]}/32 {ways}")
        else:
            links += [f"addr add {local}/16 dev s0", "addr add 172.31.255.254/12 dev s1"]
            for keys, data in table("vnis into"):
                links.append(f"link add vx{keys[0]} type vxlan id {keys[0]} {device}")
                links.append(f"link set vx{keys[0]} address {data[2]} up")
            for keys, data in table("next_hops local"):
                links.append(f"neigh add {address(keys[0])} lladdr {data[3]} dev s1 nud permanent")
            for keys, data in table("routes_v4 to_next_hop"):
                links.append(f"route add {keys[1]} via {address(data[0])} dev s1")
        for tool, batch in (("ip", links), ("bridge", stations)):
            file = os.path.join(self.folder, f"{self.direction}.{tool}")
            with open(file, "w") as out:
                out.writelines(line + "\n" for line in batch)
            sh(tool, "-n", SW, "-batch", file)


class LinuxInbound(LinuxGateway):
    name, direction = "inbound: Linux, routes and VXLAN", "inbound"


class LinuxOutbound(LinuxGateway):
    name, direction = "outbound: Linux, VXLAN and routes", "outbound"


class Bridge(Peer):
    name = "Linux bridge"

    def start(self):
        sh("ip", "-n", SW, "link", "add", "br0", "type", "bridge")
        write_inside(SW, "/proc/sys/net/ipv6/conf/br0/disable_ipv6", 1)
        for i in (0, 1):
            sh("ip", "-n", SW, "link", "set", f"s{i}", "master", "br0")
        sh("ip", "-n", SW, "link", "set", "br0", "up")
        inside(SW, "bridge", "fdb", "add", DST, "dev", "s1", "master", "static")

    def stop(self):
        sh("ip", "-n", SW, "link", "del", "br0", check=False)


class Forwarding(Peer):
    name = "Linux IPv4 forwarding"

    def start(self):
        for i in (0, 1):
            sh("ip", "-n", SW, "addr", "add", f"10.0.{i}.1/24", "dev", f"s{i}")
        sh("ip", "-n", SW, "neigh", "replace", "10.0.1.2", "lladdr", DST, "dev", "s1", "nud", "permanent")
        write_inside(SW, "/proc/sys/net/ipv4/ip_forward", 1)
        self.mac = inside(SW, "cat", "/sys/class/net/s0/address").strip()

    def stop(self):
        for i in (0, 1):
            sh("ip", "-n", SW, "addr", "flush", "dev", f"s{i}", check=False)
        sh("ip", "-n", SW, "neigh", "flush", "all", check=False)


class Ovs(Peer):
    name, daemon = "Open vSwitch, user space", "ovs-vswitchd"

    def missing(self):
        return None if shutil.which("ovs-vsctl") and shutil.which(self.daemon) else "openvswitch-switch is not installed"

    def start(self):
        self.home = tempfile.mkdtemp(prefix="ovs", dir=self.folder)
        self.env = dict(os.environ, OVS_RUNDIR=self.home, OVS_DBDIR=self.home, OVS_LOGDIR=self.home)
        db = os.path.join(self.home, "conf.db")
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        subprocess.run(["ovsdb-tool", "create", db, schema], check=True, env=self.env)
        sock = f"unix:{self.home}/db.sock"
        self.spawn("ovsdb-server", db, f"--remote=punix:{self.home}/db.sock", env=self.env)
        self.vsctl = ["ovs-vsctl", f"--db={sock}", "--timeout=20"]
        time.sleep(0.5)
        self.control("--no-wait", "init")
        self.before()
        self.spawn(self.daemon, sock, "--pidfile", env=self.env)
        self.control("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        for i in (0, 1):
            name, *settings = self.port(i)
            self.control("add-port", "br0", name, "--", "set", "interface", name, f"ofport_request={i + 1}", *settings)
        subprocess.run(
            ["ovs-ofctl", "add-flow", f"unix:{self.home}/br0.mgmt", f"dl_dst={DST},actions=output:2"],
            check=True, env=self.env,
        )
        time.sleep(0.5)

    def control(self, *command):
        out = subprocess.run(
            ["ip", "netns", "exec", SW, *self.vsctl, *command], env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        if out.returncode != 0:
            raise RuntimeError(f"{self.name}: ovs-vsctl {' '.join(command)}: {out.stdout.strip()}")

    def before(self):
        pass

    def port(self, i):
        return [f"s{i}"]

    def stop(self):
        super().stop()
        for name in ("br0", "ovs-netdev"):
            sh("ip", "-n", SW, "link", "del", name, check=False)


class OvsXdp(Ovs):
    name = "Open vSwitch, AF_XDP"

    def start(self):
        super().start()
        receive_in_threads(self.args.switch_cpu)

    def port(self, i):
        return [f"s{i}", "type=afxdp"]


class OvsDpdk(Ovs):
    name = "Open vSwitch, DPDK af_packet"
    daemon = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"

    def missing(self):
        if not os.path.exists(self.daemon):
            return "openvswitch-switch-dpdk is not installed"
        return None

    def before(self):
        with open("/proc/sys/vm/nr_hugepages") as file:
            self.pages = file.read().strip()
        with open("/proc/sys/vm/nr_hugepages", "w") as file:
            file.write("512")
        self.control("--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
                     f"other_config:pmd-cpu-mask={1 << self.args.switch_cpu:#x}", "other_config:dpdk-socket-mem=512",
                     f"other_config:dpdk-lcore-mask={1 << self.args.switch_cpu:#x}")

    def port(self, i):
        return [f"p{i}", "type=dpdk", f"options:dpdk-devargs=net_af_packet{i},iface=s{i}"]

    def stop(self):
        super().stop()
        with open("/proc/sys/vm/nr_hugepages", "w") as file:
            file.write(self.pages)


class Bmv2(Peer):
    name = "bmv2 simple_switch"

    def missing(self):
        if not shutil.which("simple_switch"):
            return "simple_switch is not on the path"
        return None if self.args.bmv2_json else "--bmv2-json is not given"

    def start(self):
        self.spawn("simple_switch", "-i", "0@s0", "-i", "1@s1", "--log-level", "off", self.args.bmv2_json)
        time.sleep(2)
        subprocess.run(["ip", "netns", "exec", SW, "simple_switch_CLI"], check=True, text=True,
                       input=f"table_add forward set_dest {DST} => 1\n", stdout=subprocess.DEVNULL)


PEERS = {
    "packet": P4jetPacket, "xdp": P4jetXdp, "bridge": Bridge, "ovs": Ovs, "ovs-xdp": OvsXdp, "ovs-dpdk": OvsDpdk,
    "bmv2": Bmv2, "router": P4jetRouter, "router-xdp": P4jetRouterXdp, "forwarding": Forwarding,
}

GATEWAYS = {
    "in-packet": P4jetInbound, "in-xdp": P4jetInboundXdp, "in-linux": LinuxInbound,
    "out-packet": P4jetOutbound, "out-xdp": P4jetOutboundXdp, "out-linux": LinuxOutbound,
}


def traffic(args, peer, size, seconds, rate=None):
    command = ["ip", "netns", "exec", GEN, "taskset", "-c", str(args.generator_cpu), args.p4jet, "traffic", "--json",
               "--send", f"{args.generator}:g0", "--receive", "packet:g1", "--seconds", str(seconds),
               *peer.frames(size)]
    if rate:
        command += ["--rate", str(rate)]
    return json.loads(sh(*command))


def summary(args, name, size, fast, slow):
    """Of the runs at full speed and those for the latency, with the same frames through the same switch."""
    received = sorted(run["received_pps"] for run in fast)
    return {
        "peer": name, "size": size, "received_pps": statistics.median(received), "spread": [received[0], received[-1]],
        "offered_pps": statistics.median(run["sent_pps"] for run in fast),
        "loss": statistics.median(run["lost"] / max(run["sent"], 1) for run in fast),
        "generator_limited": sum(run["generator_limited"] for run in fast) * 2 > len(fast),
        "latency_us": {key: statistics.median(run["latency_us"][key] for run in slow) for key in slow[0]["latency_us"]},
        "latency_rate": args.latency_rate,
        "latency_loss": statistics.median(run["lost"] / max(run["sent"], 1) for run in slow),
    }


def table(results, sizes):
    names = list(dict.fromkeys(r["peer"] for r in results))
    by = {(r["peer"], r["size"]): r for r in results}
    yield "Thousand packets per second received (range), of those offered; * limited by the generator"
    yield ""
    yield "| switch | " + " | ".join(map(str, sizes)) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for name in names:
        cells = []
        for size in sizes:
            r = by.get((name, size))
            if not r:
                cells.append("")
                continue
            low, high = (x / 1e3 for x in r["spread"])
            star = "*" if r["generator_limited"] else ""
            cells.append(f"{r['received_pps'] / 1e3:.0f}{star} ({low:.0f}-{high:.0f}) of {r['offered_pps'] / 1e3:.0f}")
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    yield f"Latency in microseconds at {results[0]['latency_rate']:.0f} packets per second: p50 / p99 / p99.9, medians of rounds"
    yield ""
    yield "| switch | " + " | ".join(map(str, sizes)) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for name in names:
        cells = []
        for size in sizes:
            r = by.get((name, size))
            us = r and r["latency_us"]
            lost = f" ({100 * r['latency_loss']:.1f} % lost)" if r and r["latency_loss"] > 0.001 else ""
            cells.append(f"{us['p50']:.0f} / {us['p99']:.0f} / {us['p99.9']:.0f}{lost}" if us else "")
        yield f"| {name} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=number(1), default=5)
    parser.add_argument("--seconds", type=number(0.01, 3600, float), default=1.0)
    parser.add_argument("--gateway", action="store_true", help="programs/vxlan_gateway and its peers")
    parser.add_argument("--sizes", type=numbers(64, 1518), help="default: 64,128,256,512,1024,1500; for --gateway 64,128,256,512,1024,1280,1518")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)}; for --gateway of {', '.join(GATEWAYS)}")
    parser.add_argument("--p4jet", default=os.path.join(ROOT, "target/release/p4jet"))
    parser.add_argument("--bmv2-json", help="basic_l2 as p4c compiles it for bmv2")
    parser.add_argument("--generator", default="packet", choices=["packet", "xdp"])
    parser.add_argument("--latency-rate", type=number(1, None, float), default=20000, help="packets per second")
    parser.add_argument("--switch-cpu", type=number(0), default=0)
    parser.add_argument("--generator-cpu", type=number(0), default=1)
    parser.add_argument("--json", help="file for all figures")
    args = parser.parse_args()
    peers = GATEWAYS if args.gateway else PEERS
    sizes = args.sizes or [64, 128, 256, 512, 1024, *((1280, 1518) if args.gateway else (1500,))]
    chosen = args.peers.split(",") if args.peers else list(peers)
    for name in chosen:
        if name not in peers:
            parser.error(f"--peers: no `{name}`, there are {', '.join(peers)}")
    if os.geteuid() != 0:
        sys.exit("bench/live.py makes network namespaces: it needs root")
    if not os.path.exists(args.p4jet):
        sys.exit(f"no {args.p4jet}: build it with `cargo build --release`, or give --p4jet FILE")
    # Pairs of a run at full speed and one for latency, by name and size.
    runs, left_out = {}, set()
    with tempfile.TemporaryDirectory(prefix="p4jet-live") as folder:
        for n in range(args.rounds):
            for name in chosen:
                peer = peers[name](args, folder)
                why = peer.missing()
                if why and n == 0:
                    print(f"left out: {peer.name}: {why}", file=sys.stderr)
                if why or name in left_out:
                    continue
                # Each has its own interfaces, so that earlier ones cannot affect it.
                with Network(args.switch_cpu, args.generator_cpu, peer.mtu):
                    try:
                        peer.start()
                        for size in sizes:
                            pair = [traffic(args, peer, size, args.seconds, rate) for rate in (None, args.latency_rate)]
                            runs.setdefault((peer.name, size), []).append(pair)
                    except (RuntimeError, subprocess.CalledProcessError) as error:
                        print(f"left out: {peer.name}: {error}", file=sys.stderr)
                        left_out.add(name)
                    finally:
                        peer.stop()
            print(f"round {n + 1} of {args.rounds}", file=sys.stderr)
    results = [summary(args, name, size, *zip(*pairs)) for (name, size), pairs in runs.items()]
    if not results:
        sys.exit("nothing was measured")
    print("\n".join(table(results, sizes)))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"command": sys.argv, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
