//! Copies of packets: the order in which they run, and their outcomes.

use crate::followed::Followed;
use crate::packet_log::Logged;
use crate::queues::{Refusal, Serving};
use p4jet_interp::{Outcome, Ran};
use p4jet_ir::turns::COPIES_MAX;
use p4jet_ir::{DropReason, PipelineHalf, Queued};
use p4jet_packet::{Batch, Pool, PushError};
use std::collections::VecDeque;

/// Maximum generation of a copy (a copy of a copy of … a packet). Copies beyond are dropped, which stops a program
/// that recirculates forever.
pub const GENERATIONS_MAX: u32 = 1024;

/// The outcome of one packet and its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// Packets sent: port and bytes, in order.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Reasons of dropped packets.
    pub dropped: Vec<String>,
}

impl Processed {
    pub(crate) fn dropped(why: impl Into<String>) -> Processed {
        Processed { sent: Vec::new(), dropped: vec![why.into()] }
    }

    /// Adds the drop reason of copies beyond [`COPIES_MAX`], if there are any.
    pub(crate) fn refuse_copies(&mut self, refused: u64) {
        if refused > 0 {
            self.dropped.push(TOO_MANY_COPIES.to_string());
        }
    }
}

/// The outcome of one packet or copy, and the copies that it created.
pub(crate) struct Step<C> {
    pub processed: Processed,
    pub copies: Vec<Made<C>>,
}

/// A copy and its origin.
pub(crate) struct Made<C> {
    /// The half of the pipeline that created it.
    pub made_in: PipelineHalf,
    pub begin: PipelineHalf,
    /// The output queue in which it waits.
    pub queue: Option<(u32, u32)>,
    /// Bytes of its frame.
    pub bytes: usize,
    pub copy: C,
}

/// Converts the interpreter's result for one packet.
pub(crate) fn copied(program: &p4jet_ir::Program, ran: Ran) -> Step<p4jet_interp::Copied> {
    let mut processed = match ran.outcome {
        Outcome::Sent { port, frame } => Processed { sent: vec![(port, frame)], dropped: Vec::new() },
        Outcome::Dropped { reason, .. } => Processed::dropped(reason.text(program)),
        Outcome::Done => Processed::default(),
    };
    processed.refuse_copies(ran.refused_copies);
    let made = |copy: p4jet_interp::Copied| {
        let (made_in, begin, queue, bytes) = (copy.made_in, copy.begin, copy.queue, copy.frame.len());
        Made { made_in, begin, queue, bytes, copy }
    };
    Step { processed, copies: ran.copies.into_iter().map(made).collect() }
}

/// Runs the copies of a packet, and theirs, to the end, in the order of a switch that queues before egress: copies
/// made in ingress are queued before the packet that made them, even those that begin with ingress (a clone that is
/// parsed again); copies that egress sends back begin when all earlier packets have left.
pub(crate) fn run_out<C>(first: Step<C>, mut run: impl FnMut(C) -> Step<C>) -> Processed {
    enum Queued<C> {
        /// The half that created the copy, the half with which it begins, and the copy.
        Copy(PipelineHalf, PipelineHalf, C),
        /// A packet that has run: its outcome, and the copies that it created in egress.
        Done(Processed, Vec<(PipelineHalf, C)>),
    }
    /// Returns the items that a packet adds to the queue after ingress.
    fn split<C>(generation: u32, step: Step<C>) -> Vec<(u32, Queued<C>)> {
        let (mut queue, mut later) = (Vec::new(), Vec::new());
        for Made { made_in, begin, copy, .. } in step.copies {
            match made_in {
                PipelineHalf::Ingress => queue.push((generation + 1, Queued::Copy(made_in, begin, copy))),
                PipelineHalf::Egress => later.push((begin, copy)),
            }
        }
        queue.push((generation, Queued::Done(step.processed, later)));
        queue
    }
    let mut all = Processed::default();
    let mut made = 0;
    let mut queue = VecDeque::from(split(0, first));
    while let Some((generation, queued)) = queue.pop_front() {
        let (processed, copies) = match queued {
            Queued::Copy(..) if generation > GENERATIONS_MAX || made >= COPIES_MAX => {
                (Processed::dropped(TOO_MANY_COPIES), Vec::new())
            }
            Queued::Copy(made_in, begin, copy) => {
                made += 1;
                let step = run(copy);
                if begin == PipelineHalf::Ingress {
                    let queued = split(generation, step);
                    match made_in {
                        PipelineHalf::Ingress => queued.into_iter().rev().for_each(|q| queue.push_front(q)),
                        PipelineHalf::Egress => queue.extend(queued),
                    }
                    continue;
                }
                (step.processed, step.copies.into_iter().map(|made| (made.begin, made.copy)).collect())
            }
            Queued::Done(processed, copies) => (processed, copies),
        };
        all.sent.extend(processed.sent);
        all.dropped.extend(processed.dropped);
        let copies = copies.into_iter();
        queue.extend(
            copies.map(|(begin, copy)| (generation + 1, Queued::Copy(PipelineHalf::Egress, begin, copy))),
        );
        if made >= COPIES_MAX {
            queue.retain(|(_, queued)| matches!(queued, Queued::Done(..)));
            if !all.dropped.iter().any(|why| why == TOO_MANY_COPIES) {
                all.dropped.push(TOO_MANY_COPIES.to_string());
            }
        }
    }
    all
}

/// A packet in the queues: its generation, the number of the received packet (in batches: of its budget), and the
/// copy.
pub(crate) type Travelling<C> = (u32, u64, C);

/// Runs copies that enter and leave queues.
pub(crate) trait Carrier<C> {
    /// Runs a copy, which has left its queue if it waited in one.
    fn run(&mut self, copy: C, queued: Option<Queued>, now_us: u64) -> Step<C>;

    /// Notes that a queue accepted or refused a copy.
    fn entered(&mut self, _queue: (u32, u32), _result: Result<(), &str>) {}
}

/// Like [`run_out`], with output queues: runs the copies of the received packet that begin with ingress, and all that
/// may leave the queues now. Returns the outcome of each packet, with the number of the received packet.
pub(crate) fn run_queued<C>(
    serving: &mut Serving<Travelling<C>>,
    first: Option<(u64, Step<C>)>,
    now_us: u64,
    carrier: &mut impl Carrier<C>,
) -> Vec<(u64, Processed)> {
    serving.refresh();
    let now_ns = now_us.saturating_mul(1000);
    let mut steps_left = COPIES_MAX + serving.packets();
    let mut all = Vec::new();
    // Copies not queued yet. The copies of a clone that is parsed again come before copies that its maker made later.
    let mut made: VecDeque<(u32, u64, Made<C>)> = VecDeque::new();
    // Copies that egress sent back.
    let mut again: VecDeque<Travelling<C>> = VecDeque::new();
    let mut note = |(generation, origin): (u32, u64), step: Step<C>, made: &mut VecDeque<_>| {
        all.push((origin, step.processed));
        step.copies.into_iter().rev().for_each(|copy| made.push_front((generation, origin, copy)));
    };
    if let Some((origin, step)) = first {
        note((0, origin), step, &mut made);
    }
    loop {
        let (travelling, queued) = match made.pop_front() {
            Some((generation, origin, Made { made_in, begin, queue, bytes, copy })) => {
                let travelling = (generation + generations(made_in, begin), origin, copy);
                match queue {
                    Some(queue) => {
                        let result = serving.enqueue(queue, travelling, bytes, now_ns);
                        let result = result.map_err(|(_, why)| refusal(why).general_text());
                        carrier.entered(queue, result);
                        if let Err(why) = result {
                            let step = Step { processed: Processed::dropped(why), copies: Vec::new() };
                            note((generation, origin), step, &mut made);
                        }
                        continue;
                    }
                    None if made_in == PipelineHalf::Egress => {
                        again.push_back(travelling);
                        continue;
                    }
                    None => (travelling, None),
                }
            }
            None => match again.pop_front() {
                Some(travelling) => (travelling, None),
                None => match serving.next(now_ns) {
                    Some((travelling, queued)) => (travelling, Some(queued)),
                    None => return all,
                },
            },
        };
        let (generation, origin, copy) = travelling;
        let step = match steps_left == 0 || generation > GENERATIONS_MAX {
            true => Step { processed: Processed::dropped(TOO_MANY_COPIES), copies: Vec::new() },
            false => carrier.run(copy, queued, now_us),
        };
        steps_left = steps_left.saturating_sub(1);
        note((generation, origin), step, &mut made);
    }
}

/// Returns the difference between the generations of a copy and its maker: 0 for a packet that continues in egress,
/// as it is still the same packet.
pub(crate) fn generations(made_in: PipelineHalf, begin: PipelineHalf) -> u32 {
    u32::from((made_in, begin) != (PipelineHalf::Ingress, PipelineHalf::Egress))
}

/// Joins the outcomes of a packet and its copies.
pub(crate) fn join(all: impl IntoIterator<Item = Processed>) -> Processed {
    let mut joined = Processed::default();
    for processed in all {
        joined.sent.extend(processed.sent);
        joined.dropped.extend(processed.dropped);
    }
    joined
}

pub(crate) const TOO_MANY_COPIES: &str = DropReason::TooManyCopies.general_text();

/// Returns the drop reason of a packet that an output queue refused.
pub(crate) fn refusal(why: Refusal) -> DropReason {
    match why {
        Refusal::Full => DropReason::QueueFull,
        Refusal::NoQueue => DropReason::NoQueue,
    }
}

/// A copy in the form of the engine that created it.
pub(crate) enum Copied {
    Jit(p4jet_jit::Copied),
    Interp(Box<Interpreted>),
}

/// A copy that the interpreter created.
pub(crate) struct Interpreted {
    pub copy: p4jet_interp::Copied,
    /// Its identity in the packet log, if it is logged.
    pub logged: Option<Logged>,
}

impl Copied {
    pub fn is_interpreted(&self) -> bool {
        matches!(self, Copied::Interp(_))
    }

    pub fn begin(&self) -> PipelineHalf {
        match self {
            Copied::Jit(copy) => copy.begin(),
            Copied::Interp(made) => made.copy.begin,
        }
    }

    pub fn made_in(&self) -> PipelineHalf {
        match self {
            Copied::Jit(copy) => copy.made_in(),
            Copied::Interp(made) => made.copy.made_in,
        }
    }

    pub fn queue(&self) -> Option<(u32, u32)> {
        match self {
            Copied::Jit(copy) => copy.queue(),
            Copied::Interp(made) => made.copy.queue,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Copied::Jit(copy) => copy.length(),
            Copied::Interp(made) => made.copy.frame.len(),
        }
    }

    pub fn set_queued(&mut self, queued: Queued) {
        match self {
            Copied::Jit(copy) => copy.set_queued(queued),
            Copied::Interp(made) => made.copy.queued = Some(queued),
        }
    }

    pub fn push(&self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PushError> {
        match self {
            Copied::Jit(copy) => copy.push(pool, batch),
            Copied::Interp(made) => batch.push(pool, made.copy.port, &made.copy.frame),
        }
    }
}

/// A copy for a queue that another worker serves.
pub(crate) struct Handed {
    pub queue: (u32, u32),
    pub enqueued_ns: u64,
    /// The number of copies that it may still make.
    pub copies_left: u32,
    pub travelling: Travelling<Copied>,
    /// The injected packet that it comes from.
    pub followed: Option<Followed>,
}
