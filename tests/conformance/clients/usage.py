#!/usr/bin/env python3
"""usage.py ADDRESS: does with p4runtime-shell, as a library, what the documents in its folder `usage` show. The switch has a CPU
port and no program; usage.json and usage.txtpb lie here."""

import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.context import P4Type
from p4runtime_sh.p4runtime import P4RuntimeWriteException


def check(what, holds):
    print("ok" if holds else "FAILED", what, flush=True)
    if not holds:
        sys.exit(1)


def main():
    sh.setup(device_id=1, grpc_addr=sys.argv[1], election_id=(0, 1),
             config=sh.FwdPipeConfig("usage.txtpb", "usage.json"))
    check("tables", {t.name for t in sh.P4Objects(P4Type.table)} == {"I.hashed", "I.acl"})

    # oneshots.md
    entry = sh.TableEntry("I.hashed")()
    for port in ("1", "2"):
        action = sh.Action("I.forward")
        action["port"] = port
        entry.oneshot.add(action, weight=int(port))
    entry.match["next_id"] = "10"
    entry.insert()
    found = list(sh.TableEntry("I.hashed")().read())
    check("one-shot", len(found) == 1 and len(found[0].oneshot.msg().action_profile_actions) == 2)
    check("its weights", [a.weight for a in found[0].oneshot.msg().action_profile_actions] == [1, 2])
    entry.delete()

    # pre.md
    group = sh.MulticastGroupEntry(1)
    group.add(1, 1).add(1, 2).add(2, 3)
    group.insert()
    found = list(sh.MulticastGroupEntry(1).read())
    check("multicast group", len(found) == 1 and len(found[0].replicas) == 3)
    group.delete()
    session = sh.CloneSessionEntry(1)
    session.add(1, 1).add(1, 2).add(2, 3)
    session.insert()
    found = list(sh.CloneSessionEntry(1).read())
    check("clone session", len(found) == 1 and len(found[0].replicas) == 3)
    session.delete()

    # read_table_entry_counter.md
    for port, out in (("1", "2"), ("2", "1")):
        entry = sh.TableEntry("I.acl")(action="I.forward")
        entry.priority = 1
        entry.match["meta.port"] = port
        entry.action["port"] = out
        entry.insert()
    entry = sh.TableEntry("I.acl")()
    entry.counter_data.byte_count = 0
    found = list(entry.read())
    check("entries with counters", len(found) == 2 and all(e.counter_data.byte_count == 0 for e in found))
    try:
        again = sh.TableEntry("I.acl")(action="I.forward")
        again.priority = 1
        again.match["meta.port"] = "1"
        again.action["port"] = "2"
        again.insert()
        check("a second entry with the same key", False)
    except P4RuntimeWriteException as error:
        check("a second entry with the same key", "ALREADY_EXISTS" in str(error))
    counter = next(iter(sh.DirectCounterEntry("I.hits").read()))
    counter.packet_count = 7
    counter.modify()
    check("direct counter", {c.packet_count for c in sh.DirectCounterEntry("I.hits").read()} == {0, 7})

    # packet_io.md: to the CPU port itself, whence it comes back.
    packets = sh.PacketIn()
    out = sh.PacketOut(payload=b"AAAA", egress_port="510")
    out.send()
    got = list(packets.sniff(timeout=2))
    check("packet", len(got) == 1 and got[0].packet.payload == b"AAAA" and got[0].packet.metadata[0].value == b"\x01\xfe")


try:
    main()
finally:
    sh.teardown()  # Its threads would keep the process alive.
