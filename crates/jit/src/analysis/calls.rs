//! The implementation of extern calls: inline code, or a call of the function.

use p4jet_ir::{Algorithm, Expr, FieldId, Function, InstanceId, InstanceKind, Program};

/// The implementation of an extern call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It marks the beginning or the end of an atomic part, and emits no code: no stage ends inside.
    Mark,
    /// Inline: a checksum.
    Checksum,
    /// Inline: a hash of this many bytes, at most 8.
    Hash(Algorithm, u32),
    /// Inline: a counter of this many cells.
    Count(InstanceId, u32),
    /// Inline: the read of a register of this many cells.
    RegisterRead(InstanceId, u32),
    /// Inline: the write of a register of this many cells.
    RegisterWrite(InstanceId, u32),
    /// By a call of the function.
    OutOfLine,
}

/// Chooses the implementation of a call.
pub fn call(
    program: &Program,
    function: &Function,
    instance: Option<InstanceId>,
    args: &[Expr],
    outs: &[FieldId],
) -> Call {
    let kind = instance.map(|instance| (instance, &program.instances[instance.index()].kind));
    match (function, kind) {
        (Function::AtomicBegin | Function::AtomicEnd, _) => Call::Mark,
        (Function::Count, Some((instance, InstanceKind::Counter { size, .. }))) => {
            Call::Count(instance, *size)
        }
        (
            Function::RegisterRead,
            Some((instance, InstanceKind::Register { width: ..=64, size: size @ 1.., .. })),
        ) => Call::RegisterRead(instance, *size),
        (Function::RegisterWrite, Some((instance, InstanceKind::Register { width: ..=64, size, .. }))) => {
            Call::RegisterWrite(instance, *size)
        }
        _ => match function.plain_hash() {
            Some(Algorithm::Csum16) if outs.len() == 1 => Call::Checksum,
            Some(algorithm @ (Algorithm::Identity | Algorithm::Crc16 | Algorithm::Crc32)) => {
                word_hash(program, algorithm, args, outs)
            }
            _ => Call::OutOfLine,
        },
    }
}

/// A hash is computed inline if its arguments together are at most a word of whole bytes.
fn word_hash(program: &Program, algorithm: Algorithm, args: &[Expr], outs: &[FieldId]) -> Call {
    let bits: u32 = args.iter().map(|arg| arg.width(program)).sum();
    let is_word = (8..=64).contains(&bits) && bits.is_multiple_of(8);
    match is_word && outs.len() == 1 && args.iter().all(|arg| arg.width(program) > 0) {
        true => Call::Hash(algorithm, bits / 8),
        false => Call::OutOfLine,
    }
}
