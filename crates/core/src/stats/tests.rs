//! The figures of jobs whose operations are known.

use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use super::board::{Board, word};
use super::counting::{Opening, Origin};
use super::figures::Figures;
use super::operations::{Operation, Performed, Price};
use super::{Counting, Report, steps};
use crate::backend::{HandlerId, MessageClass, Sent, loopback};
use crate::cost::CostKind;
use crate::{Config, Costs, Rank, Result, Statistics, World};

fn config(statistics: Statistics) -> Config {
    Config {
        statistics,
        ..Config::default()
    }
}

static STEP: Operation = Operation::new("Cell::step", &[Price::new("", [1, 0, 0])], "");

#[test]
fn what_a_rank_serves_within_an_operation_is_no_part_of_its_price() {
    const SERVE: HandlerId = HandlerId(100);
    let config = config(Statistics::Total);
    let world = loopback::worlds(1, &config).unwrap().remove(0);
    let cell = world.alloc::<u64>(1).unwrap();
    world.set_handler(SERVE, move |world, message| {
        cell.put(world, 7).unwrap();
        if message.payload.len() > 1 {
            drop(world.performs(&STEP, 1));
        }
    });
    let send = |payload: &[u8]| {
        let sent = world.try_send(world.rank(), MessageClass::Request, SERVE, &[payload]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
    };
    for payload in [&[1_u8][..], &[1, 2]] {
        send(payload);
        let _performs = world.performs(&STEP, 1);
        cell.fetch_add(&world, 1).unwrap();
        while world.progress().unwrap() {}
        world.run_watched(|| cell.get(&world)).unwrap();
        cell.fetch_add(&world, 1).unwrap();
    }
    let rows = Performed::read_all(world.counting().unwrap().board());
    let row = rows.iter().find(|row| row.name == "Cell::step").unwrap();
    // Atomics, reads, writes and messages.
    assert_eq!((row.calls, row.paid), (3, [4, 0, 0, 0]));
    // It counts for the rank.
    let costs = world.costs();
    assert_eq!((costs.atomics, costs.reads, costs.writes), (4, 2, 2));
}

#[test]
fn ranks_without_common_memory_send_their_figures_to_the_first_one() {
    let file = std::env::temp_dir().join(format!("pgas-figures-{}.json", std::process::id()));
    let mut config = config(Statistics::PerPeer);
    config.statistics_file = Some(file.display().to_string());
    loopback::run_with(5, &config, |world| {
        let cells = world.alloc_symmetric::<u64>(1).unwrap();
        for _ in 0..=world.rank().number() {
            cells.on(Rank::new(3)).put(&world, 1).unwrap();
        }
        world.barrier().unwrap();
    });
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(
        text.contains("\"n_ranks\":5,\"outcome\":\"all ranks have left\""),
        "{text}"
    );
    for (rank, n) in (0..5).zip(1..) {
        let told = format!("{{\"rank\":{rank},\"left\":true,");
        let at = text.find(&told).unwrap_or_else(|| panic!("{told}: {text}"));
        let puts = format!(
            "\"puts\":{{\"near\":0,\"near_bytes\":0,\"remote\":{n},\"remote_bytes\":{}}}",
            8 * n
        );
        let line = text[at..].lines().next().unwrap();
        assert!(line.contains(&puts), "{puts}: {line}");
        // The puts on the fourth rank.
        let peers = line.split_once("\"peers\":[").unwrap().1;
        let fourth = peers.split("],[").nth(3).unwrap();
        assert_eq!(
            fourth.split(',').nth(1),
            Some(n.to_string().as_str()),
            "{line}"
        );
    }
}

/// A job that opened the pipe would wait for its reader, and could not be interrupted.
#[test]
fn a_pipe_in_the_place_of_the_file_ends_nothing_but_the_report() {
    let pipe = std::env::temp_dir().join(format!("pgas-pipe-{}.json", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut config = config(Statistics::Total);
    config.statistics_file = Some(pipe.display().to_string());
    loopback::run_with(2, &config, |world| world.barrier().unwrap());
    fs::remove_file(&pipe).unwrap();
}

#[test]
fn ranks_that_survive_a_failure_send_their_figures_to_the_first_one() {
    let file = std::env::temp_dir().join(format!("pgas-failed-{}.json", std::process::id()));
    let mut config = config(Statistics::Total);
    config.statistics_file = Some(file.display().to_string());
    let (n_left, passed) = (AtomicU32::new(0), Barrier::new(5));
    let job = || {
        loopback::run_with(5, &config, |world| {
            let cell = world.alloc_symmetric::<u64>(1).unwrap();
            cell.here().put(&world, 1).unwrap();
            world.barrier().unwrap();
            // None of them is in it still.
            passed.wait();
            assert_ne!(world.rank(), Rank::new(3), "as it was told");
            while world.barrier().is_ok() {}
            if world.rank() == Rank::ZERO {
                // So that the first one need not wait for them, however busy the machine is.
                let until = Instant::now() + Duration::from_secs(60);
                while n_left.load(Ordering::Acquire) < 3 && Instant::now() < until {
                    world.take_notes();
                    thread::yield_now();
                }
            } else {
                drop((cell, world));
                n_left.fetch_add(1, Ordering::Release);
            }
        });
    };
    assert!(panic::catch_unwind(AssertUnwindSafe(job)).is_err());
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(text.contains("\"outcome\":\"rank 3 "), "{text}");
    for rank in [0, 1, 2, 4] {
        let told = format!("{{\"rank\":{rank},\"left\":true,");
        assert!(text.contains(&told), "{told}: {text}");
    }
}

/// Rank 0 leaves. It waits for the figures of the others, which do `then` and wait for it. Returns
/// their errors.
fn leave_early(name: &str, then: fn(World) -> Result<()>) -> Vec<String> {
    let file = std::env::temp_dir().join(format!("pgas-{name}-{}.json", std::process::id()));
    let mut config = config(Statistics::Total);
    config.statistics_file = Some(file.display().to_string());
    // A test that fails is not to hang.
    config.timeout = Some(Duration::from_secs(60));
    let ended = loopback::run_with(3, &config, |world| {
        if world.rank() == Rank::ZERO {
            return Ok(());
        }
        then(world)
    });
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let outcome = "\"outcome\":\"rank 0 leaves while others wait for it\"";
    assert!(text.contains(outcome), "{text}");
    let errors = ended.into_iter().filter_map(Result::err);
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn a_rank_that_leaves_with_statistics_while_others_wait_for_it_ends_the_job() {
    let told = leave_early("left", |world| world.barrier());
    let left = "rank 0 has left the job while others wait for it in a barrier";
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|text| text.contains(left)), "{told:?}");
}

/// The others wait in no call for what they have begun, only in the end.
#[test]
fn a_rank_that_leaves_with_statistics_is_awaited_also_at_the_end_of_the_others() {
    leave_early("left-behind", |world| {
        drop(world.barrier_nb());
        Ok(())
    });
    leave_early("left-a-loop", |world| {
        let mut barrier = world.barrier_nb();
        while !barrier.is_complete()? {
            world.progress()?;
        }
        Ok(())
    });
}

#[test]
fn threads_of_one_rank_lose_no_count() {
    loopback::run_with(1, &config(Statistics::PerPeer), |world| {
        let cells = world.alloc::<u64>(1).unwrap();
        let before = world.costs();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        cells.put(&world, 1).unwrap();
                    }
                });
            }
        });
        let costs = world.costs() - before;
        let expected = Costs {
            writes: 4000,
            bytes: 32_000,
            ..Costs::default()
        };
        assert_eq!(costs, expected);
        assert_eq!(
            world.costs_with(Rank::ZERO).unwrap().writes,
            world.costs().writes
        );
    });
}

#[test]
fn more_names_than_there_is_room_for_are_counted_for_the_rank_alone() {
    loopback::run_with(1, &config(Statistics::Total), |world| {
        let cells = world.alloc::<u64>(1).unwrap();
        for i in 0..100 {
            cells.put(&world.named(&format!("name {i}")), 1).unwrap();
            cells.put(&world.named("name 1"), 1).unwrap();
        }
        assert_eq!(world.costs().writes, 200);
        let figures = Figures::read(world.counting().unwrap().board()).unwrap();
        assert_eq!(figures.names.len(), 64);
        assert_eq!(figures.names[1].name, "name 1");
        assert_eq!(figures.names[1].counts, [0, 101, 0, 0, 808]);
        assert_eq!(figures.names[63].counts, [0, 1, 0, 0, 8]);
    });
}

#[test]
fn the_table_says_that_there_were_more_names() {
    for (n_names, is_told) in [(64, false), (65, true)] {
        let mut config = config(Statistics::Total);
        config.statistics_file = Some("/dev/null".to_owned());
        loopback::run_with(1, &config, |world| {
            for i in 0..n_names {
                let _named = world.named(&format!("name {i}"));
            }
            let boards = [world.counting().unwrap().board().clone()];
            let report = Report::of(&boards, 1, "").unwrap();
            let line = "further names have no lines: a rank has room for 64";
            assert_eq!(report.to_string().contains(line), is_told, "{report}");
            let told = report.json().contains("\"more_names\":true");
            assert_eq!(told, is_told);
        });
    }
}

#[test]
fn a_path_that_the_board_has_no_room_for_is_refused() {
    let longest = format!("/{}.json", "é".repeat(249));
    for (path, is_refused) in [(longest.clone(), false), (format!("/{longest}"), true)] {
        let mut config = config(Statistics::Total);
        config.statistics_file = Some(path.clone());
        let made = loopback::worlds(1, &config);
        let error = made.err().map(|error| error.to_string());
        let reason = "the path of the file is longer than 504 bytes";
        let expected = is_refused.then(|| format!("PGAS_STATS={path}: {reason}"));
        assert_eq!(error, expected);
        let lookup = |name: &str| match name {
            "PGAS_STATS" => Some("1".to_owned()),
            "PGAS_TRACE" => path.strip_suffix(".json").map(str::to_owned),
            _ => None,
        };
        // What is written beside the traces has a longer path.
        let error = Config::from_lookup(&lookup).unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
        config.statistics = Statistics::Off;
        assert!(loopback::worlds(1, &config).is_ok(), "it is not written");
    }
}

#[test]
fn texts_are_json_whatever_is_in_them() {
    let quoted = super::json::quoted("a\"b\\c\n\u{1}é");
    assert_eq!(quoted, "\"a\\\"b\\\\c\\u000a\\u0001é\"");
}

#[test]
fn lines_that_find_no_room_are_counted_together() {
    let file = std::env::temp_dir().join(format!("pgas-lines-{}.json", std::process::id()));
    let mut config = config(Statistics::Total);
    config.statistics_file = Some(file.display().to_string());
    // Each beginning is the name of another wait.
    const NAMES: &str = include_str!("tests.rs");
    let n_lines = 2 * super::board::N_WAITS;
    loopback::run_with(1, &config, |world| {
        for i in 0..n_lines {
            // A wait that ends at once is none.
            let mut n_asked = 0;
            let ready = || {
                n_asked += 1;
                Ok(n_asked > 200)
            };
            world.wait_for(&NAMES[..=i], ready).unwrap();
        }
    });
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let n_others = n_lines - (super::board::N_WAITS - 1);
    let others = format!(
        "{{\"file\":\"other lines\",\"line\":0,\"what\":\"various\",\"part_of\":\"\",\"n\":{n_others},"
    );
    assert!(text.contains(&others), "{others} is not in {text}");
}

#[test]
fn operations_and_waits_are_timed_where_that_is_asked_for() {
    let file = std::env::temp_dir().join(format!("pgas-latencies-{}.json", std::process::id()));
    for is_timed in [true, false] {
        let mut config = config(Statistics::Total);
        config.statistics_latencies = is_timed;
        config.statistics_file = Some(file.display().to_string());
        loopback::run_with(2, &config, |world| {
            let cells = world.alloc_symmetric::<u64>(1).unwrap();
            let cell = cells.on(world.rank_after(world.rank()));
            for i in 0..30 {
                cell.put(&world, i).unwrap();
                cell.get(&world).unwrap();
                cell.fetch_add(&world, 1).unwrap();
                cell.compare_exchange(&world, 0, 1).unwrap().ok();
                cell.put_nb(&world, i).unwrap().wait().unwrap();
                // Nobody waits for this one: its time ends when the event is dropped.
                drop(cell.get_nb(&world).unwrap());
                cell.compare_exchange_nb(&world, 0, 1)
                    .unwrap()
                    .wait()
                    .unwrap()
                    .ok();
            }
            if world.rank() == Rank::ZERO {
                thread::sleep(Duration::from_millis(5));
            }
            world.barrier().unwrap();
        });
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let n_timed = |kind: &str| -> Option<u64> {
            let start = format!("{{\"operations\":\"{kind}\",\"ns_and_number\":[[");
            let (_, rest) = text.split_once(&start)?;
            let buckets = rest.split("]]").next()?.split("],[");
            let n = |bucket: &str| bucket.split(',').nth(1).unwrap().parse::<u64>().unwrap();
            Some(buckets.map(n).sum())
        };
        let n = [("gets", 60), ("puts", 60), ("atomics", 120)];
        let in_flight =
            ["gets", "puts", "atomics"].map(|kind| (format!("non-blocking {kind}"), 60));
        for (kind, n) in n
            .map(|(kind, n)| (kind.to_owned(), n))
            .into_iter()
            .chain(in_flight)
        {
            assert_eq!(n_timed(&kind), is_timed.then_some(n), "{kind}: {text}");
        }
        assert_eq!(n_timed("waits").is_some_and(|n| n > 0), is_timed, "{text}");
    }
}

static FIND: Operation = Operation::new("Shelf::find", &[Price::new("", [1, 1, 0])], "absent");

fn counting() -> Arc<Counting> {
    let opening = Opening {
        statistics: Statistics::Total,
        rank: Rank::ZERO,
        n_ranks: 1,
        segment_bytes: 0,
        table: false,
        latencies: false,
        file: None,
    };
    Counting::new(&opening, || Some(Board::private(0))).unwrap()
}

fn find(counting: &Counting, n: usize, label: u16) {
    let ((), steps) = steps::of(|| {
        for _ in 0..n {
            steps::note(CostKind::Atomic, 8);
            steps::note(CostKind::Read, 24);
        }
    });
    counting.performed_near(&FIND, (n as u64, 1), &steps, label);
}

#[test]
fn steps_are_counted_once_for_the_rank_the_operation_and_the_name_on_every_thread() {
    let counting = counting();
    let label = counting.label("shelf");
    steps::note(CostKind::Write, 2);
    find(&counting, 10, 0);
    find(&counting, 5, label);
    thread::scope(|threads| {
        threads.spawn(|| find(&counting, 3, 0));
    });
    let costs = counting.total();
    assert_eq!((costs.reads, costs.atomics, costs.writes), (18, 18, 0));
    assert_eq!(costs.bytes, 18 * 32);
    counting.count_noted(0);
    let costs = counting.total();
    assert_eq!((costs.writes, costs.bytes), (1, 18 * 32 + 2));
    let figures = Figures::read(counting.board()).unwrap();
    let [row] = &figures.operations[..] else {
        panic!("{:?}", figures.operations)
    };
    assert_eq!((row.calls, row.elements, row.missed), (3, 18, 3));
    // The price is that of the first thread.
    assert_eq!((row.priced, row.paid), (15, [15, 15, 0, 0]));
    let names: Vec<_> = figures.names.iter().map(|named| named.counts).collect();
    assert_eq!(names, [[5, 0, 5, 0, 5 * 32]]);
}

/// A rank that serves messages while it waits records its wait after every few of them.
#[test]
fn a_wait_that_is_recorded_often_does_not_ask_for_memory_each_time() {
    let counting = counting();
    let origin = Origin {
        what: "a test",
        whole: None,
        at: Location::caller(),
    };
    let asks = |until: u64| {
        counting.board().set(word::UNTIL, until);
        counting.waits(&origin, Duration::ZERO);
        counting.board().get(word::UNTIL) != until
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_nanos()).unwrap();
    assert!(asks(now - 20_000_000));
    // Even if this thread is away for an hour in between.
    assert!(!asks(now + 3_600_000_000_000));
    assert_eq!(counting.board().get(word::WAITS_AT), 1);
}

#[test]
fn an_operation_pays_for_no_step_of_another() {
    let counting = counting();
    let ((), outer) = steps::of(|| {
        steps::note(CostKind::Atomic, 8);
        find(&counting, 1, 0);
        steps::note(CostKind::Atomic, 8);
    });
    assert_eq!(outer.map(steps::parts), [[0, 0], [0, 0], [2, 16]]);
    counting.performed_near(&FIND, (1, 0), &outer, 0);
    let figures = Figures::read(counting.board()).unwrap();
    assert_eq!(figures.operations[0].paid, [3, 1, 0, 0]);
    assert_eq!(counting.total().atomics, 3);
}
