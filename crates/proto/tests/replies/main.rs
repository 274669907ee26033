//! Router replies and fragments against packets built by another implementation.

mod common;
mod fragments;
mod hostile;
mod v4;
mod v6;
