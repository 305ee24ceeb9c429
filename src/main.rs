//! Command line in, exit code out.

use std::process::ExitCode;

/// The engine makes and frees millions of small nodes on several threads. With the allocator of glibc that
/// costs twice the processor time of an import, and leaves memory in pieces that are not given back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    playgate::cli::main()
}
