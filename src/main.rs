//! The command line of Playgate.

fn main() {}
