pub mod credit;
