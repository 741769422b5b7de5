//! Compares fields in network byte order: whether two values are equal does not depend on the order of their bytes.
//!
//! ```text
//! v1 = load.i16 v0+12            v1 = load.i16 v0+12
//! v2 = bswap v1                  v5 = iconst.i16 8
//! v3 = uextend.i64 v2            v4 = icmp eq v1, v5
//! v4 = icmp_imm eq v3, 2048
//! ```

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value, ValueDef, types,
};

/// Compares values in the byte order of the frame if they are swapped only for the comparison.
pub fn compare_unswapped(func: &mut Function) {
    let blocks: Vec<_> = func.layout.blocks().collect();
    let insts: Vec<Inst> = blocks.into_iter().flat_map(|block| func.layout.block_insts(block)).collect();
    for inst in insts {
        let InstructionData::IntCompare { opcode, args: [a, b], cond } = func.dfg.insts[inst] else {
            continue;
        };
        if !matches!(cond, IntCC::Equal | IntCC::NotEqual) {
            continue;
        }
        let (a, b) = match (swapped(func, a), swapped(func, b)) {
            (Some((a, ty)), Some((b, other))) if ty == other => (a, b),
            (Some((a, ty)), None) if let Some(b) = constant(func, b).and_then(|c| turned(c, ty)) => {
                (a, FuncCursor::new(func).at_inst(inst).ins().iconst(ty, b))
            }
            (None, Some((b, ty))) if let Some(a) = constant(func, a).and_then(|c| turned(c, ty)) => {
                (FuncCursor::new(func).at_inst(inst).ins().iconst(ty, a), b)
            }
            _ => continue,
        };
        func.dfg.insts[inst] = InstructionData::IntCompare { opcode, args: [a, b], cond };
    }
}

/// The value before a byte swap of 16 or 32 bits and a zero extension to 64 bits, and its type, if `value` is the result of both.
fn swapped(func: &Function, value: Value) -> Option<(Value, Type)> {
    let mut narrow = operand(func, value, Opcode::Uextend)?;
    // The mask keeps all bits that the value has.
    if let Some(wide) = operand(func, narrow, Opcode::Ireduce)
        && let Some(whole) = operand(func, wide, Opcode::Uextend)
        && func.dfg.value_type(whole) == func.dfg.value_type(narrow)
    {
        narrow = whole;
    }
    let value = operand(func, narrow, Opcode::Bswap)?;
    let ty = func.dfg.value_type(value);
    matches!(ty, types::I16 | types::I32).then_some((value, ty))
}

fn operand(func: &Function, value: Value, opcode: Opcode) -> Option<Value> {
    let ValueDef::Result(inst, _) = func.dfg.value_def(func.dfg.resolve_aliases(value)) else { return None };
    match func.dfg.insts[inst] {
        InstructionData::Unary { opcode: of, arg } if of == opcode => Some(func.dfg.resolve_aliases(arg)),
        _ => None,
    }
}

fn constant(func: &Function, value: Value) -> Option<u64> {
    let ValueDef::Result(inst, _) = func.dfg.value_def(func.dfg.resolve_aliases(value)) else { return None };
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
        _ => None,
    }
}

/// A number of this many bits with its bytes swapped; `None` if it has more bits.
fn turned(number: u64, ty: Type) -> Option<i64> {
    match ty {
        types::I16 => Some(i64::from(u16::try_from(number).ok()?.swap_bytes())),
        _ => Some(i64::from(u32::try_from(number).ok()?.swap_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::types::{I16, I32, I64};

    /// Tests that the pass turns `compared` of two words `v0` and `v1` of the frame into the expected code.
    fn check(ty: Type, compared: impl Fn(&mut FuncCursor, [Value; 2]) -> [Value; 2], expected: &[&str]) {
        let mut func = Function::new();
        let block = func.dfg.make_block();
        let words = [ty, ty].map(|ty| func.dfg.append_block_param(block, ty));
        let mut cursor = FuncCursor::new(&mut func);
        cursor.insert_block(block);
        let fields = words.map(|word| {
            let turned = cursor.ins().bswap(word);
            cursor.ins().uextend(I64, turned)
        });
        let [a, b] = compared(&mut cursor, fields);
        let equal = cursor.ins().icmp(IntCC::Equal, a, b);
        cursor.ins().return_(&[equal]);
        compare_unswapped(&mut func);
        let text = func.to_string();
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
    }

    #[test]
    fn two_fields_or_a_field_and_a_number_stay_as_they_are() {
        check(I16, |_, fields| fields, &["icmp eq v0, v1"]);
        let cut = |cursor: &mut FuncCursor, [a, b]: [Value; 2]| {
            let narrow = cursor.ins().ireduce(I16, a);
            [cursor.ins().uextend(I64, narrow), b]
        };
        check(I16, cut, &["icmp eq v0, v1"]);
        let number = |cursor: &mut FuncCursor, [a, _]: [Value; 2]| [a, cursor.ins().iconst(I64, 0x800)];
        check(I16, number, &["iconst.i16 8", "icmp eq v0, v8"]);
        check(I32, number, &["iconst.i32 0x0008_0000", "icmp eq v0, v8"]);
    }

    #[test]
    fn a_number_that_no_field_has_is_compared_with_the_field() {
        let number = |cursor: &mut FuncCursor, [a, _]: [Value; 2]| [a, cursor.ins().iconst(I64, 0x1_0000)];
        check(I16, number, &["icmp eq v3, v6"]);
    }
}
