//! In the push phase nobody pops.

use pgas_containers::CircularQueue;
use pgas_containers::queue::Push;

fn pop_while_others_push(queue: &CircularQueue<u64, Push>) {
    let _ = queue.pop();
}

fn main() {}
