//! One module per command. A command's arguments are what the user typed; its `run` checks them before any work.

pub mod classify;
pub mod compare;
pub mod completions;
pub mod data;
pub mod demo;
pub mod describe;
pub mod devices;
pub mod embed;
pub mod eval;
pub mod index;
pub mod inputs;
pub mod man;
pub mod models;
pub mod relevance;
pub mod renamed;
pub mod reproduce;
pub mod search;
pub mod serve;
pub mod train;
