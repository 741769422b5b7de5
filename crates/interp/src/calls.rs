//! Calls of extern functions: converts numbers to machine words and back.

use std::collections::HashMap;

use num_bigint::BigUint;
use p4jet_externs::{CallSite, Env};
use p4jet_ir::eval::wrap;
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
            let Some(def) = p4jet_externs::find(function) else {
                let place = &program.locs[stmt.loc.index()];
                return Err(format!(
                    "{}:{}:{}: {}",
                    place.file,
                    place.line,
                    place.column,
                    p4jet_ir::unknown_extern(function)
                ));
            };
            let site = CallSite {
                def,
                instance: instance.map(|i| i.0),
                arg_widths: args.iter().map(|arg| arg.width(program)).collect(),
                out_widths: outs.iter().map(|out| program.width(*out)).collect(),
                text: text.clone(),
            };
            sites.insert(&raw const stmt.op, Site(site));
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
        let site = &self.0;
        let mut arg_limbs = Vec::new();
        for (arg, width) in args.iter().zip(&site.arg_widths) {
            let end = arg_limbs.len() + limb_count(*width);
            arg_limbs.extend(arg.iter_u64_digits());
            arg_limbs.resize(end, 0);
        }
        let mut out_limbs = vec![0; site.out_widths.iter().map(|w| limb_count(*w)).sum()];
        let packet_len = frame.bytes.len() as u32;
        env.with_packet(frame.payload(), packet_len, |env| {
            (site.def.call)(env, site, &arg_limbs, &mut out_limbs)
        });
        let mut rest = out_limbs.as_slice();
        let mut outs = Vec::new();
        for width in &site.out_widths {
            let (limbs, after) = rest.split_at(limb_count(*width));
            rest = after;
            let digits = limbs.iter().flat_map(|limb| [*limb as u32, (*limb >> 32) as u32]).collect();
            outs.push(wrap(BigUint::new(digits), *width));
        }
        outs
    }
}

/// Returns the number of limbs of a value of this width.
fn limb_count(width: u32) -> usize {
    width.div_ceil(64) as usize
}
