//! The environments through the crate's public face.
#![allow(clippy::unwrap_used)]

mod frozen_lake;
mod odd_actions;
mod pool;
mod sokoban;
mod sudoku;
mod traces;
