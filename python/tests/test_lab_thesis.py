"""The published figures, and the values that their readers derived from them."""

import pytest

from p4jet.lab.thesis import mirrors, published

# Offered load in Gbit/s, throughput / (1 - loss), for 64 to 1500 bytes, as the summary of the thesis prints it.
OFFERED = {
    ("OVS-DPDK", "CX5"): [9.28, 16.04, 29.64, 56.70, 88.29, 92.90],
    ("OVS-DPDK", "SN1000"): [9.32, 16.08, 29.85, 57.08, 89.74, 93.17],
    ("OVS-vanilla", "CX5"): [8.87, 14.92, 27.56, 50.98, 76.09, 81.57],
    ("OVS-vanilla", "SN1000"): [8.23, 14.17, 25.83, 49.60, 84.21, 90.83],
    ("P4-DPDK", "CX5"): [9.15, 15.72, 29.11, 55.99, 90.66, 96.98],
    ("P4-DPDK", "SN1000"): [8.61, 15.17, 28.63, 54.58, 91.54, 96.86],
}
# Delivered million frames per second, with 24 bytes of framing. The summary rounds 12.5446 (OVS-DPDK, CX5, 256 bytes) to 12.55.
RECEIVED = {
    ("bmv2", "CX5"): [0.043, 0.033, 0.036, 0.033, 0.025, 0.026],
    ("bmv2", "SN1000"): [0.028, 0.025, 0.022, 0.023, 0.021, 0.019],
    ("OVS-vanilla", "CX5"): [10.10, 10.07, 10.62, 10.55, 8.94, 6.60],
    ("OVS-vanilla", "SN1000"): [1.53, 1.50, 1.43, 1.46, 1.39, 1.47],
    ("OVS-DPDK", "CX5"): [12.51, 12.49, 12.54, 12.46, 10.50, 7.60],
    ("OVS-DPDK", "SN1000"): [12.30, 12.36, 12.47, 12.52, 10.28, 7.63],
    ("P4-DPDK", "CX5"): [2.81, 2.81, 2.80, 2.80, 2.74, 2.77],
    ("P4-DPDK", "SN1000"): [2.60, 2.65, 2.70, 2.70, 2.70, 2.68],
}


def of(switch, card):
    rows = [row for row in mirrors() if (row.switch, row.card) == (switch, card)]
    assert [row.size for row in rows] == [64, 128, 256, 512, 1024, 1500]
    return rows


def test_the_tables_are_complete():
    assert len(mirrors()) == 4 * 2 * 6
    assert [(row.table, row.switch) for row in mirrors()[::12]] == [
        (5, "bmv2"), (6, "OVS-vanilla"), (7, "OVS-DPDK"), (8, "P4-DPDK")
    ]
    # Corners of the tables, to notice a swapped column.
    assert of("bmv2", "CX5")[0].loss == pytest.approx(0.9966)
    assert of("P4-DPDK", "SN1000")[-1].throughput == pytest.approx(32.68e9)


@pytest.mark.parametrize(("switch", "card"), OFFERED)
def test_offered_load_follows_from_loss_and_throughput(switch, card):
    assert [row.offered / 1e9 for row in of(switch, card)] == pytest.approx(OFFERED[switch, card], abs=0.0051)


@pytest.mark.parametrize(("switch", "card"), RECEIVED)
def test_delivered_rates_follow_from_throughput(switch, card):
    digits = 0.00051 if switch == "bmv2" else 0.0051
    assert [row.received_pps / 1e6 for row in of(switch, card)] == pytest.approx(RECEIVED[switch, card], abs=digits)


def test_the_generator_sent_at_most_13_million_frames_per_second():
    rates = [row.offered_pps / 1e6 for card in ("CX5", "SN1000") for row in of("OVS-DPDK", card) if row.size <= 512]
    assert all(13.15 <= rate <= 13.35 for rate in rates)


def test_ratios_of_the_two_cards():
    pairs = zip(of("OVS-vanilla", "CX5"), of("OVS-vanilla", "SN1000"))
    assert [a.throughput / b.throughput for a, b in pairs] == pytest.approx([6.6, 6.7, 7.4, 7.2, 6.4, 4.5], abs=0.051)


def test_scalability_and_updates():
    rules = {(row["target"], row["match"]): row["operable"] for row in published()["flow_scalability"]["max_rules"]}
    assert rules[("NetFPGA-SUME", "exact")] == 64 * 1024 and rules[("Agilio CX", "exact and wildcard")] == 48 * 1024
    updates = published()["rule_updates"]
    assert updates["response_time_ms"]["Agilio CX"]["register"] == [137, 145]
    assert updates["updates_per_s"]["NetFPGA-SUME"] == [8, 14]
