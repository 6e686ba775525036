//! jemalloc as the allocator of the whole program.
//!
//! Records are allocated by the thread that polls and freed where their transaction ends. glibc's
//! allocator takes a tenth more time for that, and more memory (BENCHMARKS.md, "A backlog").

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Few threads allocate, so two arenas do; what is free goes back to the system after half a second.
/// `MALLOC_CONF` in the environment outranks it.
#[expect(unsafe_code, reason = "jemalloc looks for a symbol of this name")]
#[unsafe(export_name = "malloc_conf")]
pub(crate) static SETTINGS: &[u8; 46] = b"narenas:2,dirty_decay_ms:500,muzzy_decay_ms:0\0";
