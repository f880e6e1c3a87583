//! The environments through the crate's public face.
#![allow(clippy::unwrap_used)]

mod alfworld;
mod alfworld_data;
mod broken_data;
mod frozen_lake;
mod odd_actions;
mod outside;
mod pool;
mod sokoban;
mod sudoku;
mod traces;
mod webshop;
mod webshop_data;
