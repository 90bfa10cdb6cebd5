//! Sets glibc's allocator so that it returns freed memory to the system.
//!
//! A password hash needs tens of megabytes for a fraction of a second. By default glibc then keeps blocks of that size,
//! in an arena for each thread. Memory that lies between blocks in use it gives back only when it is told to.

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

/// Gives freed memory back to the system from time to time, by a thread of its own: after a wave of connections glibc keeps
/// what lies between blocks that are still in use.
#[cfg(target_env = "gnu")]
pub fn keep_returning_freed_memory() {
    use std::sync::Once;
    use std::time::{Duration, Instant};
    static STARTED: Once = Once::new();
    const EVERY: Duration = Duration::from_secs(20);
    /// The longest pause, so that it happens within a minute …
    const PAUSE_MAX: Duration = Duration::from_secs(50);
    /// … because a heap with a million free blocks takes a tenth of a second, in which others wait for memory.
    const PAUSE_FOR_EACH: u32 = 1_000;
    let give_back = || {
        let mut pause = EVERY;
        loop {
            // Nobody unparks this thread.
            std::thread::park_timeout(pause);
            let began = Instant::now();
            #[expect(
                unsafe_code,
                reason = "malloc_trim has no safe wrapper; it takes a number, and every thread may call it"
            )]
            // SAFETY: it has no precondition.
            unsafe {
                libc::malloc_trim(0);
            }
            pause = (began.elapsed() * PAUSE_FOR_EACH).clamp(EVERY, PAUSE_MAX);
        }
    };
    STARTED.call_once(|| {
        if let Err(error) = std::thread::Builder::new().name("memory".to_owned()).spawn(give_back) {
            tracing::warn!(%error, "freed memory is kept by this process");
        }
    });
}

/// Other allocators return memory by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn keep_returning_freed_memory() {}

/// Other allocators return memory by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn return_freed_memory() {}
