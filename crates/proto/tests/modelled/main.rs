//! Modelled traffic over the engine, in virtual time.

mod ends;
mod errors;
mod flows;
mod harness;
mod networks;
mod properties;
mod shares;
mod strays;
mod theory;
mod wires;
