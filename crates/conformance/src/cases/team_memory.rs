//! Memory that the members of a team allocate together.

use pgas_core::{Error, GlobalPtr, Rank, Result, Symmetric, Team, World};

use super::teams::some_teams;
use super::{case, case_alone};
use crate::Case;
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case_alone!(1, a_team_allocates_at_one_offset_on_its_members_alone),
    case_alone!(1, teams_side_by_side_allocate_as_often_as_each_likes),
    case_alone!(1, teams_that_overlap_have_memory_of_their_own),
    case_alone!(1, the_memory_of_dropped_teams_falls_to_their_parent),
    case_alone!(1, what_one_member_has_no_room_for_fails_on_all),
    case_alone!(1, teams_that_are_made_again_and_again_leave_nothing),
    case_alone!(1, each_of_many_teams_has_most_of_the_memory),
];

/// Writes `word` into all of the next member's part, when all have come.
fn fill(team: &Team, memory: &Symmetric<u64>, word: u64) -> Result<()> {
    let next = (team.rank() + 1) % team.n_ranks();
    let words = vec![word; memory.len()];
    memory.member(next).put_slice(team.world(), &words)?;
    team.barrier()
}

/// Checks that this rank's part is all `word`.
fn expect(memory: &Symmetric<u64>, word: u64) -> Result<()> {
    let here = memory.here().get_vec(memory.world(), memory.len())?;
    assert_eq!(here, vec![word; memory.len()], "{memory:?}");
    Ok(())
}

fn a_team_allocates_at_one_offset_on_its_members_alone(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let before = world.local_heap_use().used;
        for len in [0_u32, 1, 100, 700] {
            let memory = team.alloc_symmetric::<u64>(len as usize)?;
            let offset = memory.here().offset_bytes();
            let of_all = team.allgather(&[offset])?;
            assert!(of_all.iter().all(|other| *other == offset), "{of_all:?}");
            for (i, rank) in (0..).zip(team.ranks()) {
                assert_eq!(memory.member(i), GlobalPtr::new(rank, offset));
                assert_eq!(memory.member(i), memory.on(rank));
            }
            expect(&memory, 0)?;
            team.barrier()?;
            fill(&team, &memory, u64::from(len) + 1)?;
            expect(&memory, u64::from(len) + 1)?;
        }
        let paged = team.alloc_symmetric_aligned::<u8>(10, 4096)?;
        assert_eq!(paged.here().offset_bytes() % 4096, 0);
        drop(paged);
        team.reclaim()?;
        assert_eq!(world.local_heap_use().used, before, "{team:?}");
    }
    world.barrier()
}

fn teams_side_by_side_allocate_as_often_as_each_likes(world: &World) -> Result<()> {
    let colour = world.rank().number() % 3;
    let team = world.team().split(Some(colour), 0)?.expect("a colour");
    // Each rank's heap has other holes.
    let local = world.alloc::<u64>(10 * world.rank().index())?;
    let mut kept = Vec::new();
    for (round, n) in (0..=4 * u64::from(colour)).zip(1..) {
        let memory = team.alloc_symmetric::<u64>(7 * n)?;
        fill(&team, &memory, round)?;
        kept.push(memory);
        if round % 3 == 2 {
            // Later ones take its place, of other lengths.
            kept.remove(0);
        }
    }
    let first = 1 + 4 * u64::from(colour) - kept.len() as u64;
    for (round, memory) in (first..).zip(&kept) {
        expect(memory, round)?;
    }
    world.free(local);
    drop((kept, team));
    world.barrier()
}

fn teams_that_overlap_have_memory_of_their_own(world: &World) -> Result<()> {
    let (me, n) = (world.rank().number(), world.n_ranks());
    let before = world.local_heap_use().used;
    // Intervals of two and of three ranks, and everybody but one.
    let mut teams = Vec::new();
    for (len, first) in [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)] {
        let colour = (me >= first).then(|| (me - first) / len);
        teams.push(world.team().split(colour, n - me)?);
    }
    teams.push(world.team().split((me != n / 2).then_some(0), 0)?);
    let teams: Vec<Team> = teams.into_iter().flatten().collect();
    let mut live: Vec<(Symmetric<u64>, u64)> = Vec::new();
    let mut random = rng(u64::from(me));
    for round in 0..3 {
        for (i, team) in (0_u64..).zip(&teams) {
            let word = team.id().bits() + round;
            let len = team.broadcast(0, random.usize(..200))?;
            let memory = team.alloc_symmetric::<u64>(len)?;
            fill(team, &memory, word)?;
            live.push((memory, word));
            if random.u8(..3) == 0 && i > 0 {
                // In an order that no other rank has.
                live.swap_remove(random.usize(..live.len()));
            }
        }
        for (memory, word) in &live {
            expect(memory, *word)?;
        }
        // Who has seen its words may have them overwritten, and its handles dropped elsewhere.
        world.barrier()?;
    }
    drop((live, teams));
    world.reclaim()?;
    assert_eq!(world.local_heap_use().used, before);
    world.barrier()
}

fn the_memory_of_dropped_teams_falls_to_their_parent(world: &World) -> Result<()> {
    let me = world.rank().number();
    let before = world.local_heap_use().used;
    let team = world.team().split(Some(me % 2), 0)?.expect("a colour");
    let inner = team.split(Some(team.rank() / 2), 0)?.expect("a colour");
    let (outer_memory, inner_memory) = (
        team.alloc_symmetric::<u64>(100)?,
        inner.alloc_symmetric::<u64>(50)?,
    );
    inner_memory.bequeath([world.alloc::<u64>(30)?.cast()]);
    fill(&team, &outer_memory, 1)?;
    fill(&inner, &inner_memory, 2)?;
    let used = world.local_heap_use().used;
    // The last rank keeps one handle, which keeps all that is of its split.
    let is_last = me + 1 == world.n_ranks();
    let kept = is_last.then(|| inner_memory.team().clone());
    drop((team, outer_memory));
    drop((inner_memory, inner));
    world.reclaim()?;
    assert_eq!(world.local_heap_use().used, used);
    drop(kept);
    drop(world.alloc_symmetric::<u64>(1)?);
    assert_eq!(world.local_heap_use().used, before);
    world.barrier()
}

fn what_one_member_has_no_room_for_fails_on_all(world: &World) -> Result<()> {
    let (me, n) = (world.rank().number(), world.n_ranks());
    let reversed = world.team().reorder(n - me)?;
    let half = usize::try_from(world.local_heap_use().largest / 16).expect("words in memory");
    let is_full = world.rank() == Rank::ZERO;
    let taken = is_full
        .then(|| world.alloc::<u64>(half + 100))
        .transpose()?;
    let refused = reversed.alloc_symmetric::<u64>(half + 100);
    match refused.expect_err("one member has no room") {
        Error::Exhausted(what) => assert!(is_full && what.largest < what.requested),
        Error::Elsewhere(there) => assert!(!is_full && there.rank == Rank::ZERO),
        other => panic!("{other}"),
    }
    if let Some(taken) = taken {
        world.free(taken);
    }
    world.barrier()?;
    let memory = reversed.alloc_symmetric::<u64>(half + 100)?;
    assert_eq!(memory.len(), half + 100);
    world.barrier()
}

fn teams_that_are_made_again_and_again_leave_nothing(world: &World) -> Result<()> {
    let before = world.local_heap_use().used;
    let mut most = 0;
    for round in 0..130 {
        let colour = (world.rank().number() + round) % 2;
        let team = world.team().split(Some(colour), 0)?.expect("a colour");
        if round % 8 == 0 {
            fill(&team, &team.alloc_symmetric(20)?, 1)?;
        }
        most = most.max(world.local_heap_use().used - before);
    }
    assert!(most <= 9 * 192, "{most} bytes are in use");
    world.reclaim()?;
    assert_eq!(world.local_heap_use().used, before);
    world.barrier()
}

/// Each team is dropped before the next one is made; some ranks stay away from some of them.
fn each_of_many_teams_has_most_of_the_memory(world: &World) -> Result<()> {
    let words = usize::try_from(world.local_heap_use().largest / 16).expect("a segment's");
    for round in 0..8 {
        let joins =
            world.rank() == Rank::ZERO || !(world.rank().number() + round).is_multiple_of(3);
        let team = world.split(joins.then_some(7), 0)?;
        if let Some(team) = team {
            let memory = team.alloc_symmetric::<u64>(words)?;
            fill(&team, &memory, round.into())?;
            expect(&memory, round.into())?;
            team.barrier()?;
        }
    }
    world.barrier()
}
