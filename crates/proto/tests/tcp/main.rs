//! TCP endpoints over a small simulated network, against closed forms and tables of RFCs.

mod acks;
mod bottleneck;
mod congestion;
mod ecn;
mod handshake;
mod loss;
mod properties;
mod recovery;
mod sim;
mod window;
