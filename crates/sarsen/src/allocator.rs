//! Sets glibc's allocator so that it returns freed memory to the system.
//!
//! A password hash needs tens of megabytes for a fraction of a second. By default glibc then keeps blocks of that size,
//! in an arena for each thread.

/// Call it first, before any thread exists.
#[cfg(target_env = "gnu")]
pub fn return_freed_memory() {
    /// Blocks of this size and more are mapped separately, and unmapped when they are freed.
    const MMAP_THRESHOLD: libc::c_int = 1024 * 1024;
    const ARENAS_MAX: libc::c_int = 2;
    #[expect(
        unsafe_code,
        reason = "mallopt has no safe wrapper; it sets two numbers, and no other thread runs yet"
    )]
    // SAFETY: both parameters are documented, and the allocator is used by this thread alone.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}

/// Other allocators return memory by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn return_freed_memory() {}
