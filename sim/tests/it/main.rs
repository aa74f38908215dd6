//! The tests of `sim` from outside, as one program: a file each, so that each crate is linked to them once.

mod backups;
mod budgets;
mod faults;
mod long_work;
mod moves;
mod planted;
mod reading;
mod seeds;
mod step_over;
mod subscriptions;
mod toy;

/// Whether all is to be looked at that is worth a look, by `./check long`, rather than what fits into `./check`.
fn is_long() -> bool {
    std::env::var_os("DICTUM_LONG").is_some()
}
