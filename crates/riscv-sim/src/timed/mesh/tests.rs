//! The mesh against arithmetic by hand, and against the rules that no traffic may break.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::timed::queue::EventQueue;

#[derive(Default)]
struct Sink {
    events: EventQueue<MeshEvent>,
    order: u64,
    delivered: Vec<(Time, Message)>,
}

impl MeshSink for Sink {
    fn schedule(&mut self, at: Time, event: MeshEvent) {
        self.order += 1;
        self.events.push(at, self.order, event);
    }

    fn deliver(&mut self, at: Time, message: Message) {
        self.delivered.push((at, message));
    }
}

fn request(target: u16, n_flits: u32, tag: u32) -> Message {
    Message {
        target,
        class: Class::Request,
        n_flits,
        tag,
    }
}

fn cycles(n: u64) -> Time {
    Time::from_ps(n * 500)
}

/// A mesh of 3 x 2 as in the paper, whose NICs take what they get at once.
fn six() -> Mesh {
    Mesh::new(&MeshConfig::default(), 6, u32::MAX)
}

fn drain(mesh: &mut Mesh, sink: &mut Sink) {
    while let Some((now, event)) = sink.events.pop() {
        mesh.handle(now, event, sink);
    }
}

#[test]
fn a_lone_packet_takes_three_cycles_a_router_and_one_for_each_further_flit() {
    // Nodes 0 1 2 / 3 4 5: from 0 to 5 three links, hence four routers.
    for (from, to, n_routers) in [(0, 0, 1), (1, 0, 2), (0, 2, 3), (0, 5, 4), (3, 2, 4)] {
        let mut mesh = six();
        let mut sink = Sink::default();
        mesh.inject(Time::ZERO, from, request(to, 5, 7), &mut sink);
        drain(&mut mesh, &mut sink);
        let expected = cycles(n_routers * (2 + 1) + 4);
        assert_eq!(sink.delivered, [(expected, request(to, 5, 7))]);
        assert_eq!(mesh.unloaded(mesh.distance(from, to), 5), expected);
        assert_eq!(mesh.in_flight(), 0);
    }
}

#[test]
fn two_packets_for_one_link_pass_one_after_the_other() {
    let mut mesh = six();
    let mut sink = Sink::default();
    // Both want the link from router 1 to router 0; that of node 1 is there first.
    mesh.inject(Time::ZERO, 1, request(0, 5, 1), &mut sink);
    mesh.inject(Time::ZERO, 2, request(0, 5, 2), &mut sink);
    drain(&mut mesh, &mut sink);
    // Node 1's leaves router 1 at 2 and holds the link until 7; node 2's would have left at 5.
    let first = cycles(2 * 3 + 4);
    let second = cycles(7 + 1 + 3 + 4);
    assert_eq!(
        sink.delivered,
        [(first, request(0, 5, 1)), (second, request(0, 5, 2))]
    );
    assert_eq!(mesh.stats().wait_ps, cycles(2).ps());
    assert_eq!(mesh.stats().hops, 3);
    assert_eq!(mesh.stats().flits, 10);
}

#[test]
fn a_full_nic_holds_requests_back_and_lets_replies_pass() {
    let mut mesh = Mesh::new(&MeshConfig::default(), 6, 1);
    let mut sink = Sink::default();
    for tag in 0..8 {
        mesh.inject(Time::ZERO, 1, request(0, 4, tag), &mut sink);
    }
    let reply = Message {
        class: Class::Reply,
        ..request(0, 2, 100)
    };
    mesh.inject(cycles(100), 2, reply, &mut sink);
    drain(&mut mesh, &mut sink);
    let tags: Vec<_> = sink
        .delivered
        .iter()
        .map(|(_, message)| message.tag)
        .collect();
    assert_eq!(tags, [0, 100]);
    assert_eq!(sink.delivered[1].0, cycles(100 + 3 * 3 + 1));
    assert_eq!(mesh.in_flight(), 7);
    // Each consumed request lets exactly one more through.
    for taken in 1..8 {
        mesh.consumed(cycles(1000 * taken), 0, &mut sink);
        drain(&mut mesh, &mut sink);
        let tag = sink.delivered.last().map(|(_, message)| message.tag);
        assert_eq!(tag.map(u64::from), Some(taken));
    }
    assert_eq!(mesh.in_flight(), 0);
}

proptest! {
    /// Nothing lost, nothing duplicated, nothing faster than light, nothing overtaken on one path,
    /// and no link used twice at a time: what comes in by one output is at least as long apart as
    /// its flits.
    #[test]
    fn every_packet_arrives_once_in_order_and_not_too_early(
        n_nodes in 1_u16..20,
        columns in 0_u32..6,
        buffer_packets in 1_u32..3,
        input_packets in 1_u32..4,
        sends in proptest::collection::vec((0_u16..20, 0_u16..20, 1_u32..8, any::<bool>(), 0_u64..6), 1..150),
    ) {
        let config = MeshConfig { columns, buffer_packets, ..MeshConfig::default() };
        let mut mesh = Mesh::new(&config, n_nodes, input_packets);
        let mut sink = Sink::default();
        let mut sent = Vec::new();
        let mut now = Time::ZERO;
        let mut n_seen = 0;
        let mut todo = sends.into_iter().peekable();
        // The NIC takes one request every 20 cycles, so that input queues run full.
        let mut taking: HashMap<u16, Vec<Time>> = HashMap::new();
        loop {
            let next_take = taking.iter().filter_map(|(&node, queue)| queue.first().map(|&at| (at, node))).min();
            let next_take_at = next_take.map_or(Time::NEVER, |(at, _)| at);
            if let Some((from, to, n_flits, is_reply, gap)) = todo.next_if(|_| now <= sink.events.next_time().min(next_take_at)) {
                let class = if is_reply { Class::Reply } else { Class::Request };
                let (from, to) = (from % n_nodes, to % n_nodes);
                let tag = u32::try_from(sent.len()).unwrap();
                let message = Message { target: to, class, n_flits, tag };
                mesh.inject(now, from, message, &mut sink);
                sent.push((now, from, message));
                now += cycles(gap);
            } else if next_take_at <= sink.events.next_time() {
                let Some((at, node)) = next_take else { break };
                taking.get_mut(&node).unwrap().remove(0);
                mesh.consumed(at, node, &mut sink);
                now = now.max(at);
            } else if let Some((at, event)) = sink.events.pop() {
                now = now.max(at);
                mesh.handle(at, event, &mut sink);
            }
            for &(at, message) in &sink.delivered[n_seen..] {
                if message.class == Class::Request {
                    let queue = taking.entry(message.target).or_default();
                    let from = queue.last().copied().unwrap_or(at);
                    queue.push(from.max(at) + cycles(20));
                    prop_assert!(queue.len() <= input_packets as usize);
                }
            }
            n_seen = sink.delivered.len();
        }
        prop_assert_eq!(mesh.in_flight(), 0);
        prop_assert_eq!(sink.delivered.len(), sent.len());
        let mut seen = vec![false; sent.len()];
        let mut last_on_path: HashMap<(u16, u16, bool), u32> = HashMap::new();
        let mut last_into: HashMap<u16, Time> = HashMap::new();
        let mut hops = 0;
        for &(at, message) in &sink.delivered {
            let tag = message.tag as usize;
            let (start, from, original) = sent[tag];
            prop_assert_eq!(message, original);
            prop_assert!(!std::mem::replace(&mut seen[tag], true));
            let distance = mesh.distance(from, message.target);
            hops += u64::from(distance);
            prop_assert!(at >= start + mesh.unloaded(distance, message.n_flits));
            let path = (from, message.target, message.class == Class::Reply);
            if let Some(last) = last_on_path.insert(path, message.tag) {
                prop_assert!(last < message.tag);
            }
            if let Some(last) = last_into.insert(message.target, at) {
                prop_assert!(at >= last + cycles(u64::from(message.n_flits)));
            }
        }
        prop_assert_eq!(mesh.stats().hops, hops);
    }
}
