//! Credits of one sender for a ring of 64 slots, with parts of 4.

use super::*;

const N_SLOTS: usize = 64;

#[test]
fn a_sender_takes_half_of_a_ring_and_more_as_it_is_given_back() {
    let credits = Credits::new(N_SLOTS);
    for ticket in 0..32 {
        assert_eq!(credits.n_left(0), 32 - ticket);
        assert!(credits.allow(1, || 0));
        credits.take(1, ticket + 1);
    }
    assert_eq!(credits.n_left(0), 0);
    assert!(!credits.allow(1, || 0));
    assert!(!credits.allow(1, || 3), "a part is not back as a whole");
    assert!(credits.allow(1, || 4));
    assert!(credits.allow(4, || 4));
    assert!(!credits.allow(5, || 4));
    assert_eq!(credits.n_left(4), 4);
    assert_eq!(credits.n_left(32), 32);
}

#[test]
fn parts_are_given_back_across_the_end_of_the_tickets() {
    let credits = Credits::new(N_SLOTS);
    // Others have sent so much before that tickets wrap around in the first round.
    let start = u64::MAX - 9;
    for n in 0..32_u64 {
        assert!(credits.allow(1, || start));
        credits.take(1, start.wrapping_add(n + 1));
    }
    assert!(!credits.allow(1, || start));
    for given_back in 0..32_u64 {
        let head = start.wrapping_add(given_back);
        assert_eq!(credits.n_left(head), given_back / 4 * 4, "{given_back}");
        assert_eq!(credits.allow(1, || head), given_back >= 4);
        assert_eq!(credits.allow(8, || head), given_back >= 8);
    }
}

#[test]
fn long_messages_and_slots_of_others_in_between_count_right() {
    let credits = Credits::new(N_SLOTS);
    let (mut ticket, mut out) = (0_u64, std::collections::VecDeque::new());
    let mut head = 0;
    for round in 0..1000_u64 {
        let n = 1 + round * 7 % 9;
        while !credits.allow(n, || head) {
            let (end, _) = out.pop_front().expect("what is given back leaves room");
            head = end;
        }
        // Others take slots too.
        ticket += round % 5 + n;
        credits.take(n, ticket);
        out.push_back((ticket, n));
        let n_out: u64 = out.iter().map(|(_, n)| n).sum();
        assert!(n_out <= 32, "{n_out} slots are out");
    }
    head = ticket;
    assert!(credits.n_left(head) > 28);
    assert!(credits.allow(28, || head));
}
