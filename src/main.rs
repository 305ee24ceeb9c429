//! Entry point: runs the command line and returns its exit code. `docs/architecture.md` has the floors of the house.

use std::process::ExitCode;

/// The engine allocates and frees millions of small nodes on several threads. With the allocator of glibc an import
/// takes twice the processor time, and fragmented memory is not returned to the system.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    playgate_cli::main()
}
