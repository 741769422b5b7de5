"""Programs and their errors."""

import pytest

import p4jet
from conftest import PROGRAMS, program


def test_a_program_has_tables_and_actions() -> None:
    found = p4jet.Program(PROGRAMS / "basic_l2" / "basic_l2.p4")
    assert (found.name, found.arch) == ("basic_l2", "v1model")
    table = found.tables["ingress.forward"]
    assert [(of.name, of.kind, of.width) for of in table.key] == [("hdr.ethernet.dstAddr", "exact", 48)]
    assert [action.name for action in table.actions] == ["ingress.set_dest", "ingress._drop"]
    assert found.actions["ingress.set_dest"].params == (p4jet.program.Param("port", 9),)
    assert table.size == 1_048_576 and not table.needs_priority


def test_a_compile_error_carries_every_diagnostic() -> None:
    text = program("", "h.h.a = 1;\n undefined_name = 2;\n h.h.zz = 3;")
    with pytest.raises(p4jet.CompileError) as caught:
        p4jet.Program(text, name="mine.p4")
    errors = [found for found in caught.value.diagnostics if found.severity == "error"]
    assert len(errors) == 2
    line = 1 + text[: text.index("undefined_name")].count("\n")
    assert (errors[0].file, errors[0].line, errors[0].column) == ("mine.p4", line, 2)
    assert errors[0].code and "undefined_name" in errors[0].message
    # As the binary prints it: the source line and a caret.
    assert "undefined_name = 2;" in str(caught.value) and "^^^" in str(caught.value)
    assert "2 errors" in str(caught.value)


def test_what_cannot_be_read_or_chosen() -> None:
    with pytest.raises(FileNotFoundError, match="/nowhere.p4") as missing:
        p4jet.Program("/nowhere.p4")
    assert missing.value.filename == "/nowhere.p4"
    with pytest.raises(IsADirectoryError):
        p4jet.Program("/tmp")
    with pytest.raises(ValueError, match="unknown architecture `tna`; there are: auto, v1model"):
        p4jet.Program(program("", ""), arch="tna")
    with pytest.raises(ValueError, match="unknown engine `fast`; there are: jit, interp"):
        p4jet.Switch(program("", ""), engine="fast")  # type: ignore[arg-type]


def test_macros_and_warnings() -> None:
    found = p4jet.Program(program("bit<8> unused;", "s.egress_spec = PORT;"), define={"PORT": "3"})
    assert [warning.severity for warning in found.warnings] == ["warning"]
    assert p4jet.Switch(found).send(bytes(8))[0].port == 3


def test_p4info() -> None:
    found = p4jet.Program(PROGRAMS / "basic_l2" / "basic_l2.p4")
    assert 'name: "ingress.forward"' in found.p4info()
    assert '"name"' in found.p4info("json")
    assert b"ingress.forward" in found.p4info("binary")
    with pytest.raises(ValueError, match="unknown format `xml`; there are: text, json, binary"):
        found.p4info("xml")  # type: ignore[call-overload]


def test_complexity() -> None:
    complexity = p4jet.Program(PROGRAMS / "simple_router" / "simple_router.p4").complexity()
    assert complexity.depth >= 2 and complexity.paths and not complexity.more_paths
    assert str(complexity).startswith("#") and complexity._repr_svg_().startswith("<svg")
