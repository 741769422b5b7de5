#!/usr/bin/env python3
"""Drives a p4jet with p4runtime-shell, unmodified.

    python3 -m venv venv
    venv/bin/pip install 'p4runtime==1.5.0' 'protobuf<3.21' 'grpcio<1.60' 'googleapis-common-protos<1.57' 'ipython<9'
    venv/bin/pip install --no-deps p4runtime-shell
    venv/bin/python tests/conformance/p4runtime_shell.py target/release/p4jet

Prints one line for each check, and ends with status 1 at the first that fails.
"""
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

import p4runtime_sh.shell as sh

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "p4runtime_shell.p4")


def check(what, holds):
    print("ok" if holds else "FAILED", what, flush=True)
    if not holds:
        sys.exit(1)


def read(entity):
    found = []
    entity.read(found.append)
    return found


def run(folder, port):
    p4info, blob = os.path.join(folder, "x.p4info.txtpb"), os.path.join(folder, "x.json")
    # The shell's own defaults: device 1, election id (1, 0).
    sh.setup(device_id=1, grpc_addr=f"127.0.0.1:{port}", election_id=(1, 0), config=sh.FwdPipeConfig(p4info, blob))
    check("the shell is primary and sets the pipeline", True)
    check("the version", "1.5" in str(sh.APIVersion()))

    one = sh.TableEntry("I.ports")(action="I.forward")
    one.match["h.ethernet.dst"] = "00:00:00:00:00:01"
    one.action["port"] = "3"
    one.insert()
    two = sh.TableEntry("I.ports")(action="I.drop")
    two.match["h.ethernet.dst"] = "00:00:00:00:00:02"
    two.insert()
    check("two entries are there", len(read(sh.TableEntry("I.ports"))) == 2)
    try:
        one.insert()
        check("an entry is not inserted twice", False)
    except Exception as error:
        check("an entry is not inserted twice", "ALREADY_EXISTS" in str(error))
    one.action["port"] = "4"
    one.modify()
    two.delete()
    left = read(sh.TableEntry("I.ports"))
    check("one entry is left, with its new action", len(left) == 1 and left[0].action["port"].value == b"\x04")

    packets = sh.PacketIn()
    seen = []
    sniffer = threading.Thread(target=lambda: packets.sniff(seen.append, timeout=2))
    sniffer.start()
    time.sleep(0.3)
    sh.PacketOut(payload=bytes(60), egress_port="510", padding="0").send()
    sniffer.join()
    check("a packet goes out and comes in", len(seen) == 1 and seen[0].packet.payload == bytes(60))
    check("its metadata", [field.value for field in seen[0].packet.metadata] == [b"\x01\xfe", b"\x05", b"\x00"])
    sh.teardown()


def main():
    p4jet = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        compiler = os.path.join(folder, "p4c-bm2-ss")
        switch = os.path.join(folder, "simple_switch_grpc")
        os.symlink(p4jet, compiler)
        os.symlink(p4jet, switch)
        line = [compiler, "--p4v", "16", "--p4runtime-files", "x.p4info.txtpb", "-o", "x.json", PROGRAM]
        subprocess.run(line, cwd=folder, check=True)
        line = [switch, "--no-p4", "--", "--grpc-server-addr", f"127.0.0.1:{port}", "--cpu-port", "510"]
        child = subprocess.Popen(line, cwd=folder, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with socket.socket() as ready:
                    if ready.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            run(folder, port)
        finally:
            child.terminate()
            check("the switch ends within a second", child.wait(timeout=1) == 0)


if __name__ == "__main__":
    main()
