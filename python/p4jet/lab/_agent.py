"""The processes that hold a network: one per node, in its own network namespace, and their parent, the first of a PID namespace.

:class:`p4jet.lab.Lab` starts the parent with `unshare` and keeps a socket to it. When that socket closes, or the process that has
opened it ends, however it came to an end, the parent exits. The kernel then kills every process of the PID namespace, and with the last process of
its network namespace each interface vanishes. So nothing remains, whatever happens.

Each agent answers requests at a Unix socket: one connection per request, one JSON object per packet (SOCK_SEQPACKET).

    {"op": "run", "argv": [...], "env": {...}, "cwd": "/", "cpu": null} with three descriptors
        -> {"started": true} with a pidfd; then {"status": N} when it ends. The client may send {"signal": N}. A client that
        closes the connection ends the process.
    {"op": "netlink", "method": "link", "args": ["set"], "kwargs": {"index": "eth0", ...}} -> {}
    {"op": "offloads", "interface": "eth0", "gro": false} -> {}
    {"op": "is_running", "interface": "eth0"} -> {"result": true}
    {"op": "connect", "address": "127.0.0.1", "port": 50051} -> {} with the descriptor of a connection
    {"op": "packet_socket", "interface": "eth0"} -> {} with the descriptor of a packet socket
    {"op": "write", "path": "/proc/sys/...", "value": "1"} -> {}
    any failure -> {"error": "..."}
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from pyroute2 import IPRoute  # type: ignore[import-untyped]

MESSAGE_MAX = 1 << 20
"""Bytes of a request: an environment and arguments."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for processes whose client has left."""
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
MS_BIND, MS_NOSUID_NODEV_NOEXEC = 0x1000, 0xE

libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str, flags: int) -> bool:
    """Mounts and returns whether that worked. In a container that hides parts of /proc or /sys, the kernel may refuse."""
    done: int = libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    if done != 0:
        print(f"mount of {kind or source} on {target}: {os.strerror(ctypes.get_errno())}; the one of the system stays", flush=True)
    return done == 0


class Client:
    """A connection, and the process that runs for it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.process: subprocess.Popen[bytes] | None = None

    def send(self, answer: dict[str, object], descriptors: tuple[int, ...] = ()) -> None:
        try:
            socket.send_fds(self.socket, [json.dumps(answer).encode()], descriptors)
        except OSError:
            # The client has left; its connection reports that, and ends the process.
            pass


class Agent:
    """Serves one namespace. In the first process, any of `ends` becomes readable when the Lab has gone."""

    def __init__(self, listener: socket.socket, ends: tuple[int, ...], children: set[int]) -> None:
        self.listener, self.ends, self.agents = listener, ends, children
        self.clients: dict[int, Client] = {}
        """By the id of the process that runs for them."""
        self.killed_at: dict[int, float] = {}
        """When processes whose clients have left get SIGKILL."""
        self.netlink: IPRoute | None = None
        self.selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Answers requests until the Lab or the parent has gone."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake_read, selectors.EVENT_READ, lambda: self.reap(wake_read))
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        for end in self.ends:
            self.selector.register(end, selectors.EVENT_READ, lambda: os._exit(0))
        while True:
            for key, _ in self.selector.select(0.2 if self.killed_at else 10.0):
                key.data()
            for pid in [pid for pid, due in self.killed_at.items() if time.monotonic() > due]:
                del self.killed_at[pid]
                kill_group(pid, signal.SIGKILL)

    def accept(self) -> None:
        connection, _ = self.listener.accept()
        client = Client(connection)
        self.selector.register(connection, selectors.EVENT_READ, lambda: self.answer(client))

    def answer(self, client: Client) -> None:
        try:
            text, descriptors, _, _ = socket.recv_fds(client.socket, MESSAGE_MAX, 3)
        except OSError:
            text, descriptors = b"", []
        if not text:
            self.selector.unregister(client.socket)
            client.socket.close()
            if client.process is not None and client.process.pid in self.clients:
                kill_group(client.process.pid, signal.SIGTERM)
                self.killed_at[client.process.pid] = time.monotonic() + GRACE
            return
        try:
            request = json.loads(text)
            if "signal" in request:
                if client.process is not None and client.process.pid in self.clients:
                    kill_group(client.process.pid, request["signal"])
                return
            handler: Callable[..., Any] = getattr(self, "do_" + request.pop("op"))
            handler(client, descriptors, **request)
        except Exception as error:  # Any failure is an answer: the agent must live as long as its network.
            client.send({"error": describe(error)})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def reap(self, wake: int) -> None:
        try:
            while os.read(wake, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.agents:
                print("the agent of a node has ended: the network ends", flush=True)
                os._exit(1)
            self.killed_at.pop(pid, None)
            client = self.clients.pop(pid, None)
            if client is not None and client.process is not None:
                client.process.returncode = os.waitstatus_to_exitcode(status)
                client.send({"status": client.process.returncode})

    # ---- requests ----

    def do_run(
        self, client: Client, descriptors: list[int], argv: list[str], env: dict[str, str], cwd: str, cpu: int | None
    ) -> None:
        def prepare() -> None:
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})

        stdin, stdout, stderr = descriptors
        client.process = subprocess.Popen(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, start_new_session=True, preexec_fn=prepare
        )
        self.clients[client.process.pid] = client
        pidfd = os.pidfd_open(client.process.pid)
        client.send({"started": True}, (pidfd,))
        os.close(pidfd)

    def do_netlink(
        self, client: Client, descriptors: list[int], method: str, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        if self.netlink is None:
            self.netlink = IPRoute()
        for key in ("index", "ifindex", "master", "oif"):
            if isinstance(kwargs.get(key), str):
                kwargs[key] = socket.if_nametoindex(kwargs[key])
        getattr(self.netlink, method)(*args, **kwargs)
        client.send({})

    def do_offloads(self, client: Client, descriptors: list[int], interface: str, gro: bool) -> None:
        """Turns off what a cable does not do: unfinished checksums, long segments, tags outside the frame."""
        # include/uapi/linux/ethtool.h: ETHTOOL_STXCSUM, SGRO and SFLAGS (VLAN tags, LRO).
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for command, value in ((0x17, 0), (0x2C, int(gro)), (0x26, 0)):
                data = array.array("B", struct.pack("II", command, value))
                request = struct.pack("16sP", interface.encode(), data.buffer_info()[0])
                fcntl.ioctl(control, 0x8946, request + bytes(40 - len(request)))
        client.send({})

    def do_is_running(self, client: Client, descriptors: list[int], interface: str) -> None:
        """Whether frames can pass: the interface and its peer are up."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            # SIOCGIFFLAGS: IFF_RUNNING.
            flags = struct.unpack("16sH22x", fcntl.ioctl(control, 0x8913, struct.pack("16sH22x", interface.encode(), 0)))[1]
        client.send({"result": bool(flags & 0x40)})

    def do_connect(self, client: Client, descriptors: list[int], address: str, port: int) -> None:
        with socket.create_connection((address, port), timeout=2.0) as connection:
            connection.setblocking(True)
            client.send({}, (connection.fileno(),))

    def do_packet_socket(self, client: Client, descriptors: list[int], interface: str) -> None:
        # Protocol 0 until it is bound: frames of other interfaces never enter it. ETH_P_ALL = 3.
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as opened:
            opened.bind((interface, 3))
            client.send({}, (opened.fileno(),))

    def do_write(self, client: Client, descriptors: list[int], path: str, value: str) -> None:
        with open(path, "w", encoding="ascii") as file:
            file.write(value)
        client.send({})


def kill_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{error}" if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def listen(runtime: str, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(runtime, name + ".sock"))
    listener.listen(64)
    return listener


def hold(name: str, runtime: str) -> socket.socket:
    """Enters the namespaces of a node and returns the socket for its requests."""
    unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS)
    socket.sethostname(name)
    mount("sysfs", "/sys", "sysfs", MS_NOSUID_NODEV_NOEXEC)
    mount(os.path.join(runtime, "hosts"), "/etc/hosts", "", MS_BIND)
    set_up()
    return listen(runtime, name)


def set_up() -> None:
    """Of a new network namespace: the loopback interface is up, others get no IPv6 addresses of their own."""
    for path in ("default", "all"):
        file = f"/proc/sys/net/ipv6/conf/{path}/disable_ipv6"
        if os.path.exists(file):
            with open(file, "w", encoding="ascii") as out:
                out.write("1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        # SIOCSIFFLAGS: IFF_UP.
        fcntl.ioctl(control, 0x8914, struct.pack("16sh22x", b"lo", 1))


def main() -> None:
    """The first process of the PID namespace. Its standard input is the socket of the Lab."""
    parent = socket.socket(fileno=os.dup(0))
    # The second sign of the end: a pidfd of the Lab's process, whose children may have inherited the socket.
    text, descriptors, _, _ = socket.recv_fds(parent, MESSAGE_MAX, 1)
    config = json.loads(text)
    runtime: str = config["runtime"]
    try:
        mount("proc", "/proc", "proc", MS_NOSUID_NODEV_NOEXEC)
        unshare(CLONE_NEWNET)
        mount("sysfs", "/sys", "sysfs", MS_NOSUID_NODEV_NOEXEC)
        set_up()
        pids = {name: start(name, runtime, parent) for name in config["nodes"]}
        listener = listen(runtime, "_wires")
    except OSError as error:
        parent.send(json.dumps({"error": str(error)}).encode())
        sys.exit(1)
    parent.send(json.dumps({"pids": pids}).encode())
    Agent(listener, (parent.fileno(), *descriptors), set(pids.values())).serve()


def start(name: str, runtime: str, parent: socket.socket) -> int:
    """Starts the agent of a node, waits until it listens, and returns its process id."""
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # Only the first process may keep the socket of the Lab open.
            parent.close()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            listener = hold(name, runtime)
            os.write(ready_write, b"+")
            os.close(ready_write)
            os.close(ready_read)
            Agent(listener, (), set()).serve()
        except BaseException as error:
            os.write(ready_write, str(error).encode())
        os._exit(1)
    os.close(ready_write)
    answer = os.read(ready_read, 1000).decode()
    os.close(ready_read)
    if answer != "+":
        raise OSError(f"node {name}: {answer}")
    return pid


if __name__ == "__main__":
    main()
