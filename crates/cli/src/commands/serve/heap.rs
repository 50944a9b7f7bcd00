//! How the heap gives memory back.

/// What is taken and freed once: it is mapped by itself, and never touched.
const BLOCK: usize = 1024 * 1024;

/// Lets the heap keep up to 2 MiB that are free, for each of the allocator's arenas.
///
/// The allocator of glibc gives the end of the heap back to the system as soon as 128 KiB of it are free. An upload takes
/// and frees buffers thousands of times a second there, and each time their pages would go, and come back one fault at a time. The
/// threshold becomes twice the largest block that was mapped by itself and freed (`M_MMAP_THRESHOLD` in mallopt(3)).
/// Other allocators take no notice.
pub(super) fn keep_free_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
}
