"""Networks of Linux namespaces: :class:`Lab` brings a topology up, :class:`Node` runs programs in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import importlib.util
import ipaddress
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .errors import LabError
from .topology import Link, Topology

if TYPE_CHECKING:
    from .switches import SwitchType

ANSWER_SECONDS = 10.0
"""How long an agent may take to answer."""
CONTROLLER = "controller"
"""The node of controllers, in networks with P4Runtime servers."""
OUTPUT_BYTES_MAX = 64 << 20
"""What a program that :meth:`Node.run` waits for may write."""
LOG_SHOWN = 1500
"""Characters of a log that an error quotes."""
LINES_SHOWN = 30
"""Lines of it."""


class Process:
    """A program that runs in a node. It ends when its network ends."""

    def __init__(self, name: str, connection: socket.socket, pidfd: int, log: Path) -> None:
        self._name = name
        self._connection = connection
        self._pidfd = pidfd
        self._status: int | None = None
        self._lock = threading.Lock()
        self.log = log
        """What the program has written to standard output and standard error."""

    @property
    def pid(self) -> int:
        """The process id as seen from here. Raises :class:`LabError` once the process has ended."""
        with open(f"/proc/self/fdinfo/{self._pidfd}", encoding="ascii") as file:
            pid = next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
        if pid <= 0:
            raise LabError(f"{self._name} has ended: it has no process id any more")
        return pid

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal, or ``None`` while the program runs."""
        return self.poll_for(0.0)

    def wait(self, timeout: float) -> int:
        """Waits for the end and returns the exit status. Raises :class:`LabError` after `timeout` seconds."""
        status = self.poll_for(timeout)
        if status is None:
            raise LabError(f"{self._name} still runs after {timeout:g} s")
        return status

    def poll_for(self, seconds: float) -> int | None:
        """Like :meth:`poll`, but waits up to `seconds` for the end."""
        end = time.monotonic() + seconds
        while True:
            # In short pieces, so that several threads can wait.
            left = end - time.monotonic()
            with self._lock:
                if self._status is None:
                    self._receive(max(0.0, min(left, 0.05)))
                if self._status is not None or left <= 0:
                    return self._status

    def _receive(self, seconds: float) -> None:
        self._connection.settimeout(seconds)
        try:
            answer = self._connection.recv(1000)
        except (TimeoutError, BlockingIOError):
            return
        except ConnectionError:
            answer = b""
        # Without an answer the network has ended, and its processes with it.
        self._status = json.loads(answer)["status"] if answer else -signal.SIGKILL
        self._connection.close()

    def signal(self, number: int) -> None:
        """Sends a signal to the program and its children."""
        # Without the lock: a signal handler may call this while its thread waits.
        if self._status is None:
            with contextlib.suppress(OSError):  # It has just ended.
                self._connection.send(json.dumps({"signal": int(number)}).encode())

    def stop(self, timeout: float = 5.0) -> int:
        """Ends the program: SIGTERM, and after `timeout` seconds SIGKILL. Returns the exit status."""
        self.signal(signal.SIGTERM)
        status = self.poll_for(timeout)
        if status is None:
            self.signal(signal.SIGKILL)
            status = self.wait(timeout)
        return status

    def output(self) -> str:
        """Returns what the program has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def wait_for(self, text: str, timeout: float = 20.0) -> None:
        """Waits until the output contains `text`. Raises :class:`LabError` if the program ends, or after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            # The status first: a program that has ended writes nothing more.
            status = self.poll()
            output = self.output()
            if text in output:
                return
            if status is not None:
                raise LabError(f"{self._name} ended with status {status}: {_tail(output)}")
            if time.monotonic() > end:
                raise LabError(f"{self._name} has not written {text!r} after {timeout:g} s: {_tail(output)}")
            time.sleep(0.02)

    def __del__(self) -> None:
        self._connection.close()
        os.close(self._pidfd)


class _Output:
    """A pipe for the output of a program. What exceeds :data:`OUTPUT_BYTES_MAX` is discarded.

    Children that a program leaves behind may go on writing: a thread reads until the last of them ends.
    """

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self._pipe = open(reader, "rb", buffering=0)
        self.is_full = False
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while piece := self._pipe.read(1 << 16):
                if len(self._data) + len(piece) <= OUTPUT_BYTES_MAX:
                    self._data += piece
                else:
                    self.is_full = True

    def text(self) -> str:
        """Returns what the program has written, once it has ended."""
        end = time.monotonic() + ANSWER_SECONDS
        is_read = False
        while self._thread.is_alive() and not is_read and time.monotonic() < end:
            try:
                # With children, the thread goes on, but what the program itself has written has left the pipe.
                is_read = not select.select([self._pipe], [], [], 0.0)[0]
            except (ValueError, OSError):
                # The thread has just closed it.
                is_read = True
            self._thread.join(0.1)
        return bytes(self._data).decode("utf-8", "replace")


class Node:
    """A host or a switch: its namespaces, its interfaces, and programs that run there."""

    def __init__(self, name: str, interfaces: Mapping[int, str], *, cpu: int | None = None) -> None:
        self.name = name
        self.interfaces = dict(interfaces)
        """The name of the interface at each port."""
        self.links: dict[int, Link] = {}
        """The link at each port."""
        self.macs: dict[int, str] = {}
        """The MAC address of each port."""
        self.peers: dict[int, tuple[Node, str]] = {}
        """The node and the interface at the other end of each port's veth pair, once the network is up."""
        self.cpu = cpu
        """The processor for programs that ask for none."""
        self.folder = Path()
        """For the logs of programs."""
        self.runtime = Path()
        """Short path of a private folder, for sockets."""
        self._logs = 0
        self._processes: list[Process] = []
        """Keeps those that run: a process whose object is gone ends."""

    @property
    def pid(self) -> int:
        """The id of the process that holds the namespaces, as seen from here: for ``nsenter --target``, ``/proc/PID/ns``."""
        with self._connect() as connection:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid: int = struct.unpack("iII", credentials)[0]
        return pid

    def interface(self, port: int) -> str:
        """Returns the interface of a port. Raises :class:`LabError` if no link leads there."""
        if port not in self.interfaces:
            have = ", ".join(map(str, sorted(self.interfaces))) or "none"
            raise LabError(f"{self.name} has no port {port}; ports with links: {have}")
        return self.interfaces[port]

    # ---- programs ----

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30.0,
        check: bool = True,
        cpu: int | None = None,
        env: Mapping[str, str] | None = None,
        input: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end and returns its output. `env` adds to the environment, `input` is its standard input.

        Raises :class:`LabError` if it cannot start, if it runs longer than `timeout` seconds or writes more than
        :data:`OUTPUT_BYTES_MAX` (it is then killed), or, with `check`, if its status is not 0.
        """
        outputs = _Output(), _Output()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(input.encode())
            stdin.seek(0)
            try:
                process = self.start(argv, (stdin.fileno(), outputs[0].writer, outputs[1].writer), cpu=cpu, env=env)
            finally:
                for output in outputs:
                    os.close(output.writer)
        end = time.monotonic() + timeout
        while True:
            status = process.poll_for(min(0.05, max(0.0, end - time.monotonic())))
            is_too_much = any(output.is_full for output in outputs)
            if status is not None or is_too_much or time.monotonic() >= end:
                break
        if status is None:
            process.signal(signal.SIGKILL)
            process.wait(5.0)
        texts = [output.text() for output in outputs]
        command = f"{self.name}: {' '.join(argv)}"
        if any(output.is_full for output in outputs):
            raise LabError(f"{command}: wrote more than {OUTPUT_BYTES_MAX >> 20} MiB and was ended: {_tail(''.join(texts))}")
        if status is None:
            raise LabError(f"{command}: still ran after {timeout:g} s and was killed: {_tail(''.join(texts))}")
        if check and status != 0:
            raise LabError(f"{command}: status {status}: {_tail(''.join(texts))}")
        return subprocess.CompletedProcess(list(argv), status, texts[0], texts[1])

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: Path | None = None,
        cpu: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Starts a program in the background, with its output in the file `log`. `env` adds to the environment.

        The program ends when the :class:`Process` is stopped, and at the latest with the network.
        """
        if log is None:
            self._logs += 1
            log = self.folder / f"{self.name}-{os.path.basename(argv[0])}-{self._logs}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(os.devnull, "rb") as stdin, open(log, "wb") as out:
            process = self.start(argv, (stdin.fileno(), out.fileno(), out.fileno()), cpu=cpu, env=env, log=log)
        self._processes = [other for other in self._processes if other.poll() is None] + [process]
        return process

    def start(
        self,
        argv: Sequence[str],
        descriptors: tuple[int, int, int],
        *,
        cpu: int | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> Process:
        """Starts a program with these descriptors as standard input, output and error. Raises :class:`LabError`.

        The program ends when nothing refers to the :class:`Process` any more.
        """
        try:
            cwd = os.getcwd()
        except FileNotFoundError:
            raise LabError("the current folder has been removed: change to another one") from None
        request = {
            "op": "run",
            "argv": list(argv),
            "env": {**os.environ, **(env or {})},
            "cwd": cwd,
            "cpu": self.cpu if cpu is None else cpu,
        }
        connection = self._connect()
        try:
            socket.send_fds(connection, [json.dumps(request).encode()], descriptors)
            text, received, _, _ = socket.recv_fds(connection, 100_000, 1)
        except OSError as error:
            connection.close()
            if error.errno == errno.EMSGSIZE:
                size = len(json.dumps(request))
                raise LabError(f"{self.name}: {argv[0][:100]}: arguments and environment take {size} bytes, too many; put them into a file") from error
            raise LabError(f"{self.name}: the network has ended, or does not answer: {error}") from error
        answer = json.loads(text) if text else {"error": "the network has ended"}
        if "error" in answer:
            connection.close()
            raise LabError(f"{self.name}: {' '.join(argv)}: {answer['error']}")
        return Process(f"{self.name}: {' '.join(argv)}", connection, received[0], log or Path(os.devnull))

    # ---- requests to the agent ----

    def write(self, path: str, value: object) -> None:
        """Writes a file below /proc or /sys as seen in the node."""
        self._ask("write", path=path, value=str(value))

    def netlink(self, method: str, *args: object, **kwargs: object) -> None:
        """Calls a method of pyroute2's ``IPRoute`` in the node: ``netlink("link", "set", index="eth0", state="up")``.

        An interface may be given by name as `index`, `ifindex`, `master` or `oif`.
        """
        self._ask("netlink", method=method, args=list(args), kwargs=kwargs)

    def set_offloads(self, interface: str, *, gro: bool = False) -> None:
        """Turns off what a cable does not do, checksums and segmentation by hardware; `gro` also selects reception by NAPI."""
        self._ask("offloads", interface=interface, gro=gro)

    def is_running(self, interface: str) -> bool:
        """Returns whether frames can pass an interface."""
        return bool(self._ask("is_running", interface=interface))

    def packet_socket(self, port: int) -> socket.socket:
        """Returns a raw packet socket at a port: ``send`` sends a frame from there, ``recv`` receives what passes, in both directions."""
        _, descriptors = self._request("packet_socket", interface=self.interface(port))
        return socket.socket(fileno=descriptors[0])

    def set_cpu_of_reception(self, interface: str, cpu: int) -> None:
        """Lets one processor do the kernel's work for frames that arrive at an interface (receive packet steering)."""
        # Groups of 32 processors, the last ones first.
        self.write(f"/sys/class/net/{interface}/queues/rx-0/rps_cpus", f"{1 << cpu % 32:x}" + ",00000000" * (cpu // 32))

    def receive_in_thread(self, interface: str, cpu: int) -> None:
        """Lets a thread of the kernel on this processor receive the frames of an interface that receives by NAPI.

        Native XDP on a veth, and a veth with GRO, otherwise receive where the sender runs.
        """
        before = _napi_threads(interface)
        self.write(f"/sys/class/net/{interface}/threaded", 1)
        for pid in _napi_threads(interface) - before:
            try:
                os.sched_setaffinity(pid, {cpu})
            except OSError as error:
                raise LabError(f"{self.name}: the thread napi/{interface}-… cannot be moved: {error.strerror}") from error

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(str(self.runtime / f"{self.name}.sock"))
        except OSError as error:
            connection.close()
            raise LabError(f"{self.name}: its network is not up: {error.strerror}") from error
        return connection

    def _ask(self, op: str, **request: object) -> Any:
        """Returns the result of a request to the agent."""
        return self._request(op, **request)[0].get("result")

    def _request(self, op: str, **request: object) -> tuple[dict[str, Any], list[int]]:
        """Returns the answer of the agent, and the descriptors that came with it."""
        with self._connect() as connection:
            try:
                connection.send(json.dumps({"op": op, **request}).encode())
                text, descriptors, _, _ = socket.recv_fds(connection, 100_000, 1)
            except OSError as error:
                raise LabError(f"{self.name}: {op}: the network does not answer: {error}") from error
        answer: dict[str, Any] = json.loads(text) if text else {"error": "the network has ended"}
        if "error" in answer:
            what = " ".join(str(value) for value in request.values())
            raise LabError(f"{self.name}: {op} {what}: {answer['error']}")
        return answer, descriptors


class Lab:
    """A network that runs.

        with Lab(Topology.load("pair.toml")) as lab:
            print(lab.node("h1").run(["ping", "-c1", "10.0.0.2"]).stdout)

    Each node has its own network namespace, and all their processes are in one PID namespace. The network ends with this
    process, even after ``kill -9``: then the kernel ends its processes and removes its interfaces. Needs root, or a kernel
    that allows user namespaces.
    """

    def __init__(self, topology: Topology, *, folder: Path | None = None, is_from_up: bool = False) -> None:
        """`folder` gets the logs of switches and programs; without it they are gone with the network. `is_from_up` is for `p4jet-lab up`,
        whose networks have different names.

        Raises :class:`LabError` if the topology has faults or a type of switch cannot run here.
        """
        from .switches import types

        topology.check()
        self.topology = topology
        self.links = topology.numbered()
        self._folder = folder
        self._is_from_up = is_from_up
        self._nodes: dict[str, Node] = {}
        self._switches: dict[str, SwitchType] = {}
        self._wires = Node("_wires", {})
        self._controller: Node | None = None
        """Where programs reach the P4Runtime servers of all switches."""
        self._agent: subprocess.Popen[bytes] | None = None
        self._lifeline: socket.socket | None = None
        self._lock: int | None = None
        self._base: _Base | None = None
        self.runtime = Path()
        """The private folder of the running network."""
        for name, ports in topology.ports().items():
            spec = topology.hosts.get(name) or topology.switches[name]
            node = Node(name, {port: f"eth{port}" for port in sorted(ports)}, cpu=spec.cpu)
            node.links = ports
            node.macs = {port: self._mac(name, interface) for port, interface in node.interfaces.items()}
            self._nodes[name] = node
        faults = []
        for name, switch in topology.switches.items():
            kind = types()[switch.type]
            why = kind.missing()
            if why is not None:
                faults.append(f"{name} cannot be of type {switch.type}: {why}")
            self._switches[name] = kind(self._nodes[name], switch, folder or Path())
            self._switches[name].take_function(topology)
        self._servers = {name: switch.p4runtime for name, switch in self._switches.items() if switch.p4runtime is not None}
        for name, address in self._servers.items():
            first = next(other for other, its in self._servers.items() if its == address)
            if first != name:
                faults.append(f"{first} and {name} serve P4Runtime at {address}; controllers need an address for each")
        if self._servers and CONTROLLER in self._nodes:
            faults.append(f"{CONTROLLER} names a node, but switches with P4Runtime servers get a node of this name for controllers; choose another name")
        if faults:
            raise LabError("\n".join(faults))
        if self._servers:
            self._nodes[CONTROLLER] = self._controller = Node(CONTROLLER, {})

    def node(self, name: str) -> Node:
        """Returns a host or switch. Raises :class:`LabError` if there is none of this name."""
        if name not in self._nodes:
            raise LabError(f"unknown node {name!r}; there are: {', '.join(self._nodes)}")
        return self._nodes[name]

    def running(self, name: str) -> SwitchType:
        """Returns a switch, to configure it before :meth:`up` or to control it afterwards."""
        if name not in self._switches:
            raise LabError(f"unknown switch {name!r}; there are: {', '.join(self._switches) or 'none'}")
        return self._switches[name]

    def __enter__(self) -> Lab:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def is_up(self) -> bool:
        """Returns whether the network's processes live."""
        return self._agent is not None and self._agent.poll() is None

    def up(self) -> None:
        """Creates the namespaces and links, starts the switches and runs the hosts' commands. Raises :class:`LabError`."""
        if self._agent is not None:
            raise LabError(f"network {self.topology.name} is already up")
        lacking = [(name, switch.lacks()) for name, switch in self._switches.items()]
        if any(why for _, why in lacking):
            lines = [f"switches.{name}, type {self.topology.switches[name].type}: {why}" for name, why in lacking if why]
            raise LabError("\n".join(lines))
        try:
            self._create()
            self._connect()
            self._address()
            self._wait_for_links()
            for switch in self._switches.values():
                switch.start()
            if self._controller is not None:
                servers = [f"{address}={name}" for name, address in self._servers.items()]
                argv = [*python_program("p4jet.lab._relay"), str(self.runtime), *servers]
                relay = self._controller.spawn(argv, log=self._controller.folder / "relay.log")
                relay.wait_for("ready")
            self._write_state()
            for host in self.topology.hosts.values():
                for command in host.commands:
                    self._nodes[host.name].run(["sh", "-c", command])
        except OSError as error:
            self.down()
            raise LabError(f"network {self.topology.name}: {error.filename or self.runtime}: {error.strerror}") from error
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends the network. Does nothing if it is not up."""
        try:
            if self.is_up():
                for switch in reversed(self._switches.values()):
                    switch.stop()
        finally:
            if self._lifeline is not None:
                self._lifeline.close()
            if self._agent is not None:
                try:
                    self._agent.wait(5.0)
                except subprocess.TimeoutExpired:
                    self._agent.kill()
                    self._agent.wait(5.0)
            for node in (*self._nodes.values(), self._wires):
                while node._processes:
                    node._processes.pop().poll_for(1.0)
            if self._base is not None:
                if self._lock is not None:
                    self._base.remove(self.runtime.name)
                    os.close(self._lock)
                self._base.close()
            self._agent = self._lifeline = self._lock = self._base = None

    # ---- steps of up ----

    def _create(self) -> None:
        """Starts the process that holds the network, and the agents of the nodes."""
        self._base = _Base()
        self.runtime, self._lock = _new_runtime(self._base, self.topology.name, self._is_from_up)
        folder = self._folder or self.runtime
        folder.mkdir(parents=True, exist_ok=True)
        for node in (*self._nodes.values(), self._wires):
            node.runtime, node.folder = self.runtime, folder
        for switch in self._switches.values():
            switch.folder = folder
        lines = ["127.0.0.1 localhost\n", "::1 localhost\n"]
        for host in self.topology.hosts.values():
            lines += [f"{address.partition('/')[0]} {host.name}\n" for _, address in host.port_addresses()]
        (self.runtime / "hosts").write_text("".join(lines), encoding="ascii")
        if importlib.util.find_spec("pyroute2") is None:
            raise LabError("networks need the Python package pyroute2: pip install 'p4jet[lab]'")
        if shutil.which("unshare") is None:
            raise LabError("networks need the program unshare (package util-linux)")
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        if os.geteuid() != 0:
            command += ["--user", "--map-root-user"]
        self._lifeline, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log = self.runtime / "agent.log"
        with theirs, open(log, "wb") as out:
            self._agent = subprocess.Popen(
                [*command, *python_program("p4jet.lab._agent")],
                stdin=theirs.fileno(), stdout=out, stderr=out, start_new_session=True,
            )
        self._lifeline.settimeout(30.0)
        try:
            config = {"runtime": str(self.runtime), "nodes": list(self._nodes)}
            socket.send_fds(self._lifeline, [json.dumps(config).encode()], [own := os.pidfd_open(os.getpid())])
            os.close(own)
            text = self._lifeline.recv(1_000_000)
        except OSError:
            text = b""
        answer: dict[str, Any] = json.loads(text) if text else {"error": _tail(log.read_text(errors="replace"))}
        if "Traceback" in answer.get("error", ""):
            raise LabError(f"the program that holds the network has failed: {answer['error']}")
        if "error" in answer:
            raise LabError(f"this system allows no network namespaces: {answer['error']}\n{_advice()}")
        self._pids: dict[str, int] = answer["pids"]

    def _connect(self) -> None:
        """Creates the links: veth pairs, and where something has to emulate a link's properties, a wire between two pairs."""
        ports: list[tuple[str, str]] = []
        """The interfaces of the wires, with the properties of the direction that leaves there."""
        for link in self.links:
            (one, one_port), (other, other_port) = link.one, link.other
            assert one_port is not None and other_port is not None
            # Frames that leave a switch which emulates links need no wire.
            towards = [
                "" if sender in self._switches and self._switches[sender].emulates_links else link.describe()
                for sender in (other, one)
            ]
            ends = [(one, one_port), (other, other_port)]
            if any(towards):
                for (name, port), properties in zip(ends, towards):
                    self._pair((name, f"eth{port}"), ("_wires", f"w{len(ports)}"), link)
                    ports.append((f"w{len(ports)}", properties))
            else:
                self._pair((one, f"eth{one_port}"), (other, f"eth{other_port}"), link)
        if ports:
            from .switches.p4jet import start_wires

            start_wires(self._wires, ports, max(link.mtu or 0 for link in self.links))

    def _pair(self, one: tuple[str, str], other: tuple[str, str], link: Link) -> None:
        """Creates a veth pair between two nodes."""
        sides = []
        for name, interface in (one, other):
            side: dict[str, object] = {"ifname": interface, "address": self._mac(name, interface)}
            if name != "_wires":
                side["net_ns_pid"] = self._pids[name]
            sides.append(side)
        self._wires.netlink("link", "add", kind="veth", peer=sides[1], **sides[0])
        nodes = [self._wires if name == "_wires" else self._nodes[name] for name, _ in (one, other)]
        for node, interface, peer, peer_interface in ((nodes[0], one[1], nodes[1], other[1]), (nodes[1], other[1], nodes[0], one[1])):
            if node is not self._wires:
                node.peers[int(interface[3:])] = (peer, peer_interface)
            node.set_offloads(interface)
            node.netlink("link", "set", index=interface, mtu=link.mtu or 1500, state="up")
            # The kernel lets only the system's root bind its own work.
            if node.cpu is not None and os.geteuid() == 0:
                node.set_cpu_of_reception(interface, node.cpu)

    def _mac(self, name: str, interface: str) -> str:
        if name in self.topology.hosts:
            return self.topology.mac(name, int(interface[3:]))
        if name == "_wires":
            number = int(interface[1:])
            return f"02:02:00:00:{number >> 8:02x}:{number & 255:02x}"
        number = list(self.topology.switches).index(name) + 1
        return f"02:01:{number >> 8:02x}:{number & 255:02x}:{int(interface[3:]) >> 8:02x}:{int(interface[3:]) & 255:02x}"

    def _address(self) -> None:
        """Gives hosts their addresses, neighbours and routes."""
        hosts = self.topology.hosts
        everyone = [
            (host.name, port, ipaddress.ip_interface(address)) for host in hosts.values() for port, address in host.port_addresses()
        ]
        for name, port, address in everyone:
            node, interface = self._nodes[name], f"eth{port}"
            if address.version == 6:
                node.write(f"/proc/sys/net/ipv6/conf/{interface}/accept_dad", 0)
                node.write(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6", 0)
                node.write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", 0)
            node.netlink("addr", "add", index=interface, address=str(address.ip), prefixlen=address.network.prefixlen)
        for host in hosts.values():
            if host.gateway is not None:
                self._nodes[host.name].netlink("route", "add", dst="default", gateway=host.gateway)
        if self.topology.static_arp:
            for name, port, address in everyone:
                for other, other_port, neighbour in everyone:
                    if other != name and neighbour.ip in address.network:
                        mac = self.topology.mac(other, other_port)
                        # NUD_PERMANENT.
                        self._nodes[name].netlink(
                            "neigh", "replace", dst=str(neighbour.ip), lladdr=mac, ifindex=f"eth{port}", state=0x80
                        )

    def _wait_for_links(self) -> None:
        """Waits until the kernel carries frames: an interface may drop them for up to a second after it was set up."""
        end = time.monotonic() + 5.0
        for node in self._nodes.values():
            for interface in node.interfaces.values():
                while not node.is_running(interface):
                    if time.monotonic() > end:
                        raise LabError(f"{node.name}: {interface} is not up after 5 s")
                    time.sleep(0.01)

    def _kind(self, name: str) -> str:
        if name in self._switches:
            return self._switches[name].name
        return "host" if name in self.topology.hosts else CONTROLLER

    def _programs(self, name: str) -> list[tuple[int, str]]:
        """Returns the programs of a switch that run."""
        processes = self._switches[name].processes if name in self._switches else []
        pids = [process.pid for process in processes if process.poll() is None]
        return [(pid, started) for pid in pids if (started := _started(pid)) is not None]

    def _write_state(self) -> None:
        """Describes the network to `p4jet-lab`."""
        state = {
            "name": self.topology.name,
            "pid": os.getpid(),
            "folder": str(self._folder or self.runtime),
            "nodes": {
                name: {
                    "type": self._kind(name),
                    "pid": node.pid,
                    "interfaces": node.interfaces,
                    "addresses": self.topology.hosts[name].addresses if name in self.topology.hosts else [],
                    "cpu": node.cpu,
                    "programs": self._programs(name),
                }
                for name, node in self._nodes.items()
            },
            "links": [[*link.one, *link.other, link.summary()] for link in self.links],
        }
        temporary = self.runtime / "state.new"
        temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
        temporary.rename(self.runtime / "state.json")


@dataclass
class Running:
    """A network that runs in some process, as `p4jet-lab` sees it."""

    name: str
    pid: int
    """Of the process that holds it."""
    folder: Path
    """Its logs."""
    runtime: Path
    is_from_up: bool
    """Whether `p4jet-lab up` has brought it up, not a Python program or an experiment."""
    nodes: dict[str, Node]
    kinds: dict[str, str]
    """``host``, or the type of the switch."""
    addresses: dict[str, list[str]]
    programs: dict[str, list[tuple[int, str]]]
    """Those of each switch: process id, and when the process started, as :func:`_started` tells it."""
    links: list[list[Any]]
    """Node, port, node, port, properties."""

    def node(self, name: str) -> Node:
        """Returns a host or switch. Raises :class:`LabError` if there is none of this name."""
        if name not in self.nodes:
            raise LabError(f"unknown node {name!r}; network {self.name} has: {', '.join(self.nodes)}")
        return self.nodes[name]

    def has_ended(self, name: str) -> bool:
        """Returns whether a program of a switch has ended, which should run."""
        return any(_started(pid) != started for pid, started in self.programs[name])


def networks() -> list[Running]:
    """Returns the networks of this user that are up, and removes what ended ones have left behind."""
    found = []
    with _Base() as base, _all_locked(base):
        for runtime in base.folders():
            file = runtime / "state.json"
            is_up = file.exists()
            if not _is_held(runtime) or (is_up and not _lives(runtime)):
                base.remove(runtime.name)
                continue
            if not is_up:
                # It is still being created.
                continue
            try:
                found.append(_running(runtime, json.loads(file.read_text(encoding="utf-8"))))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                _warn(f"{file} is damaged ({type(error).__name__}: {error}): its network cannot be used; end the process that holds {runtime / 'lock'}")
    return found


def _running(runtime: Path, state: dict[str, Any]) -> Running:
    """Reads the description of a network."""
    is_from_up = (runtime / "up").exists()
    running = Running(state["name"], state["pid"], Path(state["folder"]), runtime, is_from_up, {}, {}, {}, {}, state["links"])
    for name, of in state["nodes"].items():
        node = Node(name, {int(port): interface for port, interface in of["interfaces"].items()}, cpu=of["cpu"])
        node.runtime, node.folder = runtime, running.folder
        running.nodes[name] = node
        running.kinds[name] = of["type"]
        running.addresses[name] = [address.rpartition("@")[2] for address in of["addresses"]]
        running.programs[name] = [(pid, started) for pid, started in of.get("programs", [])]
    return running


@functools.cache
def _warn(text: str) -> None:
    """Says something once."""
    print(f"warning: {text}", file=sys.stderr)


class _Base:
    """The folder of all networks of this user, which only the user can enter.

    Folders are removed by way of its descriptor: another user who may rename the folder above cannot lead that elsewhere.
    """

    def __init__(self) -> None:
        """Raises :class:`LabError` if the folder cannot be used."""
        uid = os.geteuid()
        wanted = os.environ.get("XDG_RUNTIME_DIR")
        advice = "set XDG_RUNTIME_DIR to a folder that belongs to you"
        if wanted and _is_own(Path(wanted), 0o022) and os.access(wanted, os.W_OK):
            self.path = Path(wanted).absolute() / "p4jet-lab"
            advice = "remove it, or " + advice
        else:
            # The XDG_RUNTIME_DIR of another user, as under sudo or su, must not be trusted.
            self.path = Path("/tmp") / f"p4jet-lab-{uid}"
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (NotADirectoryError, FileExistsError):
            raise LabError(f"{self.path} is a link or a file, expected a folder of user {uid}: {advice}") from None
        except OSError as error:
            raise LabError(f"{self.path}: {error.strerror}: {advice}") from error
        status = os.fstat(self.descriptor)
        if status.st_uid != uid or status.st_mode & 0o077:
            os.close(self.descriptor)
            raise LabError(
                f"{self.path} belongs to user {status.st_uid} and has mode {status.st_mode & 0o777:o}, expected user {uid} and mode 700: {advice}"
            )

    def folders(self) -> list[Path]:
        """Returns the folders of networks."""
        return sorted(self.path / name for name in os.listdir(self.descriptor) if not name.startswith("."))

    def remove(self, name: str) -> None:
        """Removes the folder of a network."""
        shutil.rmtree(f"/proc/self/fd/{self.descriptor}/{name}", ignore_errors=True)

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> _Base:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_own(folder: Path, refused: int) -> bool:
    """Returns whether a path is a folder of this user without these permissions for others."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & refused


@contextlib.contextmanager
def _all_locked(base: _Base) -> Iterator[None]:
    """Keeps networks from being created and removed meanwhile. Raises :class:`LabError` after :data:`ANSWER_SECONDS`."""
    lock = os.open(".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=base.descriptor)
    try:
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    file = base.path / ".lock"
                    raise LabError(
                        f"another process has locked {file} for {ANSWER_SECONDS:g} s; is a p4jet-lab stopped (Ctrl-Z)? "
                        f"`fuser {file}` shows it: continue or end it"
                    ) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(lock)


def _new_runtime(base: _Base, name: str, is_from_up: bool) -> tuple[Path, int]:
    """Creates the folder of a network, and takes the lock that says that the network is up."""
    with _all_locked(base):
        if is_from_up:
            for other in base.folders():
                up = other / "up"
                if up.exists() and up.read_text(encoding="utf-8") == name and _is_held(other):
                    raise LabError(f"a network {name} is already up: end it (p4jet-lab down), or choose another name (--name)")
        runtime = Path(tempfile.mkdtemp(prefix=f"{name[:12]}-", dir=base.path))
        if len(str(runtime)) > 70:
            runtime.rmdir()
            raise LabError(f"{runtime} is too long for the path of a socket: set XDG_RUNTIME_DIR to a shorter folder")
        lock = os.open(runtime / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_from_up:
            (runtime / "up").write_text(name, encoding="utf-8")
    return runtime, lock


def _lives(runtime: Path) -> bool:
    """Whether the first process of a network runs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        # A stopped process does not accept, but lives.
        connection.settimeout(1.0)
        try:
            connection.connect(str(runtime / "_wires.sock"))
        except (TimeoutError, BlockingIOError):
            return True
        except OSError:
            return False
    return True


def _started(pid: int) -> str | None:
    """Returns when a process started, in the kernel's unit, which tells it from a later one with the same id; ``None`` if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # proc_pid_stat(5): the fields after the name begin with the state, the 3rd; the 22nd is the start.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _is_held(runtime: Path) -> bool:
    """Whether the process that created a network, or a child of it, still runs."""
    try:
        lock = os.open(runtime / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def python_program(module: str) -> list[str]:
    """Returns a command that runs a module of this package, without modules of the current folder.

    Python's ``-m`` would look there first, for its own modules, too, and its ``-P`` is new in version 3.11.
    """
    package = str(Path(__file__).resolve().parents[2])
    code = f"import sys; sys.path[:] = [{package!r}, *filter(None, sys.path)]; import runpy; runpy.run_module({module!r}, run_name='__main__')"
    return [sys.executable, "-c", code]


def python_environment() -> dict[str, str]:
    """Returns what lets a Python program find this package, however this one found it."""
    package = str(Path(__file__).resolve().parents[2])
    return {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}


def _napi_threads(interface: str) -> set[int]:
    """Returns the threads that receive for interfaces of this name, in any namespace."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                name = (process / "comm").read_text()
            except OSError:
                # The process has just ended.
                continue
            if name.startswith(f"napi/{interface}-"):
                found.add(int(process.name))
    return found


def _advice() -> str:
    """What a system that refuses namespaces lacks."""
    if os.geteuid() == 0:
        return "root needs CAP_SYS_ADMIN and CAP_NET_ADMIN: in a container, run it with --privileged"
    for file, wanted, remedy in (
        ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ):
        path = Path(file)
        if path.exists() and path.read_text().strip() == wanted:
            return f"users may not create user namespaces here ({file} is {wanted}): run p4jet-lab as root, or `sudo {remedy}`"
    return "run p4jet-lab as root, or allow user namespaces"


def _tail(text: str) -> str:
    return "\n".join(text.strip()[-LOG_SHOWN:].splitlines()[-LINES_SHOWN:]) or "(no output)"
