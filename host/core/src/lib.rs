//! Plain types of accredit that everything else is written in: episodes as they were played or read from a file
//! ([`episode`]) and the random streams of a run ([`rng`]).
//!
//! This crate knows no file, no tensor and no plugin.

pub mod episode;
pub mod rng;
