//! Calls of extern functions: converts numbers to machine words and back.

use std::collections::HashMap;

use num_bigint::BigUint;
use p4jet_externs::{CallSite, Env};
use p4jet_ir::{Op, Program};

use crate::packet::Frame;

/// Every extern call of a program, resolved.
pub(crate) struct Calls<'a> {
    /// By the statement's address, which does not change while the program is borrowed.
    sites: HashMap<*const Op, Site>,
    program: std::marker::PhantomData<&'a Program>,
}

impl<'a> Calls<'a> {
    pub fn new(program: &'a Program) -> Result<Calls<'a>, String> {
        let mut sites = HashMap::new();
        let actions = program.actions.iter().map(|a| &a.body);
        let blocks = program.blocks.iter().map(|b| &b.body);
        for stmt in actions.chain(blocks).flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
            let Op::Extern { function, instance, args, outs, text } = &stmt.op else { continue };
            let arg_widths = args.iter().map(|arg| arg.width(program)).collect();
            let out_widths = outs.iter().map(|out| program.width(*out)).collect();
            let instance = instance.map(|i| i.0);
            let call = CallSite::new(function.clone(), instance, arg_widths, out_widths, text.clone());
            let call = call.map_err(|why| {
                let place = &program.locs[stmt.loc.index()];
                format!("{}:{}:{}: {why}", place.file, place.line, place.column)
            })?;
            sites.insert(&raw const stmt.op, Site(call));
        }
        Ok(Calls { sites, program: std::marker::PhantomData })
    }

    /// Returns the site of an extern statement of the program.
    pub fn site(&self, op: &'a Op) -> &Site {
        &self.sites[&(&raw const *op)]
    }
}

/// A call in the program.
pub(crate) struct Site(CallSite);

impl Site {
    /// Calls the function. Results have the widths of their destination fields.
    pub fn call(&self, env: &mut Env, frame: &Frame, args: &[BigUint]) -> Vec<BigUint> {
        let packet_len = frame.bytes.len() as u32;
        env.with_packet(frame.payload(), packet_len, |env| self.0.call_with_numbers(env, args))
    }
}
