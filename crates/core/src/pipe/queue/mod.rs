//! Queue disciplines: who waits for the sender, and who may not even wait.
//!
//! One file each. Disciplines that decide at dequeue (CoDel, fair queueing) need service start as
//! an event; drop-tail does not, and runs on the fast path of [`super`].

mod drop_tail;

pub(crate) use drop_tail::DropTail;
