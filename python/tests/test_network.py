"""Networks of switches in virtual time."""

from pathlib import Path

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
