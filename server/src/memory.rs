//! Memory that nothing uses goes back to the system.
//!
//! The allocator keeps what was freed, and gives it back when somebody takes or frees more. On a node that has come to rest nobody does: it would go on
//! holding what its last flush needed, a hundred megabytes and more.

/// Lets the allocator give back what is free. Costs what the system needs to unmap it; may be called at any time.
#[allow(unsafe_code, reason = "the allocator has no other interface for this than C's")]
pub(crate) fn give_back() {
    // SAFETY: `mi_collect` has no conditions: any thread may call it at any time. It touches the caller's own heap and what is free.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
