//! The program from outside: what it prints, what it refuses, what it leaves on disk. The model is a small golden one.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod bad_input;
mod commands;
mod data;
mod data_pull;
mod devices;
mod evaluate;
mod everyday;
mod library;
#[path = "../../../download/tests/loopback/mod.rs"]
mod loopback;
mod needs_browser;
mod needs_postgres;
mod newcomer;
mod paper;
mod place;
mod questions;
mod server;
mod towers;
mod train;
mod winner;
