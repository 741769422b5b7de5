//! Strongly connected components of a graph, by Tarjan's algorithm without recursion.

/// Returns the strongly connected components of a graph whose node `n` leads to `targets[n]`; each follows those that it leads
/// to.
pub(crate) fn components(targets: &[Vec<u32>]) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let n = targets.len();
    let (mut order, mut low) = (vec![NEW; n], vec![0; n]);
    let (mut open, mut is_open) = (Vec::new(), vec![false; n]);
    let mut components = Vec::new();
    let mut next = 0;
    for start in 0..n as u32 {
        if order[start as usize] != NEW {
            continue;
        }
        // The nodes on the path, with the number of targets that have been followed.
        let mut way = vec![(start, 0)];
        while let Some((node, followed)) = way.pop() {
            let at = node as usize;
            if followed == 0 {
                (order[at], low[at]) = (next, next);
                next += 1;
                open.push(node);
                is_open[at] = true;
            } else {
                let child = targets[at][followed - 1] as usize;
                if is_open[child] {
                    low[at] = low[at].min(low[child]);
                }
            }
            if let Some(&to) = targets[at].get(followed) {
                way.push((node, followed + 1));
                if order[to as usize] == NEW {
                    way.push((to, 0));
                }
                continue;
            }
            if low[at] == order[at] {
                let first = open.iter().rposition(|other| *other == node).unwrap_or(0);
                let component = open.split_off(first);
                component.iter().for_each(|node| is_open[*node as usize] = false);
                components.push(component);
            }
        }
    }
    components
}
