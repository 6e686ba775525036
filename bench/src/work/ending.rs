//! When a candidate is done.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::options::Order;

/// Knows when a candidate is done: all records are settled, or, if others settle some too, somebody says so.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    records: u64,
    told: Arc<AtomicBool>,
}

impl Ending {
    /// As ordered.
    pub(super) fn of(order: &Order) -> Self {
        let told = Arc::new(AtomicBool::new(false));
        if order.records == 0 {
            let told = Arc::clone(&told);
            std::thread::spawn(move || {
                // An error is an end as well.
                drop(std::io::stdin().read_to_end(&mut Vec::new()));
                told.store(true, Relaxed);
            });
        }
        Self { records: order.records, told }
    }

    /// Whether it is, with so many records settled.
    pub(super) fn reached(&self, settled: u64) -> bool {
        if self.records == 0 { self.told.load(Relaxed) } else { settled >= self.records }
    }
}
