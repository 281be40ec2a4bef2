//! Slots on a disk in memory: fresh start, recovery, damage, crashes, close.

mod crash;
mod damage;
mod dictionary;
mod disk;
mod fresh;
mod real;
mod rig;
mod tail;
mod watermark;
