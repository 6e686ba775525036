//! Seeded histories.
