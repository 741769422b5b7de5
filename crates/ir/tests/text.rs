//! The text form: errors, odd names, hostile depth.

use p4jet_ir::{Expr, Field, FieldKind, Program, SourceLoc, text, verify};

#[track_caller]
fn check_error(source: &str, expected: &str) {
    assert_eq!(text::parse(source).unwrap_err().to_string(), expected);
}

#[test]
fn errors() {
    check_error("field a 8 temp", "1:9: found number 0x8, expected `:`");
    check_error(
        "program p\nfield a: 8 temporary",
        "2:12: found `temporary`, expected one of `in`, `valid`, `metadata`, `data`, `temp`",
    );
    check_error("block b control { n1: return }", "1:19: found `n1`, expected node `n0` or `}`");
    check_error(
        "block b control { n0: x = 0x1:8 return }",
        "1:23: found `x`, expected the name of a declared field",
    );
    check_error(
        "field x: 8 temp field x: 8 temp block b control { n0: x = 0x1:8 return }",
        "1:55: found `x`, expected a name that only one field has, or `#index`",
    );
    check_error(
        "field x: 8 temp block b control { n0: x = plus(x, x) return }",
        "1:43: found `plus`, expected an operator: not, neg, add, sub, …, concat, zext, sext, select, element",
    );
    check_error(
        "block b control { n0: drop \"x\" }",
        "1:28: found `\"x\"`, expected one of the `drop_reasons`",
    );
    check_error("program \"open", "1:9: found `\"`, expected a closing quote on the same line");
    check_error("field x: 8 temp\n  ?", "2:3: found `?`, expected a name, a number or punctuation");
    check_error("field x: 99999999999 temp", "1:10: found number 0x174876e7ff, expected a width below 2^32");
    check_error(
        "field x: 8",
        "1:11: found the end, expected one of `in`, `valid`, `metadata`, `data`, `temp`",
    );
    check_error("action a as ()", "1:13: found `(`, expected the action's control-plane name");
    check_error("block b control {", "1:18: found the end, expected node `n0` or `}`");
}

#[test]
fn names_and_places_of_any_kind_survive() {
    let names = [
        "",
        "a b",
        "field",
        "n0",
        "sub",
        "\"\\\n\u{7}",
        "ä",
        "hdr.vlan[0].$valid$",
        "x[0:0]",
        "[0]",
        "0x1",
        "@f:1:1",
    ];
    let locs = [("a b.p4", 1, 2), ("r.p4", 1, 2), ("r.p4", 1, 2), ("", 3, 4), ("/x/ü.p4", 0, 0)];
    let mut program = Program { locs: vec![SourceLoc::default()], ..Program::default() };
    for name in names {
        program.name = name.to_string();
        program.drop_reasons.push(name.to_string());
        program.errors.push(name.to_string());
        program.fields.push(Field { name: name.to_string(), width: 8, kind: FieldKind::Temporary });
    }
    for (name, control_name) in names.iter().zip(names.iter().cycle().skip(1)).chain([(&"same", &"same")]) {
        let node = p4jet_ir::Node {
            label: String::new(),
            stmts: Vec::new(),
            terminator: p4jet_ir::Terminator::Return,
            terminator_loc: p4jet_ir::Loc(0),
        };
        program.actions.push(p4jet_ir::Action {
            name: name.to_string(),
            control_name: control_name.to_string(),
            params: Vec::new(),
            body: p4jet_ir::Cfg { nodes: vec![node] },
            loc: p4jet_ir::Loc(0),
        });
    }
    for (file, line, column) in locs {
        program.locs.push(SourceLoc { file: file.to_string(), line, column });
    }
    let mut stmts = Vec::new();
    for index in 0..names.len() as u32 {
        let value = Expr::Field(p4jet_ir::FieldId(index));
        let value = Expr::Slice {
            value: Box::new(Expr::Concat(Box::new(value.clone()), Box::new(value))),
            hi: 7,
            lo: 0,
        };
        let op = p4jet_ir::Op::Set { dest: p4jet_ir::FieldId(index), value };
        stmts.push(p4jet_ir::Stmt { op, loc: p4jet_ir::Loc(index % 6) });
    }
    let node = |terminator| p4jet_ir::Node {
        label: "a \"b\"".into(),
        stmts: stmts.clone(),
        terminator,
        terminator_loc: p4jet_ir::Loc(2),
    };
    let nodes = (0..names.len() as u32).map(|reason| node(p4jet_ir::Terminator::Drop(reason))).collect();
    let body = p4jet_ir::Cfg { nodes };
    program.blocks.push(p4jet_ir::Block {
        name: "goto".into(),
        kind: p4jet_ir::BlockKind::Control,
        body,
        error_field: None,
    });
    let printed = text::print(&program);
    assert!(printed.contains("\naction same() {"), "{printed}");
    let read = text::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(read, program, "{printed}");
}

#[test]
fn depth_is_bounded() {
    let around = |open: &str, inner: &str, close: &str, times: usize| {
        let expr = format!("{}{inner}{}", open.repeat(times), close.repeat(times));
        format!("field x: 8 temp block b control {{ n0: x = {expr} return }}")
    };
    for (open, close) in [("not(", ")"), ("", "[7:0]"), ("add(x, ", ")"), ("not(not(", "[7:0])[7:0])")] {
        assert!(text::parse(&around(open, "x", close, 100_000)).is_err());
        let fine = text::parse(&around(open, "x", close, 100)).unwrap();
        assert_eq!(verify::verify(&fine), Ok(()));
    }
    // The maximum depth, also for the printer and the verifier.
    let fine = text::parse(&around("not(", "x", ")", 511)).unwrap();
    assert_eq!(verify::verify(&fine), Ok(()));
    assert_eq!(text::parse(&text::print(&fine)).unwrap(), fine);
}
