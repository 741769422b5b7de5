"""Lets programs of one node reach the P4Runtime servers of switches in other nodes, at the same addresses.

    python -m p4jet.lab._relay RUNTIME 127.0.0.1:50051=s1 127.0.0.1:50052=s2

Controllers, such as those of the P4 tutorials, expect all switches at the loopback address, but each switch has its own. The agent of
the switch's node makes each connection there and passes it on; only bytes go through this program.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

CONNECTIONS_MAX = 128
"""Connections at a time; further ones wait."""


def connect(agent: Path, address: str, port: int) -> socket.socket:
    """Returns a connection to an address in the namespace of a node. Raises :class:`OSError`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as request:
        request.connect(str(agent))
        request.send(json.dumps({"op": "connect", "address": address, "port": port}).encode())
        answer, descriptors, _, _ = socket.recv_fds(request, 10_000, 1)
    if not descriptors:
        raise OSError(json.loads(answer)["error"] if answer else "the network has ended")
    return socket.socket(fileno=descriptors[0])


def copy(source: socket.socket, sink: socket.socket) -> None:
    """Copies one direction until its end."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        # One side has closed or reset the connection: the other has to learn it.
        for side in (source, sink):
            side.close()


def serve(client: socket.socket, agent: Path, address: str, port: int, free: threading.Semaphore) -> None:
    """Carries one connection."""
    try:
        with client, connect(agent, address, port) as switch:
            back = threading.Thread(target=copy, args=(switch, client), daemon=True)
            back.start()
            copy(client, switch)
            back.join()
    except OSError as error:
        print(f"{address}:{port}: {error}", flush=True)
    finally:
        free.release()


def accept(server: socket.socket, agent: Path, address: str, port: int) -> None:
    """Serves the connections to one switch."""
    free = threading.Semaphore(CONNECTIONS_MAX)
    while True:
        free.acquire()
        client, _ = server.accept()
        threading.Thread(target=serve, args=(client, agent, address, port, free), daemon=True).start()


def main() -> None:
    runtime, threads = Path(sys.argv[1]), []
    for text in sys.argv[2:]:
        end, _, name = text.partition("=")
        address, _, port = end.rpartition(":")
        server = socket.create_server((address, int(port)))
        threads.append(threading.Thread(target=accept, args=(server, runtime / f"{name}.sock", address, int(port))))
    for thread in threads:
        thread.start()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
