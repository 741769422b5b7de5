//! Copies of packets. Generated code makes them; they wait here, with their bytes and the fields they keep, until they
//! run in separate batches.
#![allow(unsafe_code)]

use crate::graph::Graph;
use crate::plan::{ImageCell, PhvLayout};
use p4jet_externs::Destinations;
use p4jet_ir::turns::COPIES_MAX;
use p4jet_ir::{CopyFrame, Intrinsic, PipelineHalf, QUEUE_MAX, Queued, ReplicaList};
use p4jet_packet::{BATCH_MAX, Batch, Packet, Pool, PushError};

/// The maximum number of copies that wait in one worker, those of the running batch included.
pub const COPIES_WAITING_MAX: usize = 1 << 16;
/// The maximum number of bytes in the frames of these copies.
pub const COPIES_WAITING_BYTES_MAX: usize = 64 << 20;

/// The constant properties of the copies that a statement makes.
pub struct CopySite {
    pub begin: PipelineHalf,
    /// The half of the pipeline that has the statement.
    pub made_in: PipelineHalf,
    pub frame: CopyFrame,
    /// Intrinsics that have their own values in copies, by [`intrinsic_bit`].
    pub set: u16,
    /// The cursor, for copies that begin with egress.
    pub cursor: Option<ImageCell>,
    pub replicas: Option<ReplicaSite>,
}

/// The properties in which replicas differ.
pub struct ReplicaSite {
    pub list: ReplicaList,
    pub port: Option<ImageCell>,
    pub instance: Option<ImageCell>,
    pub class_of_service: Option<ImageCell>,
    /// True if the class of service selects the output queue.
    pub queue_by_class: bool,
}

/// Stands for an intrinsic in [`CopySite::set`].
pub fn intrinsic_bit(intrinsic: Intrinsic) -> u16 {
    1 << intrinsic as u16
}

/// The constant properties of all copies of a program.
pub struct CopyLayout {
    /// Limbs of the fields, and of the machine's own variables, that copies inherit.
    pub image_limbs: usize,
    /// Intrinsics that some copy may inherit: set when a copy begins, unless that one has them.
    intrinsics: Vec<(PipelineHalf, Intrinsic, ImageCell)>,
    /// True if frames must be kept as they arrived.
    keep_arrived: bool,
    pub sites: Vec<CopySite>,
}

impl CopyLayout {
    pub fn new(graph: &Graph, memory: &PhvLayout, sites: Vec<CopySite>) -> CopyLayout {
        let mut intrinsics = Vec::new();
        for begin in PipelineHalf::ALL {
            for &(intrinsic, field) in &graph.program.intrinsics {
                if let Some(cell) = memory.cell(graph, begin, graph.slots.field(field))
                    && intrinsic.begin() == begin
                {
                    intrinsics.push((begin, intrinsic, cell));
                }
            }
        }
        let image_limbs = memory.image_bytes as usize / 8;
        CopyLayout { image_limbs, intrinsics, keep_arrived: graph.needs_arrived(), sites }
    }
}

/// A copy that waits to run. It is a box because queues move it.
#[derive(Debug)]
pub struct Copied(Box<Content>);

#[derive(Debug)]
struct Content {
    about: About,
    /// The frame, with headers that a session's truncation cut off: deparsers still read them.
    bytes: Vec<u8>,
    image: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct About {
    begin: PipelineHalf,
    made_in: PipelineHalf,
    maker: u32,
    port: u32,
    /// Bytes of the frame.
    length: usize,
    /// Intrinsics that the image has, by [`intrinsic_bit`].
    set: u16,
    /// The port and the number of the output queue in which it waits.
    queue: Option<(u32, u32)>,
    queued: Option<Queued>,
}

impl Copied {
    /// The half of the pipeline where the copy begins.
    pub fn begin(&self) -> PipelineHalf {
        self.0.about.begin
    }

    /// The half of the pipeline that created the copy.
    pub fn made_in(&self) -> PipelineHalf {
        self.0.about.made_in
    }

    /// The output queue in which the copy waits: the port, and the number of the queue.
    pub fn queue(&self) -> Option<(u32, u32)> {
        self.0.about.queue
    }

    /// The length of its frame in bytes.
    pub fn length(&self) -> usize {
        self.0.about.length
    }

    /// The queue metadata that egress sees.
    pub fn set_queued(&mut self, queued: Queued) {
        self.0.about.queued = Some(queued);
    }

    /// The number of its maker in the batch.
    pub fn maker(&self) -> usize {
        self.0.about.maker as usize
    }

    /// Puts its frame into a batch.
    ///
    /// # Errors
    ///
    /// The errors of [`Batch::push`].
    pub fn push(&self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PushError> {
        batch.push(pool, self.0.about.port, &self.0.bytes)?;
        if let Some(packet) = batch.packets_mut().last_mut() {
            packet.len = self.0.about.length as u32;
        }
        Ok(())
    }
}

/// Numbers of copies that were not created.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusedCopies {
    /// Their packets had created [`COPIES_MAX`].
    pub too_many: u64,
    /// The batch had created [`COPIES_WAITING_MAX`], or [`COPIES_WAITING_BYTES_MAX`].
    pub full: u64,
}

/// The copies of one worker.
pub struct Copies {
    /// The copies that the running batch has created.
    made: Vec<Copied>,
    /// Bytes of the frames of `made`.
    made_bytes: usize,
    /// The number of copies of each packet of the running batch.
    made_by: [u32; BATCH_MAX],
    /// Copies that were not created.
    refused: RefusedCopies,
    /// Copies whose memory can be reused.
    spare: Vec<Copied>,
    /// Bytes of memory for frames in `spare`.
    spare_bytes: usize,
    /// The half of the pipeline where the running batch began.
    began_with: PipelineHalf,
    /// The frames of the running batch as they arrived, if copies need them.
    arrived: Vec<Vec<u8>>,
    /// If the packets of the batch are copies: the address of their bytes, and the number of bytes before a session's truncation.
    whole: Vec<(*const u8, usize)>,
}

impl Copies {
    pub fn new() -> Copies {
        Copies {
            made: Vec::new(),
            made_bytes: 0,
            made_by: [0; BATCH_MAX],
            refused: RefusedCopies::default(),
            spare: Vec::new(),
            spare_bytes: 0,
            began_with: PipelineHalf::Ingress,
            arrived: vec![Vec::new(); BATCH_MAX],
            whole: Vec::with_capacity(BATCH_MAX),
        }
    }

    /// Prepares for a batch.
    ///
    /// # Safety
    /// The packets' frames are readable.
    pub unsafe fn begin(&mut self, layout: &CopyLayout, began_with: PipelineHalf, packets: &[Packet]) {
        self.began_with = began_with;
        self.whole.clear();
        if layout.keep_arrived {
            for (packet, arrived) in packets.iter().zip(&mut self.arrived) {
                arrived.clear();
                if began_with == PipelineHalf::Ingress {
                    // SAFETY: as the caller promises.
                    arrived.extend_from_slice(unsafe { packet.bytes() });
                }
            }
        }
    }

    /// Notes, after [`Self::begin`], that the packets of the batch are these copies, in order.
    pub fn begin_copies<'c>(&mut self, packets: &[Packet], copies: impl Iterator<Item = &'c Copied>) {
        self.whole.extend(packets.iter().zip(copies).map(|(p, c)| (p.data.cast_const(), c.0.bytes.len())));
    }

    /// Takes the copies that the batch created, in the order of the packets that created them, and returns the numbers of
    /// those that were refused. `staged`: the packets ran stage by stage, so their copies came in another order.
    pub fn take(&mut self, staged: bool, take: impl FnMut(Copied)) -> RefusedCopies {
        if !self.made.is_empty() {
            if staged {
                self.made.sort_by_key(Copied::maker);
            }
            self.made.drain(..).for_each(take);
            self.made_bytes = 0;
            self.made_by.fill(0);
        }
        std::mem::take(&mut self.refused)
    }

    /// Takes back a copy that has run.
    pub fn recycle(&mut self, copied: Copied) {
        let bytes = copied.0.bytes.capacity();
        if self.spare_bytes + bytes <= COPIES_WAITING_BYTES_MAX && self.spare.len() < COPIES_WAITING_MAX {
            self.spare_bytes += bytes;
            self.spare.push(copied);
        }
    }

    /// Memory for a copy that some other worker makes.
    pub fn take_spare(&mut self) -> Option<Copied> {
        let spare = self.spare.pop()?;
        self.spare_bytes -= spare.0.bytes.capacity();
        Some(spare)
    }

    /// Makes the copies of a statement.
    ///
    /// # Safety
    /// The packet is one of the running batch.
    pub unsafe fn make(&mut self, making: Making<'_>, destinations: &Destinations) {
        let Making { layout, site, image, packet, maker, cursor, id, queue } = making;
        let site = &layout.sites[site];
        let kept = std::mem::take(&mut self.arrived[maker]);
        let frame: &[u8] = match site.frame {
            CopyFrame::Arrived if layout.keep_arrived => &kept,
            CopyFrame::Arrived if self.began_with == PipelineHalf::Egress => &[],
            // SAFETY: packets of the running batch lie in its pool.
            CopyFrame::Arrived | CopyFrame::Current => unsafe { packet.bytes() },
        };
        let frame_length = frame.len();
        // Headers of a copy that a session cut lie after its frame, and a copy of it takes them along.
        let (frame, was_cut) = match self.whole.get(maker) {
            Some(&(data, whole))
                if site.frame == CopyFrame::Current && data == packet.data && whole > frame.len() =>
            {
                // SAFETY: `Copied::push` wrote this many bytes there.
                (unsafe { std::slice::from_raw_parts(data, whole) }, true)
            }
            _ => (frame, false),
        };
        let queue = queue.map(|(port, number)| {
            (u32::try_from(port).unwrap_or(u32::MAX), number.min(QUEUE_MAX.into()) as u32)
        });
        let new = |length: usize, queue: Option<(u32, u32)>| About {
            begin: site.begin,
            made_in: site.made_in,
            maker: maker as u32,
            port: packet.ingress_port,
            length,
            set: site.set,
            queue,
            queued: None,
        };
        match &site.replicas {
            None => {
                self.push(new(frame_length, queue), frame, image);
            }
            Some(replicas) => {
                let targets = match replicas.list {
                    ReplicaList::Group => destinations.group(id),
                    ReplicaList::Session => destinations.session(id),
                };
                let length = targets.bytes_max.map_or(frame_length, |max| frame_length.min(max as usize));
                let parsed = if was_cut { frame.len() } else { cursor as usize };
                let bytes = &frame[..length.max(parsed).min(frame.len())];
                for replica in targets.replicas() {
                    let queue = queue.map(|(_, number)| match replicas.queue_by_class {
                        true => (replica.port, targets.class_of_service.min(QUEUE_MAX)),
                        false => (replica.port, number),
                    });
                    let Some(image) = self.push(new(length, queue), bytes, image) else { continue };
                    if let Some(cell) = site.cursor {
                        cell.put(image, cursor.min(length as u64));
                    }
                    for (cell, value) in [
                        (replicas.port, replica.port),
                        (replicas.instance, replica.replication_id),
                        (replicas.class_of_service, targets.class_of_service),
                    ] {
                        if let Some(cell) = cell {
                            cell.put(image, value.into());
                        }
                    }
                }
            }
        }
        self.arrived[maker] = kept;
    }

    fn push(&mut self, about: About, bytes: &[u8], image: &[u64]) -> Option<&mut [u64]> {
        let made_by = &mut self.made_by[about.maker as usize];
        if *made_by as usize >= COPIES_MAX {
            self.refused.too_many += 1;
            return None;
        }
        *made_by += 1;
        if self.made.len() >= COPIES_WAITING_MAX || self.made_bytes + bytes.len() > COPIES_WAITING_BYTES_MAX {
            self.refused.full += 1;
            return None;
        }
        self.made_bytes += bytes.len();
        let mut copied = match self.take_spare() {
            Some(Copied(mut content)) => {
                content.about = about;
                content.bytes.clear();
                content.image.clear();
                Copied(content)
            }
            None => Copied(Box::new(Content { about, bytes: Vec::new(), image: Vec::new() })),
        };
        copied.0.bytes.extend_from_slice(bytes);
        copied.0.image.extend_from_slice(image);
        self.made.push(copied);
        self.made.last_mut().map(|copied| copied.0.image.as_mut_slice())
    }
}

/// The run of a copy statement by a packet.
pub struct Making<'m> {
    pub layout: &'m CopyLayout,
    /// The number of the statement in [`CopyLayout::sites`].
    pub site: usize,
    pub image: &'m [u64],
    pub packet: &'m Packet,
    /// The number of the packet in the batch.
    pub maker: usize,
    /// 0 unless the copies keep it.
    pub cursor: u64,
    /// Selects the replicas.
    pub id: u64,
    /// The port, and the number among its queues, where the copies wait, unless replicas have their own queues.
    pub queue: Option<(u64, u64)>,
}

/// Stores the inherited slots of a copy in its first PHV.
///
/// # Safety
/// `phv` has room for the image of the layout.
pub unsafe fn enter(layout: &CopyLayout, copied: &Copied, phv: *mut u64, now_us: u64) {
    // SAFETY: as the caller promises.
    let image = unsafe { std::slice::from_raw_parts_mut(phv, layout.image_limbs) };
    let Content { about, image: inherited, .. } = &*copied.0;
    let queued = about.queued.unwrap_or(Queued { enqueued_us: now_us, ..Queued::default() });
    image.copy_from_slice(inherited);
    for &(begin, intrinsic, cell) in &layout.intrinsics {
        if begin == about.begin && about.set & intrinsic_bit(intrinsic) == 0 {
            let value = match intrinsic {
                Intrinsic::IngressPort => about.port.into(),
                Intrinsic::PacketLength => about.length as u64,
                Intrinsic::IngressTimestamp => now_us,
                _ => queued.value(intrinsic, now_us),
            };
            cell.put(image, value);
        }
    }
}
