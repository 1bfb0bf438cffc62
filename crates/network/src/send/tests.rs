//! Ranks over a weak network: buffers are few and are freed late, sends find no room, and messages
//! travel for any time.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::bundle::Reader;
use crate::note::Note;

const CLASSES: [MessageClass; 2] = [MessageClass::Request, MessageClass::Reply];
const REQUEST: usize = MessageClass::Request as usize;
const N_BUFFERS: usize = 3;
const HANDLER: HandlerId = HandlerId(77);
/// A handler of core, whose messages may not wait for others.
const URGENT: HandlerId = HandlerId::COLLECTIVE;

/// The network as one rank's sender sees it, and the messages that the rank has sent.
#[derive(Debug)]
struct Wire {
    rank: u32,
    time: Instant,
    buffers: [Vec<Vec<u8>>; 2],
    free: [Vec<usize>; 2],
    /// Buffers whose bytes have not left.
    busy: Vec<(MessageClass, usize)>,
    sent: HashMap<(u32, usize), VecDeque<Vec<u8>>>,
    /// Whether sends find room.
    has_room: bool,
    /// A rank to which nothing can be sent.
    lost: Option<u32>,
}

impl Wire {
    fn new(rank: u32) -> Self {
        Self {
            rank,
            time: Instant::now(),
            buffers: [(); 2].map(|()| vec![vec![0; BUNDLE_BYTES]; N_BUFFERS]),
            free: [(0..N_BUFFERS).collect(), (0..N_BUFFERS).collect()],
            busy: Vec::new(),
            sent: HashMap::new(),
            has_room: true,
            lost: None,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.time += time;
    }

    /// All sends complete.
    fn complete(&mut self) {
        for (class, buffer) in self.busy.drain(..) {
            self.free[class as usize].push(buffer);
        }
    }

    fn n_sent(&self, to: u32) -> usize {
        let sent = |class| {
            self.sent
                .get(&(to, class as usize))
                .map_or(0, VecDeque::len)
        };
        CLASSES.into_iter().map(sent).sum()
    }

    fn put(&mut self, to: u32, class: MessageClass, bytes: Vec<u8>) {
        self.sent
            .entry((to, class as usize))
            .or_default()
            .push_back(bytes);
    }
}

impl Carrier for Wire {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn now(&self) -> Instant {
        self.time
    }

    fn take(&mut self, class: MessageClass) -> Result<Option<usize>> {
        Ok(self.free[class as usize].pop())
    }

    fn bytes(&mut self, class: MessageClass, buffer: usize) -> &mut [u8] {
        &mut self.buffers[class as usize][buffer]
    }

    fn begin(&mut self, to: u32, class: MessageClass, buffer: usize, len: usize) -> Result<bool> {
        if self.lost == Some(to) {
            self.free[class as usize].push(buffer);
            return Err(Error::backend("a send", 0, "no way"));
        }
        if self.has_room {
            let bytes = self.buffers[class as usize][buffer][..len].to_vec();
            self.put(to, class, bytes);
            self.busy.push((class, buffer));
        }
        Ok(self.has_room)
    }

    fn send_now(
        &mut self,
        to: u32,
        class: MessageClass,
        header: &[u8; HEADER_BYTES],
        parts: &[&[u8]],
    ) -> Result<bool> {
        if self.has_room {
            let bytes = [&header[..], &parts.concat()].concat();
            self.put(to, class, bytes);
        }
        Ok(self.has_room)
    }
}

fn send(peers: &mut Peers, wire: &mut Wire, to: u32, len: usize) -> Sent {
    let payload = vec![1; len];
    peers
        .send(wire, to, MessageClass::Request, HANDLER, &[&payload])
        .unwrap()
}

#[test]
fn the_first_messages_leave_at_once_and_those_behind_them_together() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    for n in 1..=3 {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
        assert_eq!((wire.n_sent(1), peers.has_open()), (n, false));
    }
    for _ in 0..50 {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    }
    assert_eq!(wire.n_sent(1), 3);
    peers.send_open(&mut wire);
    assert_eq!((wire.n_sent(1), peers.has_open()), (4, false));
    let together = &wire.sent[&(1, REQUEST)][3];
    let mut reader = Reader::default();
    for _ in 0..50 {
        assert_eq!(reader.next(together), Some((HANDLER, &[1; 8][..])));
    }
    assert!(reader.is_at_end(together.len()));
}

#[test]
fn nothing_waits_while_each_message_is_answered_or_the_network_was_idle() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    for n in 1..1000 {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
        assert_eq!((wire.n_sent(1), peers.has_open()), (n, false));
        peers.of(1).credit([1, 0]);
    }
    // As many as there are credits for.
    for n in 1..=32 {
        assert_eq!(send(&mut peers, &mut wire, 2, 8), Sent::Accepted);
        assert_eq!((wire.n_sent(2), peers.has_open()), (n, false));
        wire.wait(DELAY);
    }
    assert_eq!(send(&mut peers, &mut wire, 2, 8), Sent::BackPressure);
}

#[test]
fn what_is_kept_leaves_when_its_time_is_over_and_anything_is_sent() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    for _ in 0..9 {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    }
    assert_eq!(wire.n_sent(1), 3);
    wire.wait(DELAY / 2);
    assert_eq!(send(&mut peers, &mut wire, 2, 8), Sent::Accepted);
    assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    assert_eq!(wire.n_sent(1), 3);
    wire.wait(DELAY / 2);
    // To any rank.
    assert_eq!(send(&mut peers, &mut wire, 2, 8), Sent::Accepted);
    assert_eq!((wire.n_sent(1), peers.has_open()), (4, false));
    for _ in 0..9 {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    }
    assert_eq!(wire.n_sent(1), 4);
    wire.wait(DELAY);
    assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    assert_eq!((wire.n_sent(1), peers.has_open()), (5, false));
}

/// Its sender would send it again, and its receiver may have it.
#[test]
fn what_is_accepted_stays_so_when_what_was_kept_for_another_rank_cannot_be_sent() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    for to in [1, 2] {
        for _ in 0..9 {
            assert_eq!(send(&mut peers, &mut wire, to, 8), Sent::Accepted);
        }
    }
    wire.lost = Some(1);
    wire.wait(DELAY);
    let before = wire.n_sent(2);
    assert_eq!(send(&mut peers, &mut wire, 2, 8), Sent::Accepted);
    peers.send_open(&mut wire);
    assert_eq!((wire.n_sent(2), peers.has_open()), (before + 1, false));
    let (rank, error) = peers.take_unreachable().unwrap();
    assert!(rank == 1 && error.to_string().contains("no way"), "{error}");
    assert!(peers.take_unreachable().is_none());
}

#[test]
fn a_long_message_and_one_of_cores_own_take_along_what_is_before_them() {
    for (handler, len) in [(HANDLER, BUNDLE_BYTES), (URGENT, 8)] {
        let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
        while !peers.has_open() {
            assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
        }
        let payload = vec![1; len];
        let request = MessageClass::Request;
        let sent = peers.send(&mut wire, 1, request, handler, &[&payload]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        assert!(!peers.has_open());
        let last = wire.sent[&(1, REQUEST)].back().unwrap();
        let mut reader = Reader::default();
        let mut read = None;
        while let Some((handler, payload)) = reader.next(last) {
            read = Some((handler, payload.len()));
        }
        assert_eq!(read, Some((handler, len)));
    }
}

#[test]
fn back_pressure_is_seen_when_all_credits_are_on_their_way() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    let request = MessageClass::Request;
    let mut n = 0;
    while send(&mut peers, &mut wire, 1, 1000) == Sent::Accepted {
        wire.complete();
        n += 1;
    }
    assert!((90..32 * 4).contains(&n), "{n}");
    assert_eq!(peers.n_credits(1, request), 0);
    assert_eq!(peers.n_credits(2, request), 32);
    peers.of(1).credit([1, 0]);
    assert_eq!(peers.n_credits(1, request), 1);
    assert_eq!(send(&mut peers, &mut wire, 1, 1000), Sent::Accepted);
}

#[test]
fn credits_of_a_message_that_finds_no_room_ride_on_it_later() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    while !peers.has_open() {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    }
    assert_eq!(peers.handed_out(1, MessageClass::Request, true), None);
    wire.has_room = false;
    for _ in 0..3 {
        peers.send_open(&mut wire);
        assert!(peers.has_open());
    }
    wire.has_room = true;
    peers.send_open(&mut wire);
    let last = wire.sent[&(1, REQUEST)].back().unwrap();
    assert_eq!(Header::decode(last).unwrap().credits, [1, 0]);
}

/// One step of a job.
#[derive(Clone, Debug)]
enum Step {
    /// A rank sends a request to another one.
    Send { from: usize, to: usize, len: usize },
    /// A rank looks at the network, and takes that many messages of the program.
    Poll { rank: usize, limit: usize },
    /// All sends of a rank complete.
    Complete { rank: usize },
    /// From now on a rank's sends find room, or none.
    Room { rank: usize, has_room: bool },
    /// Time passes.
    Wait { rank: usize, microseconds: u64 },
}

const N_RANKS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let rank = 0..N_RANKS;
    prop_oneof![
        8 => (rank.clone(), rank.clone(), prop_oneof![4..40_usize, 4..3000_usize])
            .prop_map(|(from, to, len)| Step::Send { from, to, len }),
        3 => (rank.clone(), 1..40_usize).prop_map(|(rank, limit)| Step::Poll { rank, limit }),
        2 => rank.clone().prop_map(|rank| Step::Complete { rank }),
        1 => (rank.clone(), any::<bool>())
            .prop_map(|(rank, has_room)| Step::Room { rank, has_room }),
        2 => (rank, 1..30_u64).prop_map(|(rank, microseconds)| Step::Wait { rank, microseconds }),
    ]
}

/// A rank: what it sent is numbered for each receiver and class.
struct Rank {
    peers: Peers,
    wire: Wire,
    n_sent: HashMap<(usize, usize), u32>,
    n_got: HashMap<(usize, usize), u32>,
    /// Messages that were read in part, by sender and class.
    rest: HashMap<(usize, usize), (Vec<u8>, Reader)>,
    /// Answers that found no room.
    owed: VecDeque<(usize, u32)>,
}

impl Rank {
    fn new(rank: usize) -> Self {
        Self {
            peers: Peers::default(),
            wire: Wire::new(u32::try_from(rank).unwrap()),
            n_sent: HashMap::new(),
            n_got: HashMap::new(),
            rest: HashMap::new(),
            owed: VecDeque::new(),
        }
    }

    /// Sends the next message of a class to `to`, and says whether it was accepted.
    fn send(&mut self, to: usize, class: MessageClass, len: usize) -> bool {
        let number = self.n_sent.entry((to, class as usize)).or_default();
        let payload = vec![number.to_ne_bytes()[0]; len - 4];
        let parts = [&number.to_ne_bytes()[..], &payload];
        let to = u32::try_from(to).unwrap();
        let sent = self.peers.send(&mut self.wire, to, class, HANDLER, &parts);
        let is_accepted = sent.unwrap() == Sent::Accepted;
        *number += u32::from(is_accepted);
        is_accepted
    }
}

struct Job {
    ranks: Vec<Rank>,
}

impl Job {
    fn new() -> Self {
        let ranks = (0..N_RANKS).map(Rank::new).collect();
        Self { ranks }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send { from, to, len } if from != to => {
                self.ranks[from].send(to, MessageClass::Request, len);
            }
            Step::Send { .. } => {}
            Step::Poll { rank, limit } => self.poll(rank, limit),
            Step::Complete { rank } => self.ranks[rank].wire.complete(),
            Step::Room { rank, has_room } => self.ranks[rank].wire.has_room = has_room,
            Step::Wait { rank, microseconds } => {
                self.ranks[rank]
                    .wire
                    .wait(Duration::from_micros(microseconds));
            }
        }
    }

    /// Does what a backend does: sends kept messages, reads messages up to a limit, replies first,
    /// and answers each request; then sends kept answers.
    fn poll(&mut self, rank: usize, limit: usize) {
        let here = &mut self.ranks[rank];
        here.peers.send_open(&mut here.wire);
        for class in [MessageClass::Reply, MessageClass::Request] {
            for from in (0..N_RANKS).filter(|from| *from != rank) {
                self.read(rank, from, class, limit);
            }
        }
        let here = &mut self.ranks[rank];
        here.peers.send_open(&mut here.wire);
    }

    fn read(&mut self, rank: usize, from: usize, class: MessageClass, limit: usize) {
        let mut n = 0;
        while n < limit {
            // A rank takes no requests while it owes answers.
            self.answer(rank);
            if class == MessageClass::Request && !self.ranks[rank].owed.is_empty() {
                return;
            }
            let place = (u32::try_from(rank).unwrap(), class as usize);
            let (bytes, mut reader) = match self.ranks[rank].rest.remove(&(from, class as usize)) {
                Some(rest) => rest,
                None => {
                    let queue = self.ranks[from].wire.sent.get_mut(&place);
                    let Some(bytes) = queue.and_then(VecDeque::pop_front) else {
                        return;
                    };
                    (bytes, Reader::default())
                }
            };
            let here = &mut self.ranks[rank];
            let sender = u32::try_from(from).unwrap();
            let header = Header::decode(&bytes).unwrap();
            assert_eq!((header.from, header.kind), (sender, class as u16));
            if reader.is_at_start() {
                here.peers.of(sender).credit(header.credits);
            }
            while n < limit
                && let Some((handler, payload)) = reader.next(&bytes)
            {
                let number = here.n_got.entry((from, class as usize)).or_default();
                assert_eq!(handler, HANDLER);
                assert_eq!(payload[..4], number.to_ne_bytes(), "in order, and once");
                assert!(
                    payload[4..]
                        .iter()
                        .all(|byte| *byte == number.to_ne_bytes()[0])
                );
                *number += 1;
                n += 1;
                if class == MessageClass::Request {
                    here.owed.push_back((from, *number));
                }
            }
            if !reader.is_at_end(bytes.len()) {
                here.rest.insert((from, class as usize), (bytes, reader));
                return;
            }
            let note = here.peers.handed_out(sender, class, true);
            if let Some(Note::Credits(credits)) = note {
                let me = u32::try_from(rank).unwrap();
                self.ranks[from].peers.of(me).credit(credits);
            }
        }
    }

    fn answer(&mut self, rank: usize) {
        let here = &mut self.ranks[rank];
        while let Some((to, number)) = here.owed.pop_front() {
            let len = 4 + number as usize % 100;
            if !here.send(to, MessageClass::Reply, len) {
                here.owed.push_front((to, number));
                return;
            }
        }
    }

    /// Whether all requests have arrived, and their answers.
    fn is_over(&self) -> bool {
        let n = |of: &HashMap<_, u32>, place| of.get(&place).copied().unwrap_or(0);
        let [request, reply] = CLASSES.map(|class| class as usize);
        let is_answered = |(from, to): (usize, usize)| {
            let (asker, other) = (&self.ranks[from], &self.ranks[to]);
            let n_asked = n(&asker.n_sent, (to, request));
            n(&other.n_got, (from, request)) == n_asked
                && n(&other.n_sent, (from, reply)) == n_asked
                && n(&asker.n_got, (to, reply)) == n_asked
        };
        let mut pairs = (0..N_RANKS * N_RANKS).map(|i| (i / N_RANKS, i % N_RANKS));
        pairs.all(is_answered)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn all_that_is_accepted_arrives_once_whole_and_in_order_and_is_answered(
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut job = Job::new();
        for step in &steps {
            job.take(step);
            for rank in &job.ranks {
                let most = (0..3).map(|to| rank.wire.n_sent(to)).max();
                prop_assert!(most <= Some(64), "more than the credits of both classes");
            }
        }
        let mut n_rounds = 0;
        while !job.is_over() {
            for rank in 0..N_RANKS {
                job.take(&Step::Room { rank, has_room: true });
                job.take(&Step::Complete { rank });
                job.poll(rank, 7);
            }
            n_rounds += 1;
            prop_assert!(n_rounds < 10_000, "a message waits for ever");
        }
        for rank in &job.ranks {
            prop_assert!(!rank.peers.has_open());
        }
    }
}

#[test]
fn a_message_in_a_buffer_of_its_own_goes_behind_those_that_are_being_filled() {
    let (mut peers, mut wire) = (Peers::default(), Wire::new(0));
    for _ in 0..4 {
        assert_eq!(send(&mut peers, &mut wire, 1, 8), Sent::Accepted);
    }
    assert_eq!((wire.n_sent(1), peers.has_open()), (3, true));
    let filled = |peers: &mut Peers, wire: &mut Wire| {
        let of = (1, MessageClass::Request, HANDLER);
        let begin = |wire: &mut Wire, header: &[u8; HEADER_BYTES]| {
            if wire.has_room {
                wire.put(1, of.1, [&header[..], &[2; 5000]].concat());
            }
            Ok(wire.has_room)
        };
        peers.send_filled(wire, of, 5000, begin).unwrap()
    };
    wire.has_room = false;
    assert_eq!(filled(&mut peers, &mut wire), Sent::BackPressure);
    assert_eq!((wire.n_sent(1), peers.has_open()), (3, true));
    wire.has_room = true;
    assert_eq!(filled(&mut peers, &mut wire), Sent::Accepted);
    assert_eq!((wire.n_sent(1), peers.has_open()), (5, false));
    for (index, payload) in [(3, &[1; 8][..]), (4, &[2; 5000])] {
        let mut reader = Reader::default();
        let message = &wire.sent[&(1, REQUEST)][index];
        assert_eq!(reader.next(message), Some((HANDLER, payload)));
        assert!(reader.is_at_end(message.len()));
    }
    // Each message has a credit, and one that is refused has none.
    let n_sent = peers.sent_to(1)[REQUEST];
    wire.has_room = false;
    assert_eq!(filled(&mut peers, &mut wire), Sent::BackPressure);
    assert_eq!((n_sent, peers.sent_to(1)[REQUEST]), (5, 5));
}
