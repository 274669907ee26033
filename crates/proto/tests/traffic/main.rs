//! Modelled traffic over the engine, in virtual time.

mod flows;
mod harness;
mod properties;
mod strays;
mod theory;
