//! Cycles.
