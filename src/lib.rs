//! Distributed data structures over a partitioned global address space.
