//! Nodes of several cores, without a clock and with one: what they share, what each has of its own,
//! and what is atomic.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::machine::MAX_QUANTUM;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::{Simulation, SimulationStats};
use pgas_riscv_sim::{Error, Machine, MachineConfig, Outcome, asm};

/// `s5` points at words that every guest here may have, in lines of their own.
const POINT: &str = "li s5, 0x80080000\n csrr s0, mhartid\n eaddi s1, e10, 0\n eaddi s2, e11, 0\n";

const WORD: u64 = 0x8008_0000;

const N_CORES: u64 = 4;

/// The last core to come here checks, with the code in `a0`; the others wait for the node to end.
const LAST: &str = "
        li        t0, 1
        addi      t1, s5, 1024
        amoadd.d  t0, t0, (t1)
        li        t1, 3
        beq       t0, t1, last
 idle:  wfi
        j         idle
 last:  li        a0, 0
        li        a7, 93
        ecall
";

fn machine(n_nodes: usize, profile: Profile, code: &str) -> Machine {
    let config = MachineConfig {
        n_nodes,
        cores_per_node: usize::try_from(N_CORES).unwrap(),
        ram_bytes: 1 << 20,
        profile,
        quantum: 37,
        ..MachineConfig::default()
    };
    let image = asm::assemble(&format!("{POINT}{code}"), profile).unwrap();
    Machine::new(&config, &image).unwrap()
}

fn timed(n_nodes: usize, profile: Profile, code: &str, outstanding: u32) -> Simulation {
    let mut config = TimedConfig::default();
    config.core.outstanding_remote = outstanding;
    Simulation::new(machine(n_nodes, profile, code), &config).unwrap()
}

/// Runs it without a clock and with several; `check` looks at the nodes' memories.
fn everywhere(n_nodes: usize, profile: Profile, code: &str, check: impl Fn(&Machine)) {
    let mut functional = machine(n_nodes, profile, code);
    assert_eq!(functional.run(10_000_000).unwrap(), Outcome::Success);
    check(&functional);
    for outstanding in [1, 4] {
        let mut simulation = timed(n_nodes, profile, code, outstanding);
        assert_eq!(simulation.run(10_000_000).unwrap(), Outcome::Success);
        check(simulation.machine());
    }
}

#[test]
fn every_core_has_its_number_and_that_of_its_node() {
    let code = "
        slli      t0, s0, 6
        add       t0, t0, s5
        sd        s0, 0(t0)
        sd        s1, 8(t0)
        sd        s2, 16(t0)";
    everywhere(3, Profile::Rae2020, &format!("{code}{LAST}"), |machine| {
        for (number, node) in (0..).zip(machine.nodes()) {
            for core in 0..N_CORES {
                let word = |k: u64| node.ram().read(WORD + 64 * core + 8 * k, 8).unwrap();
                assert_eq!([word(0), word(1), word(2)], [core, number, 3]);
            }
        }
    });
}

#[test]
fn additions_of_cores_by_atomics_and_by_reservations_all_count() {
    let code = "
        li        s3, 100
        li        a1, 1
 again: amoadd.d  zero, a1, (s5)
        addi      t1, s5, 64
 retry: lr.d      t0, (t1)
        addi      t0, t0, 1
        sc.d      t2, t0, (t1)
        bnez      t2, retry
        addi      s3, s3, -1
        bnez      s3, again";
    everywhere(2, Profile::Rae2020, &format!("{code}{LAST}"), |machine| {
        for node in machine.nodes() {
            assert_eq!(node.ram().read(WORD, 8), Some(100 * N_CORES));
            assert_eq!(node.ram().read(WORD + 64, 8), Some(100 * N_CORES));
        }
    });
}

#[test]
fn additions_of_all_cores_of_all_nodes_to_one_word_all_count() {
    let code = "
        li        s3, 50
        li        a1, 1
        mv        a0, s5
        eaddie    e10, zero, 1
 again: eamoadd.d a2, a0, a1
        addi      s3, s3, -1
        bnez      s3, again
        fence";
    everywhere(5, Profile::Rae2020, &format!("{code}{LAST}"), |machine| {
        let sum = 50 * 5 * N_CORES;
        assert_eq!(machine.nodes()[0].ram().read(WORD, 8), Some(sum));
    });
}

#[test]
fn additions_by_reservations_through_the_network_all_count() {
    // Every core of every node, beside node 0's own cores, which use their own instructions on the
    // same word.
    let code = "
        li        s3, 20
        mv        a0, s5
        eaddie    e10, zero, 1
        beqz      s1, here
 there: elr.d     t0, (a0)
        addi      t0, t0, 1
        esc.d     t2, t0, (a0)
        bnez      t2, there
        addi      s3, s3, -1
        bnez      s3, there
        j         done
  here: lr.d      t0, (a0)
        addi      t0, t0, 1
        sc.d      t2, t0, (a0)
        bnez      t2, here
        addi      s3, s3, -1
        bnez      s3, here
  done: fence";
    everywhere(3, Profile::Xbgas2, &format!("{code}{LAST}"), |machine| {
        let sum = 20 * 3 * N_CORES;
        assert_eq!(machine.nodes()[0].ram().read(WORD, 8), Some(sum));
    });
}

/// Every core stores into a word of its own, `distance` bytes from the next core's.
fn stores(distance: u64) -> SimulationStats {
    let code = format!(
        "li        t0, {distance}
         mul       t0, t0, s0
         add       t0, t0, s5
         li        s3, 200
 again:  sd        s3, 0(t0)
         addi      s3, s3, -1
         bnez      s3, again"
    );
    let mut simulation = timed(1, Profile::Rae2020, &format!("{code}{LAST}"), 1);
    assert_eq!(simulation.run(1_000_000).unwrap(), Outcome::Success);
    simulation.stats()
}

#[test]
fn cores_that_share_a_line_pay_for_it() {
    let (apart, together) = (stores(64), stores(8));
    let [apart, together] = [&apart, &together].map(|stats| &stats.machine.nodes[0]);
    assert!(
        together.cycles > 4 * apart.cycles,
        "{} {}",
        together.cycles,
        apart.cycles
    );
    // Hardly a store finds the line where it left it.
    assert!(together.caches.l1.invalidations > 300, "{together:?}");
    assert!(apart.caches.l1.invalidations < 20, "{apart:?}");
    // The second level had every line but for the first time.
    assert!(together.caches.l2.misses < 20, "{together:?}");
}

/// Core 0 reads 32 lines, writes to them, and then adds to one.
#[test]
fn an_access_counts_once_in_each_level_however_many_cores_a_node_has() {
    let code = "
        bnez      s0, rest
        li        s3, 32
        mv        t0, s5
 again: ld        t1, 0(t0)
        sd        t1, 8(t0)
        addi      t0, t0, 64
        addi      s3, s3, -1
        bnez      s3, again
        amoadd.d  zero, t1, (s5)
        li        a0, 0
        li        a7, 93
        ecall
  rest: wfi
        j         rest";
    let counted = |n_cores, code: &str| {
        let config = MachineConfig {
            n_nodes: 1,
            cores_per_node: n_cores,
            ram_bytes: 1 << 20,
            ..MachineConfig::default()
        };
        let image = asm::assemble(&format!("{POINT}{code}"), Profile::Rae2020).unwrap();
        let machine = Machine::new(&config, &image).unwrap();
        let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
        assert_eq!(simulation.run(1_000_000).unwrap(), Outcome::Success);
        simulation.stats().machine.nodes[0]
    };
    for n_cores in [1, 2, 4] {
        let caches = counted(n_cores, code).caches;
        assert_eq!((caches.l1.hits, caches.l1.misses), (33, 32), "{n_cores}");
        assert_eq!((caches.l2.hits, caches.l2.misses), (0, 32), "{n_cores}");
    }
    // Cores that wait for a line together have asked for it once each.
    let together = "
        ld        t1, 0(s5)
        bnez      s0, rest
        li        t0, 500
 delay: addi      t0, t0, -1
        bnez      t0, delay
        li        a0, 0
        li        a7, 93
        ecall
  rest: wfi
        j         rest";
    let caches = counted(4, together).caches;
    assert_eq!((caches.l1.hits, caches.l1.misses), (0, 4));
    assert_eq!((caches.l2.hits, caches.l2.misses), (0, 4));
}

#[test]
fn the_same_cores_take_the_same_cycles_again_however_the_run_is_cut() {
    assert_eq!(stores(8), stores(8));
    let code = format!(
        "li a1, 1\n li s3, 30\n again: amoadd.d t0, a1, (s5)\n mv a0, s5\n eaddie e10, zero, 2\n eamoadd.d t1, a0, a1\n addi s3, s3, -1\n bnez s3, again\n{LAST}"
    );
    let mut whole = timed(2, Profile::Rae2020, &code, 1);
    assert_eq!(whole.run(1_000_000).unwrap(), Outcome::Success);
    let mut cut = timed(2, Profile::Rae2020, &code, 1);
    let slice = pgas_riscv_sim::timed::time::Time::from_ps(1234);
    while cut.run_for(slice).unwrap().is_none() {}
    assert_eq!(cut.stats().guests, whole.stats().guests);
    let cycles = |stats: &SimulationStats| -> Vec<u64> {
        stats.machine.nodes.iter().map(|node| node.cycles).collect()
    };
    assert_eq!(cycles(&cut.stats()), cycles(&whole.stats()));
}

#[test]
fn a_core_that_waits_sees_what_another_one_writes() {
    // Core 3 of node 1 tells core 0 of node 0, which tells core 2 there, and all look at their
    // memory between waits.
    let code = "
        li        t0, 3
        li        t1, 1
        beqz      s1, zero
        bne       s0, t0, idle
        mv        a0, s5
        eaddie    e10, zero, 1
        esd       t1, 0(a0)
        j         end
  zero: beqz      s0, first
        li        t0, 2
        bne       s0, t0, idle
 second: wfi
        ld        t0, 64(s5)
        beqz      t0, second
        j         end
 first: wfi
        ld        t0, 0(s5)
        beqz      t0, first
        sd        t1, 64(s5)
  idle: wfi
        j         idle
   end: li        a0, 0
        li        a7, 93
        ecall";
    everywhere(2, Profile::Rae2020, code, |machine| {
        assert_eq!(machine.nodes()[0].ram().read(WORD + 64, 8), Some(1));
    });
}

#[test]
fn cores_that_all_wait_for_nothing_are_an_error_that_says_where_they_are() {
    let code = "beqz s1, stuck\n li a0, 0\n li a7, 93\n ecall\n stuck: wfi\n j stuck";
    let mut functional = machine(2, Profile::Rae2020, code);
    assert!(matches!(functional.run(u64::MAX), Err(Error::AllWait)));
    assert!(functional.location().contains("node 0, core 3, is at"));
    assert!(functional.location().contains("<stuck"));
    let mut simulation = timed(2, Profile::Rae2020, code, 1);
    assert!(matches!(simulation.run(u64::MAX), Err(Error::AllWait)));
}

/// It looks at a clock and not at its memory.
#[test]
fn a_core_that_waits_for_a_time_does_not_wait_for_ever() {
    for clock in ["cycle", "time", "instret"] {
        let code = format!(
            "li t1, 20000\n rd{clock} t0\n add t1, t1, t0\n 1: wfi\n rd{clock} t0\n bltu t0, t1, 1b
             li a0, 0\n li a7, 93\n ecall"
        );
        let ends = machine(2, Profile::Rae2020, &code).run(10_000_000);
        assert_eq!(ends.unwrap(), Outcome::Success, "{clock}");
        let ends = timed(2, Profile::Rae2020, &code, 1).run(10_000_000);
        assert_eq!(ends.unwrap(), Outcome::Success, "{clock}");
    }
}

#[test]
fn a_node_fails_by_any_of_its_cores() {
    let code = "li t0, 2\n bne s0, t0, spin\n bne s1, t0, spin\n li a0, 9\n li a7, 93\n ecall\n spin: j spin";
    let failure = Outcome::Failure { node: 2, code: 9 };
    assert_eq!(
        machine(3, Profile::Rae2020, code).run(100_000).unwrap(),
        failure
    );
    let mut simulation = timed(3, Profile::Rae2020, code, 1);
    assert_eq!(simulation.run(100_000).unwrap(), failure);
}

#[test]
fn a_turn_ends_so_that_a_run_of_a_guest_that_never_ends_can_be_given_up() {
    let image = asm::assemble("_start: j _start", Profile::default()).unwrap();
    let machine = |quantum| {
        let config = MachineConfig {
            n_nodes: 1,
            ram_bytes: 1 << 20,
            quantum,
            ..MachineConfig::default()
        };
        Machine::new(&config, &image)
    };
    let run = machine(MAX_QUANTUM).unwrap().run(1000);
    assert!(matches!(run, Err(Error::NoEnd(1000))), "{run:?}");
    for quantum in [0, MAX_QUANTUM + 1, u64::MAX] {
        let Err(Error::Config(why)) = machine(quantum) else {
            panic!("a turn of {quantum} instructions");
        };
        assert!(why.ends_with(&format!("not {quantum}")), "{why}");
    }
}

/// Core 0 loads into a word, by one transfer, that core 1 has reserved.
#[test]
fn a_bulk_load_into_a_reserved_word_breaks_the_reservation() {
    let code = "
        li        t3, 1
        beqz      s0, loads
        bne       s0, t3, idle
        addi      t1, s5, 64
        li        t4, 5000
        lr.d      t0, (t1)
  wait: addi      t4, t4, -1
        bnez      t4, wait
        sc.d      t2, t3, (t1)
        sd        t2, 128(s5)
        fence
        li        a0, 0
        li        a7, 93
        ecall
 loads: mv        a0, s5
        addi      a1, s5, 64
        eaddie    e10, zero, 1
        li        t4, 20
 delay: addi      t4, t4, -1
        bnez      t4, delay
        li        a2, 1
        li        a3, 1
        ebld      a1, a0, a2, a3
  idle: wfi
        j         idle";
    everywhere(1, Profile::Xbgas2, code, |machine| {
        assert_eq!(machine.nodes()[0].ram().read(WORD + 128, 8), Some(1));
    });
}

/// How many cycles core 0 takes for an operation on a line that all cores have read.
fn cycles_of_write(operation: &str) -> u64 {
    let code = format!(
        "ld        t0, 0(s5)
         bnez      s0, idle
         li        t4, 5000
 delay:  addi      t4, t4, -1
         bnez      t4, delay
         ld        t0, 0(s5)
         addi      t0, t0, 1
         rdcycle   s6
         {operation}
         rdcycle   s7
         sub       s7, s7, s6
         sd        s7, 128(s5)
         li        a0, 0
         li        a7, 93
         ecall
 idle:   wfi
         j         idle"
    );
    let mut simulation = timed(1, Profile::Rae2020, &code, 1);
    assert_eq!(simulation.run(1_000_000).unwrap(), Outcome::Success);
    let ram = simulation.machine().nodes()[0].ram();
    ram.read(WORD + 128, 8).unwrap()
}

#[test]
fn an_atomic_takes_a_line_away_from_those_who_read_it_as_a_store_does() {
    let (store, atomic) = (
        cycles_of_write("sd t0, 0(s5)"),
        cycles_of_write("amoadd.d zero, t0, (s5)"),
    );
    assert!(atomic >= store, "{atomic} {store}");
}
