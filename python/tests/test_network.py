"""Networks of switches in virtual time."""

from pathlib import Path
from typing import Any

import pytest

import p4jet
from conftest import PROGRAMS

L2 = PROGRAMS / "basic_l2" / "basic_l2.p4"
FRAME = "eth dst=02:00:00:00:00:02 src=02:00:00:00:00:01 / ip / udp"


def network(loss: float = 0.0, seed: int = 0) -> p4jet.Network:
    """Two hosts and two switches in a row."""
    net = p4jet.Network(seed=seed)
    program = p4jet.Program(L2)
    for name, to_h1, to_h2 in (("s1", 1, 2), ("s2", 1, 2)):
        table = net.add(name, p4jet.Switch(program)).table("forward")
        table.insert(["02:00:00:00:00:01"], "set_dest", port=to_h1)
        table.insert(["02:00:00:00:00:02"], "set_dest", port=to_h2)
    net.host("h1"), net.host("h2")
    net.link("h1", ("s1", 1), delay=0.001)
    net.link(("s1", 2), ("s2", 1), delay=0.01, rate=1e6, loss=loss)
    net.link(("s2", 2), "h2", delay=0.001)
    return net


def test_a_frame_crosses_with_delays_and_rate() -> None:
    net = network()
    net.hosts["h1"].send(FRAME)
    net.run()
    (received,) = net.hosts["h2"].received
    size = len(received.data)
    assert received.time == pytest.approx(0.012 + 8 * size / 1e6) and net.time == received.time


def test_the_same_seed_loses_the_same_frames() -> None:
    def run(seed: int) -> list[float]:
        net = network(loss=0.3, seed=seed)
        for _ in range(200):
            net.hosts["h1"].send(FRAME)
            net.run(0.01)
        net.run()
        return [received.time for received in net.hosts["h2"].received]

    assert run(1) == run(1) != run(2)
    assert 100 < len(run(1)) < 180


def test_record_and_replay(tmp_path: Path) -> None:
    net = network()
    net.record()
    net.hosts["h1"].send(FRAME)
    net.run()
    net.save(tmp_path / "run.jsonl")
    assert network().replay(tmp_path / "run.jsonl") == []
    other = network()
    other.switches["s2"].table("forward").clear()
    assert len(other.replay(tmp_path / "run.jsonl")) == 1


def instant(loss: float, queues: "int | None") -> p4jet.Network:
    """Links without delay: h1 - s1 - s2 - h2, and h3 at s2."""
    net = p4jet.Network(seed=3)
    for name in ("s1", "s2"):
        switch = net.add(name, p4jet.Switch(L2, queues=queues))
        switch.table("forward").insert(["02:00:00:00:00:02"], "set_dest", port=2)
    for name in ("h1", "h2", "h3"):
        net.host(name)
    for one, other in (("h1", ("s1", 1)), (("s1", 2), ("s2", 1)), (("s2", 2), "h2"), ("h3", ("s2", 3))):
        net.link(one, other, loss=loss)  # type: ignore[arg-type]
    return net


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("queues", [None, 1])
def test_a_replay_keeps_the_order_of_one_instant(tmp_path: Path, loss: float, queues: "int | None") -> None:
    net = instant(loss, queues)
    net.record()
    for number in range(20):
        net.hosts["h1" if number % 3 else "h3"].send(f"{FRAME} sport={1000 + number}")
        if number in (5, 6):
            net.run(0)
        if number == 12:
            net.run(0.5)
    net.run(0.0)
    net.hosts["h1"].send(FRAME)
    net.save(tmp_path / "run.jsonl")
    received = [frame.data for frame in net.hosts["h2"].received]
    assert 0 < len(received) <= 20 and len(set(received)) == len(received)
    assert instant(loss, queues).replay(tmp_path / "run.jsonl") == []


def test_a_replay_begins_where_the_recording_did(tmp_path: Path) -> None:
    def warm(seed: int = 7) -> p4jet.Network:
        net = network(loss=0.5, seed=seed)
        for _ in range(10):
            net.hosts["h1"].send(FRAME)
        net.run(1.0)
        return net

    net = warm()
    net.record()
    for _ in range(10):
        net.hosts["h1"].send(FRAME)
    net.run()
    net.save(tmp_path / "run.jsonl")
    assert warm().replay(tmp_path / "run.jsonl") == [] != warm(seed=8).replay(tmp_path / "run.jsonl")
    with pytest.raises(ValueError, match=r"run.jsonl:1: the recording begins at 1.0 s, this network is at 0.0 s"):
        network().replay(tmp_path / "run.jsonl")
    later = network()
    later.run(5.0)
    with pytest.raises(ValueError, match="this network is at 5.0 s"):
        later.replay(tmp_path / "run.jsonl")
    assert later.time == 5.0


def test_a_replay_in_a_slower_network_has_differences(tmp_path: Path) -> None:
    def slow(delay: float) -> p4jet.Network:
        net = p4jet.Network()
        net.host("h1"), net.host("h2")
        net.link("h1", "h2", delay=delay)
        return net

    net = slow(0.001)
    net.record()
    for _ in range(2):
        net.hosts["h1"].send(FRAME)
        net.run()
    net.run(0.001)
    net.save(tmp_path / "run.jsonl")
    assert slow(0.001).replay(tmp_path / "run.jsonl") == []
    slower = slow(1.0)
    assert len(slower.replay(tmp_path / "run.jsonl")) == 2 and slower.time == 2.0


HEAD = '{"recording": 2, "time_us": 0}\n'


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"time_us": 0, "host": "h1", "sent": "00"}\n', ":1: an earlier version recorded this, .*: record it again"),
        ('{"recording": 3, "time_us": 0}\n', ":1: found a recording of version 3, expected 2"),
        ("", ": it is empty"),
        ("{nope\n", ":1: it is not JSON"),
        ("[" * 100_000, ":1: it is not JSON"),
        ("5\n", ":1: it is not a line of a recording"),
        (HEAD + '{"time_us": 0, "host": "h9", "sent": "00"}\n', ":2: unknown host h9; there are: h1, h2"),
        (HEAD + '{"time_us": 0, "host": "h1", "sent": "0"}\n', ":2: expected a frame that a host sent or received, or a run"),
        (HEAD + '{"time_us": 5, "run_until_us": 4, "events_max": 1}\n', ":2: expected the run_until_us and events_max of a run"),
        (HEAD + '{"time_us": -1, "run_until_us": 4, "events_max": 1}\n', ":2: it is not a line of a recording"),
    ],
)
def test_a_wrong_recording_is_refused_before_anything_is_sent(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "run.jsonl").write_text(text)
    net = network()
    with pytest.raises(ValueError, match="run.jsonl" + expected):
        net.replay(tmp_path / "run.jsonl")
    assert net.time == 0 and not net._events


def test_time_never_runs_backwards() -> None:
    net = network()
    net.run(1.0)
    for seconds in (-0.5, float("nan"), float("inf"), 1e300):
        with pytest.raises(ValueError, match=r"found .* seconds, expected 0 or more"):
            net.run(seconds)
    with pytest.raises(TypeError, match=r"found '1' \(str\); expected a number of seconds"):
        net.run("1")  # type: ignore[arg-type]
    assert net.time == 1.0
    net.switches["s1"].wait(3.0)
    ahead = p4jet.Switch(L2)
    ahead.wait(2.0)
    for call in (net.run, lambda: net.add("s3", ahead)):
        with pytest.raises(ValueError, match=r"switch s[13] is at .* s, the network at 1.0 s; time does not run backwards"):
            call()
    assert net.switches["s1"].time == 4.0 and "s3" not in net.switches
    with pytest.raises(ValueError, match="the switch is at 4.0 s and cannot go back to 1.0 s"):
        net.switches["s1"]._advance(1_000_000)


@pytest.mark.parametrize(
    "end, options, kind, expected",
    [
        (("s1", 700), {}, ValueError, "port 700: switch s1 has ports 0 to 511"),
        (("s1", -1), {}, ValueError, "port -1: switch s1 has ports 0 to 511"),
        (("s1", "7"), {}, TypeError, r"port: found '7' \(str\); expected a whole number"),
        (("s1", True), {}, TypeError, "port: found True"),
        (("s1", 1, 2), {}, TypeError, "expected the name of a host, or a switch with its port"),
        (5, {}, TypeError, "expected the name of a host, or a switch with its port"),
        ("s1", {}, ValueError, "switch s1 has several ports"),
        (("h1", 1), {}, ValueError, "port 1: host h1 has only port 0"),
        (("s1", 7), {"delay": -1}, ValueError, "delay: found -1 seconds, expected 0 or more"),
        (("s1", 7), {"delay": "1"}, TypeError, "delay: found '1'"),
        (("s1", 7), {"loss": 1.5}, ValueError, "loss: found 1.5; expected 0 to 1"),
        (("s1", 7), {"rate": 0}, ValueError, "rate: found 0; expected at least 1 bit per second"),
        (("s1", 7), {"rate": float("inf")}, ValueError, "rate: found inf"),
        (("s1", 7), {"queue": -1}, ValueError, "queue -1: expected 0 frames or more"),
        (("s1", 7), {"queue": 1.5}, TypeError, "queue: found 1.5"),
    ],
)
def test_a_wrong_link_is_refused_at_once(end: Any, options: Any, kind: "type[Exception]", expected: str) -> None:
    net = network()
    net.host("h3")
    with pytest.raises(kind, match=expected):
        net.link("h3", end, **options)
    net.link("h3", ("s1", 7))


def test_frames_and_names_that_are_none() -> None:
    net = network()
    with pytest.raises(ValueError, match="a frame of 70000 bytes: expected at most 65535"):
        net.hosts["h1"].send(bytes(70_000))
    for wrong in (5, None, [1, 2]):
        with pytest.raises(TypeError, match="expected a frame: bytes, a scapy packet, or a text"):
            net.hosts["h1"].send(wrong)  # type: ignore[arg-type]
    net.run()
    with pytest.raises(ValueError, match="port 77 of s1 has no link"):
        net.dropped(("s1", 77))
    with pytest.raises(TypeError, match="expected a name"):
        net.host(5)  # type: ignore[arg-type]


def test_loops_end_and_mistakes_are_named() -> None:
    net = p4jet.Network()
    for name in ("a", "b"):
        net.add(name, p4jet.Switch(L2)).table("forward").set_default("set_dest", port=1)
    net.host("h")
    net.link(("a", 1), ("b", 1))
    net.link("h", ("a", 2))
    net.hosts["h"].send(FRAME)
    with pytest.raises(RuntimeError, match="1000 events at time .*: a frame travels in a loop"):
        net.run(events_max=1000)
    with pytest.raises(ValueError, match="port 1 of a already has a link"):
        net.link(("a", 1), "h")
    with pytest.raises(ValueError, match="unknown switch or host c; there are: a, b, h"):
        net.link("c", "h")
