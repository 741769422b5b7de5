//! The architecture's blocks: an instance with bound storage becomes an [`ir::Block`].

use p4jet_ir as ir;
use p4jet_ir::{BlockId, BlockKind, FieldId};
use p4jet_syntax::span::Span;

use crate::cfg::Jump;
use crate::context::{Flow, Kind, Lowered, Lowerer};
use crate::scope::{Binding, BlockDecl, Object};
use crate::value::{ObjectId, Storage, Value};

/// The binding of a block parameter.
#[derive(Clone, Debug)]
pub enum BlockArg {
    /// Storage that the parameter denotes. All blocks may share it.
    Storage(Storage),
    /// The packet to parse.
    PacketIn,
    /// The packet to assemble.
    PacketOut,
}

impl Lowerer<'_> {
    /// Returns the place where `main` is instantiated.
    pub fn main_span(&self) -> Span {
        let main = self.program.main.map(|m| self.program.instances[m.index()].span);
        main.unwrap_or_else(crate::context::nowhere)
    }

    /// Returns the objects passed to a package instance, by parameter.
    pub fn package_objects(&mut self, package: ObjectId) -> Lowered<Vec<ObjectId>> {
        let Object::Package(object) = self.object(package) else {
            return self.bug(self.main_span(), "`main` is not a package");
        };
        let mut out = Vec::new();
        for arg in object.args.clone() {
            match arg {
                Some(Value::Object(id)) => out.push(id),
                _ => return self.unsupported(self.main_span(), "a package argument that is not an object"),
            }
        }
        Ok(out)
    }

    /// Lowers a parser or control instance as a separate block.
    pub fn block(
        &mut self,
        object: ObjectId,
        kind: BlockKind,
        args: &[BlockArg],
        error_field: Option<FieldId>,
    ) -> Lowered<BlockId> {
        let Object::Block(block) = self.object(object).clone() else {
            return self.bug(self.main_span(), "a block that is neither parser nor control");
        };
        let params = self.params_of(block.decl);
        if params.len() != args.len() {
            let what = format!("`{}` with {} parameters", self.block_name(object), params.len());
            return self.unsupported(self.main_span(), what);
        }
        for (param, arg) in params.iter().zip(args) {
            let binding = match arg {
                BlockArg::Storage(storage) => Binding::Storage(storage.clone()),
                BlockArg::PacketIn => Binding::Value(Value::Object(self.add_object(Object::PacketIn))),
                BlockArg::PacketOut => Binding::Value(Value::Object(self.add_object(Object::PacketOut))),
            };
            self.scope_mut(block.scope).vars.insert(param.var, binding);
        }
        let flow = Flow { ret: Jump::Return, result: None, exit: Jump::Return, loops: Vec::new() };
        // P4_16 parsers may visit states in any order; in a control, code runs in the order of the text.
        self.runs_once = matches!(block.decl, BlockDecl::Control(_));
        let span = match block.decl {
            BlockDecl::Parser(id) => self.program.parsers[id.index()].span,
            BlockDecl::Control(id) => self.program.controls[id.index()].span,
        };
        let outer = std::mem::replace(&mut self.span, span);
        let body = self.graph(flow, |cx| {
            let end = cx.node();
            let finishes = kind == BlockKind::Deparser && cx.bit_cursor.is_some();
            if finishes {
                (cx.flow.ret, cx.flow.exit) = (Jump::Node(end), Jump::Node(end));
            }
            if kind == BlockKind::Parser {
                cx.start_input();
            }
            cx.in_scope(block.scope, |cx| match block.decl {
                BlockDecl::Parser(id) => cx.parser_body(id, Jump::Return, ""),
                BlockDecl::Control(id) => cx.control_body(id),
            })?;
            if finishes {
                cx.goto(end);
                cx.enter(end);
                cx.finish_output()?;
            }
            Ok(())
        });
        self.span = outer;
        self.runs_once = false;
        let name = self.block_name(object);
        Ok(self.add_block(&name, kind, body?, error_field))
    }

    /// Adds a block that the architecture itself writes, such as its traffic manager.
    pub fn glue(&mut self, name: &str, f: impl FnOnce(&mut Self) -> Lowered<()>) -> Lowered<BlockId> {
        let main = self.main_span();
        let outer = std::mem::replace(&mut self.span, main);
        let body = self.graph(Flow::default(), f);
        self.span = outer;
        Ok(self.add_block(name, BlockKind::Control, body?, None))
    }

    fn add_block(
        &mut self,
        name: &str,
        kind: BlockKind,
        body: ir::Cfg,
        error_field: Option<FieldId>,
    ) -> BlockId {
        let name = self.unique_name(Kind::Block, name);
        self.ir.blocks.push(ir::Block { name, kind, body, error_field });
        BlockId(self.ir.blocks.len() as u32 - 1)
    }
}
