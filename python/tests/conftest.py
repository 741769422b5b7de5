"""Shared programs of the tests."""

import signal
from pathlib import Path

import pytest

import p4jet

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "programs"

pytest_plugins = ["pytester"]

# Programs that a shell starts in the background ignore SIGINT, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

SKELETON = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<16> b; bit<8> c; bit<8> d; }
struct headers { h_t h; }
struct note_t { bit<32> a; bit<8> c; }
struct metadata { bit<8> x; }
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t s) {
    value_set<bit<8>>(4) special;
    state start { b.extract(h.h); transition select(h.h.d) { special: seen; default: accept; } }
    state seen { m.x = 1; transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) { LOCALS apply { INGRESS } }
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def program(locals: str, ingress: str) -> str:
    """Returns a v1model program with a header ``h`` of the fields a (32 bits), b (16), c (8), d (8)."""
    return SKELETON.replace("LOCALS", locals).replace("INGRESS", ingress)


@pytest.fixture(params=["jit", "interp"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def l2(engine: str) -> p4jet.Switch:
    return p4jet.Switch(PROGRAMS / "basic_l2" / "basic_l2.p4", engine=engine)  # type: ignore[arg-type]
