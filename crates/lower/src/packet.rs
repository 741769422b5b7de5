//! `packet_in` and `packet_out` of core.p4.

use p4jet_analysis::typed::{self, Call, ExprKind, Type};
use p4jet_ir::{Expr, HeaderId, Intrinsic};
use p4jet_syntax::ast::StructKind;
use p4jet_syntax::span::Span;

use crate::build;
use crate::context::{Lowered, Lowerer};
use crate::place::Place;
use crate::value::{Storage, Value};

impl Lowerer<'_> {
    /// A method of `packet_in`.
    pub(crate) fn packet_in(&mut self, method: &str, call: &Call, ret: &Type) -> Lowered<Value> {
        match method {
            "extract" => {
                let ty = match call.type_args.first() {
                    Some(ty) => self.ty(ty),
                    None => return self.bug(call.span, "extract without type"),
                };
                let place = match &call.args[0] {
                    Some(e) => self.place(e)?,
                    // `extract<T>(_)`: the bits are skipped.
                    None => Place::Storage(self.local(&ty, "$skipped", call.span)?),
                };
                let length = match call.args.get(1) {
                    Some(Some(e)) => {
                        let length = self.scalar(e)?;
                        Some(self.atom(length))
                    }
                    _ => None,
                };
                self.extract(&place, length, call.span)?;
                Ok(Value::Void)
            }
            "lookahead" => {
                let Some(width) = self.wire_width(ret) else {
                    let what = format!("lookahead of type {}", self.program.type_text(ret));
                    return self.unsupported(call.span, what);
                };
                if width == 0 {
                    return self.zero(ret, call.span);
                }
                let dest = self.peek(width);
                let mut from = width;
                self.carve(&Expr::Field(dest), &mut from, ret, call.span)
            }
            "advance" => {
                let bits = match &call.args[0] {
                    Some(e) => self.scalar(e)?,
                    None => return self.bug(call.span, "advance without argument"),
                };
                self.advance(bits)?;
                Ok(Value::Void)
            }
            "length" => {
                let field = self.intrinsic(Intrinsic::PacketLength, "packet_length", 32);
                Ok(Value::Scalar(build::resize(&self.ir, Expr::Field(field), 32)))
            }
            other => self.unsupported(call.span, format!("packet_in.{other}")),
        }
    }

    /// Ensures that bits are counted if a header is not a whole number of bytes.
    pub(crate) fn whole_bytes(&mut self, id: HeaderId) {
        let header = &self.ir.headers[id.index()];
        self.needs_bits |= !crate::headers::fixed_bits(&self.ir, header).is_multiple_of(8);
    }

    /// Takes a value of type `ty` from `bits`, downwards from bit `from`.
    fn carve(&mut self, bits: &Expr, from: &mut u32, ty: &Type, span: Span) -> Lowered<Value> {
        if let Some(width) = self.scalar_width(ty) {
            let hi = *from - 1;
            *from -= width;
            return Ok(Value::Scalar(build::slice(&self.ir, bits.clone(), hi, *from)));
        }
        match self.underlying(ty) {
            Type::Bit(0) => Ok(Value::Struct(Vec::new())),
            Type::Stack(element, n) => {
                let mut elements = Vec::new();
                for _ in 0..n {
                    elements.push(self.carve(bits, from, &element, span)?);
                }
                if !self.is_header(&element) {
                    return Ok(Value::Struct(elements));
                }
                Ok(Value::Stack { elements, next: Expr::constant(n, 32) })
            }
            t => {
                let mut parts = Vec::new();
                for (_, ty) in self.fields_of(&t) {
                    parts.push(self.carve(bits, from, &ty, span)?);
                }
                Ok(match self.struct_kind(&t) {
                    Some(StructKind::Header) => Value::Header { valid: build::truth(true), fields: parts },
                    Some(_) => Value::Struct(parts),
                    None => {
                        return self
                            .unsupported(span, format!("lookahead of type {}", self.program.type_text(&t)));
                    }
                })
            }
        }
    }

    /// A method of `packet_out`.
    pub(crate) fn packet_out(&mut self, method: &str, call: &Call) -> Lowered<Value> {
        match (method, &call.args[..]) {
            ("emit", [Some(e)]) => {
                let storage = self.emitted(e)?;
                self.emit_headers(&storage, e.span)?;
                Ok(Value::Void)
            }
            (other, _) => self.unsupported(call.span, format!("packet_out.{other}")),
        }
    }

    /// Returns the storage of an emitted expression; a value without storage, and an element with a run-time index,
    /// gets new storage.
    fn emitted(&mut self, e: &typed::Expr) -> Lowered<Storage> {
        let inner = match &e.kind {
            ExprKind::Cast(inner) if self.is_place(inner) => inner,
            _ => e,
        };
        let value = if self.is_place(inner) {
            let place = self.place(inner)?;
            if let Place::Storage(storage) = place {
                return Ok(storage);
            }
            self.read(&place)?
        } else {
            self.expr(e)?
        };
        let ty = self.ty(&e.ty);
        let storage = self.local(&ty, "$emitted", e.span)?;
        self.assign_storage(&storage, value);
        Ok(storage)
    }

    /// P4_16 "deparsing": headers if valid; structs, stacks and unions member by member.
    fn emit_headers(&mut self, storage: &Storage, span: Span) -> Lowered<()> {
        match storage {
            Storage::Header { id, .. } => {
                if self.in_table_action {
                    return self.unsupported(span, "emit in an action that a table runs");
                }
                self.whole_bytes(*id);
                self.emit_bits(*id)
            }
            Storage::Struct(parts) | Storage::Union(parts) | Storage::Stack { elements: parts, .. } => {
                parts.iter().try_for_each(|p| self.emit_headers(p, span))
            }
            Storage::Scalar(_) | Storage::Varbit { .. } => {
                self.unsupported(span, "emit of something that is not a header")
            }
        }
    }
}
