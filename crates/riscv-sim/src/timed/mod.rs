//! The timed machine: what each part of a node and of the network costs in cycles, one part a module.
