//! Slots on a disk in memory: fresh start, recovery, damage, crashes, close.

mod aside;
mod crash;
mod damage;
mod deferred;
mod dictionary;
mod disk;
mod fresh;
mod identity;
mod large;
mod older;
mod real;
mod rig;
mod room;
mod tail;
mod watermark;
