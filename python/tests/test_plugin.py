"""The pytest plugin, in a session of its own, and the differences that it shows."""

import builtins
import shutil
from typing import Any

import pytest

from conftest import PROGRAMS
from p4jet.pytest_plugin import assert_dropped, assert_sent, differences

KNOWN = "eth dst=02:00:00:00:00:02 src=02:00:00:00:00:01 / ip src=10.0.0.1 dst=10.0.0.2 / udp"


def test_a_failure_shows_fields_and_trace(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        from p4jet.pytest_plugin import assert_dropped, assert_sent

        FRAME = "eth dst=02:00:00:00:00:02 / ip / udp"

        def make(p4jet_switch):
            switch = p4jet_switch("{PROGRAMS}/basic_l2/basic_l2.p4")
            switch.table("forward").insert(["02:00:00:00:00:02"], "set_dest", port=2)
            return switch

        def test_passes(p4jet_switch):
            assert_sent(make(p4jet_switch), FRAME, 1, {{2: [FRAME]}})
            assert_dropped(make(p4jet_switch), "eth dst=02:00:00:00:00:03 / ip", 1)

        def test_fails(p4jet_switch):
            assert_sent(make(p4jet_switch), FRAME, 1, {{2: ["eth dst=02:00:00:00:00:09 / ip / udp"]}})
        """
    )
    result = pytester.runpytest_subprocess("-p", "p4jet.pytest_plugin")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*port 2, frame 1:*", "*Ethernet.dst: expected *02:00:00:00:00:09*, found *02:00:00:00:00:02*", "*trace of the packet:*"]
    )


def test_relative_paths_start_in_the_folder_of_the_test(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("sub")
    for name in ("basic_l2.p4", "entries.cmd", "tests/forward.stf"):
        shutil.copy(PROGRAMS / "basic_l2" / name, folder)
    (folder / "test_rel.py").write_text(
        """
import pytest

def test_commands(p4jet_switch):
    switch = p4jet_switch("basic_l2.p4", commands="entries.cmd")
    assert len(switch.table("forward")) == 7

def test_load(p4jet_switch):
    switch = p4jet_switch("basic_l2.p4")
    switch.load("entries.cmd")
    assert len(switch.table("forward")) == 7
    # A text, and a path from the root, stay as they are.
    switch.load("table_clear forward\\n")
    switch.load(p4jet_switch.folder / "entries.cmd")

def test_stf(p4jet_switch):
    assert p4jet_switch.run_stf("basic_l2.p4", "forward.stf") > 0

def test_what_is_missing_is_named_with_its_folder(p4jet_switch):
    switch = p4jet_switch("basic_l2.p4")
    for call in (lambda: switch.load("no.cmd"), lambda: p4jet_switch("no.p4"), lambda: p4jet_switch.run_stf("basic_l2.p4", "no.stf")):
        with pytest.raises(FileNotFoundError, match="sub/no[.]"):
            call()
"""
    )
    pytester.runpytest_subprocess("-p", "p4jet.pytest_plugin", "sub").assert_outcomes(passed=4)


@pytest.fixture
def switch(l2: Any) -> Any:
    l2.table("forward").set_default("set_dest", port=2)
    return l2


def failure(switch: Any, frame: Any, expected: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_sent(switch, frame, 1, expected)
    return str(caught.value).partition("\n\ntrace of the packet:")[0]


def test_differences_of_layers() -> None:
    from scapy.layers.inet import ICMP, IP, UDP
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.layers.vxlan import VXLAN
    from scapy.packet import Raw

    ether, ip = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01"), IP(src="10.0.0.1", dst="10.0.0.2")
    plain, tagged = bytes(ether / ip / UDP() / b"abc"), bytes(ether / Dot1Q(vlan=5) / ip / UDP() / b"abc")
    assert differences(plain, plain) == []
    assert differences(tagged, plain) == [
        "length: expected 49 bytes, found 45",
        "Ethernet.type: expected n_802_1Q, found IPv4",
        "after Ethernet: expected layer 802.1Q, found IP",
        "  expected from there: 802.1Q / IP / UDP / Raw",
        "  found from there: IP / UDP / Raw",
    ]
    # Only the EtherType, and the layers after it.
    other = differences(bytes(ether / Raw(b"x" * 46)), bytes(Ether(dst=ether.dst, src=ether.src, type=0x800) / Raw(b"x" * 46)))
    assert other[0].startswith("Ethernet.type: expected 0x9000, found IPv4") and "expected layer Raw, found IP" in other[1]
    icmp = differences(plain, bytes(ether / ip / ICMP() / b"abc"))
    assert "IP.proto: expected udp, found icmp" in icmp and "after IP: expected layer UDP, found ICMP" in icmp
    tunnels = [bytes(ether / ip / UDP() / VXLAN() / ether / IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl) / UDP()) for ttl in (3, 4)]
    assert differences(*tunnels)[-2:][0] == "inner IP.ttl: expected 3, found 4"
    stacks = [bytes(ether / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=last) / ip) for last in (3, 4)]
    assert differences(*stacks) == ["802.1Q 3.vlan: expected 3, found 4"]
    assert differences(plain, plain + b"xx") == ["length: expected 45 bytes, found 47", "after Raw: expected the end, found Padding"]
    long = [bytes(ether / Raw(b"x" * 50 + end)) for end in (b"abc" + b"x" * 50, b"adc" + b"x" * 50)]
    assert differences(*long) == ["Raw.load, byte 51: expected 62, found 64"]


def test_differences_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from scapy.layers.dns import DNS, DNSQR, DNSRR
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    ether, ip = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01"), IP(src="10.0.0.1", dst="10.0.0.2", len=72, chksum=0)
    answer = DNS(qd=DNSQR(qname="a.b.c"), an=DNSRR(rrname="a.b.c", rdata="1.2.3.4"))
    whole = bytes(ether / ip / UDP(sport=5353, dport=53, len=52, chksum=0) / answer)
    at = whole.rfind(b"\x01a\x01b\x01c\x00")
    compressed = whole[:at] + b"\xc0\x0c" + whole[at + 7 :]
    found = differences(whole, compressed)
    assert found[:2] == ["length: expected 86 bytes, found 81", "all fields are equal, but not the bytes that encode them:"]
    assert found[2].startswith(f"bytes {at} to ") and found[-1].endswith("found nothing") and len(found) <= 20
    # Too short for Ethernet.
    assert differences(b"abc", b"abd!") == ["length: expected 3 bytes, found 4", "byte 2: expected 63, found 64", "byte 3: expected nothing, found 21"]
    many = differences(bytes(13), bytes(13 * [0, 1])[:13])
    assert len(many) == 6 and len(differences(b"", bytes(1000))) == 2
    load = builtins.__import__

    def without_scapy(name: str, *arguments: Any) -> Any:
        if name.startswith("scapy"):
            raise ImportError(name)
        return load(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_scapy)
    assert differences(bytes(60), bytes(58) + b"ab") == ["bytes 58 to 59: expected 0000, found 6162"]
    assert len(differences(bytes(2000), bytes([0, 1] * 1000))) == 17


def test_frames_at_the_wrong_port_too_many_and_too_few(switch: Any) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    assert failure(switch, KNOWN, {3: [KNOWN]}) == "port 3, frame 1: this frame left by port 2 instead"
    other = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2", ttl=9) / UDP(sport=7)
    changed = failure(switch, other, {3: [KNOWN]})
    assert "port 3, frame 1: expected, but nothing left:\n  Ethernet: dst=02:00:00:00:00:02" in changed
    assert "port 2, frame 1: unexpected:\n  Ethernet: dst=02:00:00:00:00:02" in changed
    assert "  compared with the frame expected at port 3:\n" in changed and "    IP.ttl: expected 64, found 9" in changed
    assert "  IP: version=4" in failure(switch, KNOWN, {2: [KNOWN, KNOWN]})
    switch.table("forward").set_default("set_dest", port=3)
    with pytest.raises(AssertionError, match="port 3, frame 1: unexpected:\n  Ethernet: dst=02:00:00:00:00:02, .*type=IPv4\n  IP: .*ttl=64"):
        assert_dropped(switch, KNOWN, 1)


def test_the_order_of_frames_of_a_port() -> None:
    from p4jet.pytest_plugin import _mismatches

    a, b, c = b"a" * 20, b"b" * 20, b"c" * 20
    assert _mismatches({2: [a, b]}, {2: [b, a]}) == ["port 2, frame 2: this frame left as frame 1 instead"]
    # One frame too many does not make the others differ.
    (first, *rest) = _mismatches({2: [a, b]}, {2: [c, a, b]})
    assert first == "port 2, frame 1: unexpected:" and not any("frame 2" in line for line in rest)


@pytest.mark.parametrize("frame", [b"x" * 60, KNOWN, None, 5])
def test_a_frame_is_no_list(switch: Any, frame: Any) -> None:
    with pytest.raises(TypeError, match="port 2: found .*; expected a list of frames: {2: \\[frame\\]}"):
        assert_sent(switch, KNOWN, 1, {2: frame})


def test_other_wrong_expectations(switch: Any) -> None:
    from scapy.layers.l2 import Ether

    frame = Ether(bytes.fromhex("020000000002" + "020000000001" + "0800"))
    with pytest.raises(TypeError, match="port 2: found .*Ether.*; expected a list of frames"):
        assert_sent(switch, frame, 1, {2: frame})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="found a list; expected the frames of each port"):
        assert_sent(switch, KNOWN, 1, [KNOWN])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="port: found '2'"):
        assert_sent(switch, KNOWN, 1, {"2": [KNOWN]})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="port 2: found 5 .*; expected a frame"):
        assert_sent(switch, KNOWN, 1, {2: [5]})  # type: ignore[list-item]
