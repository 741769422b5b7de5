//! A multicast group: its nodes, and the copies of each, in the order in which packets are copied.

use std::sync::Arc;

/// Maximum number of nodes and copies of a chunk with several nodes.
const CHUNK_MAX: usize = 1024;

/// One destination of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The port.
    pub port: u32,
    /// The replication id (v1model's `egress_rid`, PSA's `instance`).
    pub replication_id: u32,
}

/// The nodes of a multicast group. Clones share their chunks, so that a change copies only one chunk and the list of chunks, however
/// many nodes there are.
#[derive(Clone, Debug, Default)]
pub struct Group {
    chunks: Arc<Vec<Arc<Chunk>>>,
}

/// Neighbouring nodes; at least one.
#[derive(Clone, Debug, Default)]
struct Chunk {
    nodes: Vec<InGroup>,
    /// The copies of all nodes, in their order.
    replicas: Vec<Replica>,
}

/// A node in the group.
#[derive(Clone, Copy, Debug)]
struct InGroup {
    /// Nodes are in the order of their positions.
    position: u64,
    node: u32,
    /// The number of copies.
    copies: u32,
}

impl Group {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.nodes.len()).sum()
    }

    /// True if the group has no nodes.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the handles of the nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = u32> {
        self.places().map(|(_, node)| node)
    }

    /// Returns the positions of the nodes with their handles, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u32)> {
        self.chunks.iter().flat_map(|chunk| chunk.nodes.iter().map(|node| (node.position, node.node)))
    }

    /// Returns the copies, in order.
    pub fn replicas(&self) -> impl Iterator<Item = Replica> + use<'_> {
        self.chunks.iter().flat_map(|chunk| chunk.replicas.iter().copied())
    }

    /// Adds a node at the end and returns its position.
    pub(crate) fn push(&mut self, node: u32, replicas: &[Replica]) -> u64 {
        let last = self.chunks.last().and_then(|chunk| chunk.nodes.last());
        let position = last.map_or(0, |node| node.position + 1);
        self.set(position, node, replicas);
        position
    }

    /// Adds a node at a position, or changes the copies of the one that is there.
    pub(crate) fn set(&mut self, position: u64, node: u32, replicas: &[Replica]) {
        let new = InGroup { position, node, copies: replicas.len() as u32 };
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.is_empty() {
            chunks.push(Arc::default());
        }
        let at = chunk_of(chunks, position);
        let chunk = Arc::make_mut(&mut chunks[at]);
        let (index, found, start) = chunk.find(position);
        let end = start + if found { chunk.nodes[index].copies as usize } else { 0 };
        chunk.replicas.splice(start..end, replicas.iter().copied());
        match found {
            true => chunk.nodes[index] = new,
            false => chunk.nodes.insert(index, new),
        }
        if let Some(rest) = chunk.split() {
            chunks.insert(at + 1, Arc::new(rest));
        }
    }

    /// Removes the node at a position.
    pub(crate) fn remove(&mut self, position: u64) {
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.is_empty() {
            return;
        }
        let at = chunk_of(chunks, position);
        let chunk = Arc::make_mut(&mut chunks[at]);
        let (index, found, start) = chunk.find(position);
        if found {
            let old = chunk.nodes.remove(index);
            chunk.replicas.drain(start..start + old.copies as usize);
        }
        if chunk.nodes.is_empty() {
            chunks.remove(at);
        }
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.nodes().eq(other.nodes()) && self.replicas().eq(other.replicas())
    }
}

impl Eq for Group {}

/// The chunk that has a position, or gets it. There is at least one chunk.
fn chunk_of(chunks: &[Arc<Chunk>], position: u64) -> usize {
    chunks.partition_point(|chunk| chunk.nodes.first().is_some_and(|node| node.position <= position)).max(1)
        - 1
}

impl Chunk {
    /// The index of a position, whether a node is there, and the number of copies before it.
    fn find(&self, position: u64) -> (usize, bool, usize) {
        let found = self.nodes.binary_search_by_key(&position, |node| node.position);
        let index = found.unwrap_or_else(|index| index);
        let before = self.nodes[..index].iter().map(|node| node.copies as usize).sum();
        (index, found.is_ok(), before)
    }

    /// Cuts the chunk if it is too large, and returns the second half.
    fn split(&mut self) -> Option<Chunk> {
        if self.nodes.len() < 2 || self.nodes.len() + self.replicas.len() <= CHUNK_MAX {
            return None;
        }
        let nodes = self.nodes.split_off(self.nodes.len() / 2);
        let kept = self.nodes.iter().map(|node| node.copies as usize).sum();
        Some(Chunk { nodes, replicas: self.replicas.split_off(kept) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// After any changes, a group is what a map from positions says, and its chunks have bounds. Clones keep what they had.
    #[test]
    fn a_group_is_what_its_changes_say() {
        let (mut group, mut expected) = (Group::default(), BTreeMap::new());
        let mut seed = 11u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for step in 0..20_000 {
            let old = (group.clone(), group.nodes().count());
            let replicas: Vec<Replica> =
                (0..random(5)).map(|n| Replica { port: n as u32, replication_id: step }).collect();
            let position = random(3000);
            match random(8) {
                0 => {
                    let last = expected.last_key_value().map_or(0, |(last, _)| last + 1);
                    assert_eq!(group.push(step, &replicas), last);
                    expected.insert(last, (step, replicas));
                }
                1..5 => {
                    group.set(position, step, &replicas);
                    expected.insert(position, (step, replicas));
                }
                _ => {
                    group.remove(position);
                    expected.remove(&position);
                }
            }
            assert_eq!(old.0.nodes().count(), old.1);
            if step % 100 == 0 {
                assert!(group.nodes().eq(expected.values().map(|(node, _)| *node)));
                assert!(
                    group.replicas().eq(expected.values().flat_map(|(_, replicas)| replicas.iter().copied()))
                );
                assert_eq!(group.len(), expected.len());
                let sizes = group.chunks.iter().map(|chunk| (chunk.nodes.len(), chunk.replicas.len()));
                assert!(
                    sizes.clone().all(|(nodes, replicas)| nodes > 0 && nodes + replicas <= CHUNK_MAX + 5)
                );
            }
        }
        let all: Vec<u64> = expected.keys().copied().collect();
        all.iter().for_each(|position| group.remove(*position));
        assert!(group.is_empty() && group == Group::default());
    }
}
