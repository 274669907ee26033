//! Modelled traffic over the engine, in virtual time.

mod flows;
mod harness;
