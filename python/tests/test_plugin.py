"""The pytest plugin, in a session of its own."""

import pytest

from conftest import PROGRAMS


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
