"""Switches: the control plane and packets."""

import ipaddress
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import p4jet
from conftest import PROGRAMS, program

H2 = "02:00:00:00:00:02"
FRAME = "eth dst=02:00:00:00:00:02 / ip / udp"


def test_entries(l2: p4jet.Switch) -> None:
    table = l2.table("forward")
    assert l2.send(FRAME, 1) == [] and len(table) == 0
    handle = table.insert([H2], "set_dest", port=2)
    assert [packet.port for packet in l2.send(FRAME, 1)] == [2]
    entry = table.get(handle)
    assert entry.key == {"hdr.ethernet.dstAddr": 0x020000000002}
    assert (entry.action, entry.params, entry.priority) == ("ingress.set_dest", {"port": 2}, None)
    assert table.entries() == [entry] and table.get([H2]) == entry
    table.modify([H2], "set_dest", [3])
    assert l2.send(FRAME, 1)[0].port == 3
    table.delete(handle)
    assert l2.send(FRAME, 1) == []
    handles = table.insert_many(([number], "set_dest", [number % 4]) for number in range(5000))
    assert len(set(handles)) == 5000 == len(table) == len(table.entries())
    table.clear()
    table.set_default("set_dest", port=7)
    assert table.default() == ("ingress.set_dest", {"port": 7}) and l2.send(FRAME, 1)[0].port == 7
    table.reset_default()
    assert table.default() == ("ingress._drop", {})


def test_errors_are_those_of_the_binary(l2: p4jet.Switch) -> None:
    table = l2.table("ingress.forward")
    table.insert([H2], "set_dest", port=2)
    with pytest.raises(p4jet.SwitchError) as caught:
        table.insert([H2], "set_dest", port=2)
    assert (caught.value.code, caught.value.entity) == ("DUPLICATE_ENTRY", "ingress.forward")
    with pytest.raises(p4jet.SwitchError, match="action `set_dst` of ingress.forward does not exist") as caught:
        table.insert(["1"], "set_dst", port=2)
    assert caught.value.choices == ("ingress.set_dest", "ingress._drop")
    with pytest.raises(p4jet.SwitchError) as caught:
        table.insert(["1"], "set_dest", port=512)
    assert "512" in str(caught.value) and len(table) == 1
    with pytest.raises(p4jet.SwitchError, match="found 2 matches for the key"):
        table.insert([1, 2], "set_dest", port=2)
    with pytest.raises(p4jet.SwitchError, match="has the parameters port"):
        table.insert([1], "set_dest", [1, 2], port=3)
    with pytest.raises(p4jet.SwitchError, match="table `fwd` of basic_l2 does not exist; choices: ingress.forward"):
        l2.table("fwd")
    # A batch is applied as a whole or not at all.
    with pytest.raises(p4jet.SwitchError):
        table.insert_many([([5], "set_dest", [1]), ([H2], "set_dest", [1])])
    assert len(table) == 1


def test_match_kinds(engine: Any) -> None:
    locals = """action go(bit<9> port) { s.egress_spec = port; }
        table t { key = { h.h.a: lpm; h.h.b: ternary; h.h.c: range; h.h.d: optional; } actions = { go; } }"""
    switch = p4jet.Switch(program(locals, "t.apply();"), engine=engine)
    table = switch.table("t")
    net = ipaddress.IPv4Network("10.0.0.0/8")
    table.insert([net, (0x0100, 0xFF00), (3, 5), None], "go", priority=10, port=1)
    table.insert({"a": "10.1.0.0/16", "c": (0, 9), "d": 7}, "go", priority=5, port=2)
    assert [packet.port for packet in switch.send("0a010101 0123 04 07")] == [2]
    assert [packet.port for packet in switch.send("0a010101 0123 04 08")] == [1]
    first = table.get([net, (0x0100, 0xFF00), (3, 5), None], priority=10)
    assert list(first.key.values()) == [(0x0A000000, 8), (0x0100, 0xFF00), (3, 5), None]
    with pytest.raises(p4jet.SwitchError) as caught:
        table.insert([net, None, None, None], "go", port=1)
    assert "priority" in str(caught.value)
    with pytest.raises(p4jet.SwitchError, match="found 2.5, expected a number, bytes, an address"):
        table.insert([net, None, None, 2.5], "go", priority=1, port=1)  # type: ignore[list-item]
    with pytest.raises(p4jet.SwitchError, match="key h.h.d: found \\(1, 2, 3\\), expected a value, or None"):
        table.insert([net, None, None, (1, 2, 3)], "go", priority=1, port=1)  # type: ignore[list-item]


def test_counters_meters_registers(engine: Any) -> None:
    locals = """counter(4, CounterType.packets_and_bytes) c; direct_counter(CounterType.packets) dc; register<bit<48>>(8) r;
        meter(2, MeterType.packets) m1; bit<2> colour;
        action go() { s.egress_spec = 1; }
        table t { key = { h.h.c: exact; } actions = { go; } counters = dc; }"""
    ingress = """c.count(1); r.write(3, (bit<48>) h.h.a); m1.execute_meter(0, colour); h.h.d = (bit<8>) colour; t.apply();"""
    switch = p4jet.Switch(program(locals, ingress), engine=engine)
    handle = switch.table("t").insert([4], "go")
    switch.meter("m1").set(0, (0, 1), (0, 2))
    colours = [bytes(packet)[7] for _ in range(4) for packet in switch.send("00112233 0000 04 00")]
    assert colours == [0, 1, 2, 2]
    assert switch.counter("c").read()[1] == (4, 32)
    assert switch.table("t").get(handle).counters == {"I.dc": (4, 32)}
    assert switch.register("r").read()[3] == 0x112233
    switch.register("r")[0] = 2**48 - 1
    assert switch.register("r")[0] == 2**48 - 1 and len(switch.register("r")) == 8
    with pytest.raises(p4jet.SwitchError):
        switch.register("r")[8] = 1
    with pytest.raises(IndexError):
        switch.register("r")[8]
    switch.register("r").reset()
    switch.counter("c").reset()
    assert switch.register("r").read() == {} == switch.counter("c").read() and switch.counter("c")[1] == (0, 0)
    with pytest.raises(IndexError, match="I.c has the cells 0 to 3; found 4"):
        switch.counter("c")[4]
    assert switch.meter("m1").read()[0] == ((0.0, 1), (0.0, 2))


def test_profiles(engine: Any) -> None:
    locals = """action go(bit<9> port) { s.egress_spec = port; }
        action_selector(HashAlgorithm.crc16, 64, 16) sel;
        table t { key = { h.h.c: exact; h.h.a: selector; } actions = { go; } implementation = sel; }"""
    switch = p4jet.Switch(program(locals, "t.apply();"), engine=engine)
    sel = switch.profile("sel")
    members = [sel.create_member("go", port=port) for port in (1, 2)]
    group = sel.create_group(members)
    switch.table("t").insert([4], group=group)
    ports = {switch.send(bytes([0, 0, 0, number, 0, 0, 4, 0]))[0].port for number in range(64)}
    assert ports == {1, 2} and sel.groups() == {group: [(members[0], 1), (members[1], 1)]}
    sel.set_group(group, members[:1])
    sel.modify_member(members[0], "go", port=9)
    assert {switch.send(bytes([0, 0, 0, number, 0, 0, 4, 0]))[0].port for number in range(8)} == {9}
    assert sel.members()[members[0]] == ("I.go", {"port": 9})
    with pytest.raises(p4jet.SwitchError):
        sel.delete_group(group)


def test_multicast_clones_and_value_sets(engine: Any) -> None:
    switch = p4jet.Switch(
        program("", "s.mcast_grp = 5; if (m.x == 1) { clone(CloneType.I2E, 7); }"), engine=engine
    )
    switch.set_multicast_group(5, [(1, 0), (2, 9)])
    assert switch.multicast_groups() == {5: [(1, 0), (2, 9)]}
    assert sorted(packet.port for packet in switch.send(bytes(8))) == [1, 2]
    switch.set_clone_session(7, 4)
    special = switch.value_set("special")
    special.add(9)
    assert special.read() == [(9,)]
    assert sorted(packet.port for packet in switch.send("00000000 0000 00 09")) == [1, 2, 4]
    special.remove(9)
    switch.delete_multicast_group(5)
    assert switch.send("00000000 0000 00 09") == []


def test_digests(engine: Any) -> None:
    switch = p4jet.Switch(program("", "digest<note_t>(1, { h.h.a, h.h.c });"), engine=engine)
    switch.wait(0.25)
    switch.send("01020304 0000 09 00")
    (digest,) = switch.digests()
    assert (digest.time, digest.fields) == (0.25, {"a": 0x01020304, "c": 9}) and switch.digests() == []


def test_queues_and_time(engine: Any) -> None:
    switch = p4jet.Switch(program("", "s.egress_spec = 1;"), engine=engine, queues=1)
    switch.set_queue(1, packets_per_second=10, depth=3)
    sent = [switch.send(bytes([0, 0, 0, number, 0, 0, 0, 0])) for number in range(6)]
    left = [packet.data[3] for packets in sent for packet in packets]
    assert any(packets.dropped for packets in sent)
    later = switch.wait(1.0)
    assert switch.time == 1.0
    assert [when for when, _ in later] == pytest.approx([0.1 * (number + 1) for number in range(len(later))])
    assert [*left, *(packet.data[3] for _, packet in later)] == [0, 1, 2, 3][: len(left) + len(later)]
    with pytest.raises(ValueError, match="found -1 seconds"):
        switch.wait(-1)


def test_scapy_in_and_out(l2: p4jet.Switch) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    l2.table("forward").insert([H2], "set_dest", port=2)
    (packet,) = l2.send(Ether(dst=H2, src="02:00:00:00:00:01") / IP(dst="10.0.0.2") / UDP(dport=53), 1)
    assert packet.scapy()[UDP].dport == 53


def test_many_packets(l2: p4jet.Switch) -> None:
    import numpy

    l2.load(PROGRAMS / "basic_l2" / "entries.cmd")
    entries = l2.table("forward").entries()
    frames = numpy.zeros((1000, 64), dtype=numpy.uint8)
    for row, frame in enumerate(frames):
        key = entries[row % len(entries)].key["hdr.ethernet.dstAddr"]
        assert isinstance(key, int)
        frame[:6] = list(key.to_bytes(6, "big"))
    frames[::10, :6] = 0
    burst = l2.send_many(frames, port=1)
    assert len(burst) == 900 and sum(burst.dropped.values()) <= 100 and burst.array().shape == (900, 64)
    one_by_one = [packet for frame in frames for packet in l2.send(frame.tobytes(), 1)]
    assert list(burst) == one_by_one and burst[-1] == one_by_one[-1]
    assert list(l2.send_many(frames.tobytes(), [1] * 1000, length=64)) == one_by_one
    assert list(l2.send_many([frame.tobytes() for frame in frames], 1)) == one_by_one
    assert list(l2.send_many([], 1)) == []
    with pytest.raises(ValueError, match="expected \\(packets, bytes\\)"):
        l2.send_many(frames[0])
    with pytest.raises(ValueError, match="port 512: this program has ports 0 to 511"):
        l2.send_many(frames, 512)
    with pytest.raises(ValueError, match="the arrays do not fit together"):
        l2.send_many(b"12345", length=4)


def test_send_many_releases_the_interpreter_lock() -> None:
    switch = p4jet.Switch(PROGRAMS / "basic_l2" / "basic_l2.p4")
    frames, ticks, done = bytes(64 * 1_000_000), 0, threading.Event()

    def work() -> None:
        switch.send_many(frames, length=64)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.0001)
    thread.join()
    # With the lock held throughout, this thread would get no turn.
    assert ticks > 10


def test_traces(l2: p4jet.Switch) -> None:
    l2.table("forward").insert([H2], "set_dest", port=2)
    trace = l2.trace(FRAME, 1)
    assert trace.tables() == [("ingress.forward", True)] and "ingress.set_dest" in trace.actions()
    assert "forward" in str(trace) and trace._repr_html_().startswith("<table>")
    because = "because standard_metadata.egress_spec = 2, written by action ingress.set_dest of table ingress.forward"
    assert because in str(trace) and because in trace._repr_html_()
    dropped = l2.trace("eth dst=02:00:00:00:00:09 / ip")
    assert dropped.why_dropped() != []
    (because,) = (line.strip() for line in str(dropped).splitlines() if "because" in line)
    assert because.startswith("because standard_metadata.egress_spec = 0x1ff (511), written by action ingress._drop of table")
    assert because in dropped._repr_html_() and "because:" not in dropped._repr_html_()
    # Of a long trace, the text has not all lines.
    dropped._text = "…"
    assert "because standard_metadata.egress_spec = 0x1ff, written by action ingress._drop of table ingress.forward" in dropped._repr_html_()


def test_dump_and_restore(l2: p4jet.Switch) -> None:
    l2.table("forward").insert([H2], "set_dest", port=2)
    dump = l2.dump()
    l2.table("forward").clear()
    l2.restore(dump)
    assert l2.send(FRAME, 1)[0].port == 2


def test_commands(l2: p4jet.Switch) -> None:
    assert "Entry has been added" in l2.command("table_add forward set_dest 1 => 2")
    with pytest.raises(p4jet.SwitchError) as caught:
        l2.load("table_add forward set_dest 3 => 2\ntable_add forward nothing 4 => 2\n")
    assert caught.value.line == 2 and len(l2.table("forward")) == 1


def test_errors_in_command_files_have_their_place(l2: p4jet.Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bad.cmd"
    # A tab, a character of two bytes and one that Python, but not the switch, takes for the end of a line.
    file.write_text("# \x0bä\n\ttable_add forward set_dst 02:00:00:00:00:03 => 2\n")
    path = PROGRAMS / "basic_l2" / "basic_l2.p4"
    for call in (lambda: l2.load(file), lambda: p4jet.Switch(path, commands=file)):
        with pytest.raises(p4jet.SwitchError) as caught:
            call()
        error = caught.value
        assert (error.file, error.line, error.column, error.code, error.field) == (str(file), 2, 20, "UNKNOWN_NAME", "action")
        assert str(error).startswith(f"{file}:2:20: Invalid action name (set_dst): did you mean")
    # Found when the commands run, not when they are read: no column.
    with pytest.raises(p4jet.SwitchError, match="^commands:3: Invalid table operation"):
        l2.load("table_add forward set_dest 3 => 2\r\n\r\ntable_add forward set_dest 3 => 2\r\n")
    with pytest.raises(p4jet.SwitchError) as caught:
        l2.load("table_add forward set_dest ää => 2\nx\n")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("commands", 1, 28)
    with pytest.raises(p4jet.SwitchError) as caught:
        p4jet.run_stf(path, "# comment\n  nonsense\n")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("test", 2, 3)
    # Where relative paths start.
    monkeypatch.chdir("/")
    with pytest.raises(p4jet.SwitchError, match="bad.cmd:2:20"):
        p4jet.Switch(path, folder=tmp_path).load("bad.cmd")


@pytest.mark.parametrize(
    "call, kind, expected",
    [
        (lambda s: s.send(FRAME, -1), ValueError, "port -1: this program has ports 0 to 511"),
        (lambda s: s.trace(FRAME, 512), ValueError, "port 512: this program has ports 0 to 511"),
        (lambda s: s.send(FRAME, "1"), TypeError, r"port: found '1' \(str\); expected a whole number"),
        (lambda s: s.send_many([FRAME], -1), ValueError, "ports and lengths are numbers from 0 to 4294967295"),
        (lambda s: s.send_many([FRAME], ["1"]), TypeError, "expected a whole number"),
        (lambda s: s.send_many(FRAME), TypeError, "expected a list of frames"),
        (lambda s: s.send_many(packet()), TypeError, "expected a list of frames"),
        (lambda s: s.send_many([5]), TypeError, "expected a frame"),
        (lambda s: s.send(5), TypeError, r"found 5 \(int\); expected a frame: bytes, a scapy packet, or a text"),
        (lambda s: s.send([FRAME]), TypeError, "expected a frame"),
        (lambda s: s.set_clone_session(1, [1, 2]), TypeError, "set_session.port: found sequence, expected a whole number from 0 to"),
        (lambda s: s.set_clone_session(-1, 1), ValueError, "set_session.number: found integer `-1`, expected a whole number"),
        (lambda s: s.set_multicast_group(1, [(1, "a")]), TypeError, "expected a whole number"),
        (lambda s: s.set_multicast_group(1, [b"a"]), TypeError, "expected a whole number or a text"),
        (lambda s: s.table("forward").insert([H2], "set_dest", port=1, priority=1.5), TypeError, "insert.priority: found floating point"),
        (lambda s: s.command(5), TypeError, "command: found integer `5`, expected a string"),
        (lambda s: s.wait("1"), TypeError, "expected a number of seconds"),
        (lambda s: s.wait(float("inf")), ValueError, "found inf seconds"),
        (lambda s: p4jet.Switch(s.program, queues=-1), ValueError, "queues -1: expected the number of output queues"),
        (lambda s: p4jet.Switch(s.program, queues="2"), TypeError, "queues: found '2'"),
    ],
)
def test_wrong_arguments_are_type_errors_or_value_errors(call: Any, kind: "type[Exception]", expected: str, l2: p4jet.Switch) -> None:
    with pytest.raises(kind, match=expected) as caught:
        call(l2)
    assert " at line 1 column" not in str(caught.value)


def packet() -> Any:
    from scapy.layers.l2 import Ether

    return Ether(dst=H2, src=H2)


def test_numbers_of_numpy_are_numbers(l2: p4jet.Switch) -> None:
    import numpy

    l2.table("forward").insert([H2], "set_dest", port=numpy.int64(2))
    l2.set_multicast_group(1, [numpy.int64(1)])  # type: ignore[list-item]
    assert l2.multicast_groups() == {1: [(1, 0)]}
    assert l2.send(FRAME, numpy.int64(1))[0].port == 2  # type: ignore[arg-type]
    assert len(l2.send_many([FRAME] * 3, numpy.array([1, 2, 3]))) == 3


def test_packet_tests() -> None:
    path = PROGRAMS / "basic_l2"
    assert p4jet.run_stf(path / "basic_l2.p4", path / "tests" / "forward.stf") > 0
    with pytest.raises(p4jet.StfError, match="trace|expect"):
        p4jet.run_stf(path / "basic_l2.p4", "packet 1 000000000000 000000000000 0800\nexpect 1 00\n")
    with pytest.raises(p4jet.SwitchError, match="1"):
        p4jet.run_stf(path / "basic_l2.p4", "nonsense\n")


@pytest.mark.parametrize("frame, text", [("zz", "."), (b"x" * 65_536, "expected at most 65535")])
def test_frames_that_cannot_be_sent(l2: p4jet.Switch, frame: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        l2.send(frame)
