"""p4jet in Mininet: a switch and a host like those of the P4 tutorials' `p4_mininet.py`, with the same arguments.

    from p4jet_mn import P4Host, P4Switch
    net = Mininet(topo=topo, host=P4Host, switch=P4Switch, controller=None)

A script that has such classes of its own can keep them: a link named `simple_switch` to p4jet is all that it needs.
"""

import itertools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time

from mininet.log import error, info
from mininet.node import Host, Switch

# Compiling a program takes milliseconds; machines may be slow.
START_SECONDS = 30


class P4Host(Host):
    """A host without offloads, so that captures on it show what was on the wire, and without IPv6."""

    def config(self, **params):
        result = super().config(**params)
        for interface in self.intfNames():
            if shutil.which("ethtool"):
                self.cmd(f"ethtool --offload {interface} rx off tx off sg off")
        for scope in ("all", "default", "lo"):
            self.cmd(f"echo 1 > /proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        return result


class P4Switch(Switch):
    """p4jet as Mininet's switch: `s1-eth1` is port 1.

    sw_path: a p4jet, or a link to one that is named simple_switch.
    json_path: the program. A .p4, or the JSON that p4c made of one: the source is found beside it.
    thrift_port: where `simple_switch_CLI --thrift-port` finds the switch; counted up from 9090 if not given.
    commands: a file of runtime commands, carried out before the switch counts as started.
    """

    _ids = itertools.count()

    def __init__(
        self,
        name,
        sw_path="p4jet",
        json_path=None,
        thrift_port=None,
        pcap_dump=False,
        log_console=False,
        log_file=None,
        verbose=False,
        device_id=None,
        enable_debugger=False,
        commands=None,
        **kwargs,
    ):
        super().__init__(name, **kwargs)
        found = shutil.which(sw_path)
        if found is None:
            raise FileNotFoundError(f"{name}: no program {sw_path}: expected the path of p4jet as sw_path")
        if json_path is None or not os.path.isfile(json_path):
            raise FileNotFoundError(f"{name}: no file {json_path}: expected a .p4 or .json as json_path")
        # Resolves a link to p4jet: p4jet interprets the name of an emulated program as its first argument.
        self.sw_path = os.path.realpath(found)
        self.json_path = json_path
        # Counting up the ids of switches is not part of their state.
        count = next(P4Switch._ids)
        self.device_id = count if device_id is None else device_id
        self.thrift_port = thrift_port or 9090 + count
        self.pcap_dump = pcap_dump
        self.log_console = log_console
        self.log_file = log_file or f"/tmp/p4s.{name}.log"
        self.verbose = verbose
        self.enable_debugger = enable_debugger
        self.commands = commands
        self.process = None

    def start(self, controllers):
        """Starts p4jet, waits until it listens, and gives it its entries."""
        words = [self.sw_path, "simple_switch"]
        for port, interface in self.intfs.items():
            if interface.name != "lo" and not interface.IP():
                words += ["-i", f"{port}@{interface.name}"]
        if self.pcap_dump:
            words.append("--pcap" if self.pcap_dump is True else f"--pcap={self.pcap_dump}")
        words += ["--thrift-port", str(self.thrift_port), "--device-id", str(self.device_id)]
        if self.enable_debugger:
            words.append("--debugger")
        if self.log_console:
            words.append("--log-console")
        words.append(self.json_path)
        info(shlex.join(words) + "\n")
        with open(self.log_file, "w") as log:
            self.process = self.popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} did not start:\n{open(self.log_file).read()}")
            time.sleep(0.02)
        if self.commands:
            self.configure(open(self.commands).read())

    def listens(self):
        """Whether the switch answers on its control port and forwards."""
        if "forwarding between" not in open(self.log_file).read():
            return False
        if self.inNamespace:
            return True
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.thrift_port)) == 0

    def configure(self, commands):
        """Carries out runtime commands; what they print. One that fails raises an error."""
        words = [self.sw_path, "simple_switch_CLI", "--thrift-port", str(self.thrift_port), "--strict"]
        process = self.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = process.communicate(commands.encode(), timeout=60)[0].decode(errors="replace")
        if process.returncode != 0:
            raise RuntimeError(f"{self.name}: a runtime command failed:\n{said}")
        return said

    def stop(self, deleteIntfs=True):
        """Ends p4jet."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                error(f"{self.name} does not end\n")
                self.process.kill()
                self.process.wait()
            if self.verbose:
                info(open(self.log_file).read())
            self.process = None
        super().stop(deleteIntfs)
