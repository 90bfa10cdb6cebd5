//! How glibc's allocator is set so that memory which was needed for a moment goes back to the system.
//!
//! Hashing a password takes tens of megabytes for a fraction of a second. By default glibc learns from that to
//! keep such blocks, in an arena for each thread.

/// Called first of all, before any thread exists.
#[cfg(target_env = "gnu")]
pub fn return_freed_memory() {
    /// Blocks from this size on are mapped by themselves, and unmapped when they are freed.
    const MMAP_THRESHOLD: libc::c_int = 1024 * 1024;
    const ARENAS_MAX: libc::c_int = 2;
    #[expect(
        unsafe_code,
        reason = "mallopt has no safe face; it only sets two numbers, and no other thread runs yet"
    )]
    // SAFETY: both parameters are documented, and the allocator is used by this thread alone.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}

/// Other allocators give back by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn return_freed_memory() {}
