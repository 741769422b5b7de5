//! The integration tests: one program, because linking takes longer than compiling them.

mod netns;
mod tap;
mod veth;
mod xdp;
