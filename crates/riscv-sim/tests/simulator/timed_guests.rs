//! Guests on the timed machine: the same results as without a clock, and the cycles that the
//! blocks' arithmetic says.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::{InstructionCacheConfig, TimedConfig};
use pgas_riscv_sim::timed::simulation::{Simulation, SimulationStats};
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome, asm};

/// A word that every guest here may have in its memory, and `s5` pointing at it.
const POINT: &str = "li s5, 0x80200000\n";

const WORD: u64 = 0x8020_0000;

/// Ends with the code in `a0`.
const EXIT: &str = "\nli a7, 93\n ecall\n";

fn image(code: &str, profile: Profile) -> Image {
    asm::assemble(&format!("{code}{EXIT}"), profile).unwrap()
}

fn config(n_nodes: usize) -> MachineConfig {
    MachineConfig {
        n_nodes,
        ram_bytes: 4 << 20,
        ..MachineConfig::default()
    }
}

fn simulation(n_nodes: usize, code: &str, timed: &TimedConfig) -> Simulation {
    let image = image(code, Profile::Rae2020);
    let machine = Machine::new(&config(n_nodes), &image).unwrap();
    Simulation::new(machine, timed).unwrap()
}

#[test]
fn figure_five_is_executed_by_a_guest() {
    // Node 1 adds 1 to the word of node 0, object 1; all others end at once.
    let code = "
        eaddi     t0, e10, -1
        bnez      t0, end
        lui       s5, 0x401
        slli      s5, s5, 9
        nop
        li        s4, 1
        eaddie    e21, zero, 1
        eamoadd.d t6, s5, s4
        addi      a1, t6, 7
   end: li        a0, 0";
    let mut simulation = simulation(6, code, &TimedConfig::default());
    assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
    let nodes = simulation.machine().nodes();
    assert_eq!(nodes[0].ram().read(WORD, 8), Some(1));
    assert_eq!(nodes[1].hart().x(31), 0);
    assert_eq!(nodes[1].hart().x(11), 7);
    let stats = simulation.stats();
    assert_eq!(stats.guests.nodes[1].remote_atomics, 1);
    assert_eq!(stats.guests.nodes[0].served, 1);
    let machine = &stats.machine;
    assert_eq!(
        (machine.mesh.packets, machine.mesh.flits, machine.mesh.hops),
        (2, 8, 2)
    );
    assert_eq!(
        (machine.nodes[0].nic.misses, machine.nodes[0].nic.requests),
        (1, 1)
    );
    // Seven instructions before it, a quarter of a DRAM cycle off an edge: 95 cycles from its issue
    // to the next instruction.
    assert_eq!(machine.nodes[1].core.remote_operations, 1);
    assert_eq!(machine.nodes[1].cycles, 7 + 95 + 4);
}

/// Every node adds its number plus one to a word of node 0 and to its right neighbour's, many
/// times; then all is checked.
fn everybody_adds(n_rounds: i32) -> String {
    format!(
        "{POINT}
         eaddi     s4, e10, 1
         li        t0, {n_rounds}
   loop: eaddie    e21, zero, 1
         eamoadd.d t6, s5, s4
         eld       a1, 8(s5)
         addi      s5, s5, 64
         eaddie    e21, zero, 2
         eamoadd.d a1, s5, s4
         addi      s5, s5, -64
         addi      t0, t0, -1
         bnez      t0, loop
         fence
         li        a0, 0"
    )
}

fn run_everybody(n_nodes: usize, outstanding_remote: u32) -> SimulationStats {
    let mut timed = TimedConfig::default();
    timed.core.outstanding_remote = outstanding_remote;
    let mut simulation = simulation(n_nodes, &everybody_adds(50), &timed);
    assert_eq!(simulation.run(1_000_000).unwrap(), Outcome::Success);
    let sum = 50 * (1..=n_nodes as u64).sum::<u64>();
    let nodes = simulation.machine().nodes();
    assert_eq!(nodes[0].ram().read(WORD, 8), Some(sum));
    assert_eq!(nodes[1].ram().read(WORD + 64, 8), Some(sum));
    simulation.stats()
}

#[test]
fn no_addition_is_lost_however_many_are_under_way() {
    for n_nodes in [2, 6, 7, 64] {
        let one = run_everybody(n_nodes, 1);
        let many = run_everybody(n_nodes, 16);
        assert_eq!(one.machine.nodes[0].nic.requests, 50 * 2 * n_nodes as u64);
        assert!(many.machine.simulated_ps < one.machine.simulated_ps);
    }
}

#[test]
fn the_same_guest_takes_the_same_cycles_again() {
    assert_eq!(run_everybody(6, 4), run_everybody(6, 4));
}

#[test]
fn a_timed_run_does_what_a_functional_one_does() {
    let code = everybody_adds(20);
    let mut functional = Machine::new(&config(5), &image(&code, Profile::Rae2020)).unwrap();
    assert_eq!(functional.run(1_000_000).unwrap(), Outcome::Success);
    let mut timed = simulation(5, &code, &TimedConfig::default());
    assert_eq!(timed.run(1_000_000).unwrap(), Outcome::Success);
    assert_eq!(timed.machine().stats(), functional.stats());
    let instructions = timed.stats().machine.instructions;
    // An instruction that traps into the host is counted by both.
    assert_eq!(instructions, functional.n_instructions());
    for (one, other) in timed.machine().nodes().iter().zip(functional.nodes()) {
        assert_eq!(one.ram().read(WORD, 8), other.ram().read(WORD, 8));
    }
}

#[test]
fn a_guest_reads_the_cycles_of_its_core() {
    let code = "rdcycle t0\n li a1, 1\n addi a1, a1, 1\n rdcycle t6\n li a0, 0";
    let mut simulation = simulation(1, code, &TimedConfig::default());
    simulation.run(100).unwrap();
    let hart = simulation.machine().nodes()[0].hart();
    assert_eq!((hart.x(5), hart.x(31)), (0, 3));
}

#[test]
fn a_load_delays_the_instruction_that_uses_its_result() {
    let code = format!("{POINT} sd s5, 0(s5)\n ld t0, 0(s5)\n mv a1, t0\n li a0, 0");
    let mut simulation = simulation(1, &code, &TimedConfig::default());
    simulation.run(100).unwrap();
    let stats = simulation.stats().machine;
    assert_eq!(simulation.machine().nodes()[0].hart().x(11), WORD);
    // A hit in the first level takes 4 cycles, of which the next instruction waits for 3.
    assert_eq!(stats.nodes[0].core.register_wait_ps, 3 * 500);
}

#[test]
fn taken_branches_cost_what_the_configuration_says() {
    let code = "li t0, 10\n loop: addi t0, t0, -1\n bnez t0, loop\n li a0, 0";
    let mut cycles = Vec::new();
    for taken_branch_penalty in [0, 2] {
        let mut timed = TimedConfig::default();
        timed.core.taken_branch_penalty = taken_branch_penalty;
        let mut simulation = simulation(1, code, &timed);
        simulation.run(1000).unwrap();
        cycles.push(simulation.stats().machine.nodes[0].cycles);
    }
    // Nine times back to the start of the loop; and the call of the host leads nowhere, which is a
    // jump too.
    assert_eq!(cycles[1] - cycles[0], 2 * (9 + 1));
}

#[test]
fn instructions_come_through_a_cache_if_there_is_one() {
    // 40 instructions of four bytes in three lines, twice.
    let code = format!(
        "li t0, 2\n loop: {} addi t0, t0, -1\n bnez t0, loop\n li a0, 0",
        "addi a1, a1, 1\n".repeat(36)
    );
    let run = |l1i: Option<InstructionCacheConfig>| {
        let timed = TimedConfig {
            l1i,
            ..TimedConfig::default()
        };
        let mut simulation = simulation(1, &code, &timed);
        assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
        simulation.stats().machine.nodes[0]
    };
    let at_hand = run(None);
    assert_eq!(
        (at_hand.caches.l1i.misses, at_hand.core.fetch_wait_ps),
        (0, 0)
    );
    let fetched = run(Some(InstructionCacheConfig::default()));
    assert_eq!(fetched.caches.l1i.misses, 3);
    assert_eq!(fetched.caches.l2.misses, 3);
    let waited = fetched.core.fetch_wait_ps;
    assert_eq!(500 * (fetched.cycles - at_hand.cycles), waited);
    // The first line takes 8 cycles of the second level, 2 of the directory and the memory's time,
    // each of the others less of that, whose row is open by then.
    let first = (10 * 500_u64 + 28_334).next_multiple_of(500);
    assert!((first + 2 * 5000..3 * first).contains(&waited), "{waited}");
    // What does not fit is found in the second level: two lines that share a place with others.
    let thrown_out = run(Some(InstructionCacheConfig { bytes: 64, ways: 1 }));
    let (l1i, l2) = (thrown_out.caches.l1i, thrown_out.caches.l2);
    assert_eq!((l1i.misses, l2.misses), (6, 3));
    assert_eq!(thrown_out.core.fetch_wait_ps, waited + 3 * 8 * 500);
}

#[test]
fn a_compare_and_swap_takes_its_new_value_from_the_local_word_and_pays_for_the_load() {
    let code = format!(
        "{POINT}
         eaddi     t0, e10, -1
         bnez      t0, end
         li        t1, 0x1234
         sd        t1, 0(s5)
         eaddie    e21, zero, 1
         li        a1, 0
         eamocas.d a2, s5, a1
    end: li        a0, 0"
    );
    let mut simulation = simulation(2, &code, &TimedConfig::default());
    assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
    let nodes = simulation.machine().nodes();
    assert_eq!(nodes[0].ram().read(WORD, 8), Some(0x1234));
    let stats = simulation.stats().machine;
    assert_eq!(stats.nodes[1].core.local_accesses, 2);
    // Head, address and two operands of two flits; head and two of data.
    assert_eq!(stats.mesh.flits, 7 + 3);
}

#[test]
fn bulk_transfers_move_every_element_through_the_network() {
    let code = format!(
        "{POINT}
         eaddi     s0, e10, 0
         bnez      s0, end
         li        t0, 8
         mv        t1, s5
   fill: sd        t0, 0(t1)
         addi      t1, t1, 8
         addi      t0, t0, -1
         bnez      t0, fill
         li        a0, 0x80280000
         eaddie    e10, zero, 2
         li        a1, 8
         li        a2, 1
         ebsd      s5, a0, a1, a2
         li        t2, 0x802c0000
         ebld      t2, a0, a1, a2
         ld        a3, 56(t2)
    end: li        a0, 0"
    );
    let image = image(&code, Profile::Xbgas2);
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        ..config(2)
    };
    for outstanding_remote in [1, 4] {
        let mut timed = TimedConfig::default();
        timed.core.outstanding_remote = outstanding_remote;
        let machine = Machine::new(&config, &image).unwrap();
        let mut simulation = Simulation::new(machine, &timed).unwrap();
        assert_eq!(simulation.run(10_000).unwrap(), Outcome::Success);
        let nodes = simulation.machine().nodes();
        assert_eq!(nodes[1].ram().read(0x8028_0000, 8), Some(8));
        assert_eq!(nodes[0].hart().x(13), 1);
        assert_eq!(simulation.stats().machine.nodes[1].nic.requests, 16);
        let mut functional = Machine::new(&config, &image).unwrap();
        functional.run(10_000).unwrap();
        assert_eq!(simulation.stats().guests, functional.stats());
    }
}

#[test]
fn an_address_outside_of_the_shared_segment_is_a_fault_of_the_guest() {
    let code = "eaddie e5, zero, 2\n li t0, 64\n eld a0, 0(t0)";
    let mut simulation = simulation(2, code, &TimedConfig::default());
    let error = simulation.run(100).unwrap_err();
    let Error::Fault(fault) = &error else {
        panic!("{error}");
    };
    assert_eq!(fault.trap.value, 64);
    assert!(error.to_string().contains("eld"), "{error}");
}

#[test]
fn a_failing_node_ends_the_run_with_its_code() {
    let code = "eaddi a0, e10, 0\n bnez a0, end\n here: j here\n end:";
    let mut simulation = simulation(3, code, &TimedConfig::default());
    let outcome = simulation.run(1_000_000).unwrap();
    assert_eq!(outcome, Outcome::Failure { node: 1, code: 1 });
}

#[test]
fn a_guest_without_end_is_ended() {
    let mut simulation = simulation(2, "here: j here", &TimedConfig::default());
    assert!(matches!(simulation.run(10_000), Err(Error::NoEnd(10_000))));
}

#[test]
fn a_system_call_waits_for_the_results_that_it_reads() {
    for outstanding_remote in [1, 2, 16] {
        let mut timed = TimedConfig::default();
        timed.core.outstanding_remote = outstanding_remote;
        let code = format!("{POINT} li a0, 7\n mv t0, s5\n eaddie e5, zero, 2\n eld a0, 0(t0)");
        let mut simulation = simulation(2, &code, &timed);
        let outcome = simulation.run(1000).unwrap();
        assert_eq!(outcome, Outcome::Success, "{outstanding_remote} under way");
    }
}

/// Operations of every kind and order on words of three nodes, each word used once, so that nothing
/// is left to the network.
fn random_mix(seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut code = format!("{POINT} slli t1, s4, 12\n add s5, s5, t1\n");
    for k in 0..40 {
        code += &format!("eaddie e21, zero, {}\n", random.u8(1..=3));
        code += &format!("addi s5, s5, 8\n li t2, {}\n", k + 1);
        // Registers that results go to, so few that some are overwritten.
        let result = ["a1", "a2", "a3", "t6"][random.usize(0..4)];
        let extended = random.u8(1..=9);
        code += &match random.u8(0..10) {
            0..=2 => "esd t2, 0(s5)\n".to_owned(),
            3 | 4 => format!("eamoadd.d {result}, s5, t2\n"),
            5 => format!("eld {result}, 0(s5)\n"),
            6 => format!("erle e{extended}, s5, e21\n"),
            7 => format!("add t3, t3, {result}\n add t3, t3, t2\n"),
            8 => "eld a0, 0(s5)\n li a7, 57\n ecall\n add t3, t3, a0\n".to_owned(),
            _ => "fence\n".to_owned(),
        };
    }
    code + "li a0, 0"
}

#[test]
fn any_mix_of_operations_under_way_gives_what_one_after_another_gives() {
    for seed in 0..25 {
        let code = format!("eaddi s4, e10, 0\n{}", random_mix(seed));
        let image = image(&code, Profile::Rae2020);
        let mut functional = Machine::new(&config(3), &image).unwrap();
        fill(&mut functional);
        assert_eq!(functional.run(10_000).unwrap(), Outcome::Success);
        for outstanding_remote in [1, 2, 3, 16] {
            let mut timed = TimedConfig::default();
            timed.core.outstanding_remote = outstanding_remote;
            let mut machine = Machine::new(&config(3), &image).unwrap();
            fill(&mut machine);
            let mut simulation = Simulation::new(machine, &timed).unwrap();
            assert_eq!(simulation.run(10_000).unwrap(), Outcome::Success);
            let nodes = simulation.machine().nodes().iter();
            for (timed, sequential) in nodes.zip(functional.nodes()) {
                let state = |node: &pgas_riscv_sim::machine::Node| {
                    let hart = node.hart();
                    let registers = (0..32).map(|k| (hart.x(k), hart.e(k))).collect::<Vec<_>>();
                    (registers, node.ram().slice(WORD, 1 << 14).unwrap().to_vec())
                };
                assert_eq!(
                    state(timed),
                    state(sequential),
                    "seed {seed}, {outstanding_remote} under way:\n{code}"
                );
            }
        }
    }
}

#[test]
fn atomics_here_are_counted_and_the_region_of_interest_apart() {
    let code = format!(
        "{POINT}
         li        t1, 1
         amoadd.d  a1, t1, (s5)
         csrwi     0x800, 1
         amoxor.w  a1, t1, (s5)
         lr.d      a1, (s5)
         sc.d      a1, t1, (s5)
         sc.d      a1, t1, (s5)
         eaddie    e21, zero, 1
         eamoadd.d a1, s5, t1
         csrwi     0x800, 0
         eld       a1, 0(s5)
         csrwi     0x800, 2
         eld       a1, 0(s5)
         csrr      a2, 0x800
         csrwi     0x800, 0
         li        a0, 0"
    );
    let mut functional = Machine::new(&config(1), &image(&code, Profile::Rae2020)).unwrap();
    assert_eq!(functional.run(1000).unwrap(), Outcome::Success);
    assert_eq!(functional.nodes()[0].hart().x(12), 2);
    let mut timed = simulation(1, &code, &TimedConfig::default());
    assert_eq!(timed.run(1000).unwrap(), Outcome::Success);
    let cycles = timed.stats().machine.nodes[0].cycles;
    for (stats, has_clock) in [(functional.stats(), false), (timed.stats().guests, true)] {
        let node = &stats.nodes[0];
        assert_eq!((node.local_atomics, node.remote_atomics), (3, 1));
        assert_eq!(node.remote_loads, 2);
        let region = node.region.as_ref().unwrap();
        // The instruction that begins it is before it, the one that ends it in it.
        assert_eq!(region.instructions, 7 + 3);
        assert_eq!((region.local_atomics, region.remote_atomics), (2, 1));
        assert_eq!((region.remote_loads, region.remote_stores), (1, 0));
        assert_eq!(region.served, 2);
        let is_part = |spent| (100..cycles).contains(&spent);
        assert_eq!(region.cycles.map(is_part), has_clock.then_some(true));
    }
}

/// Words that tell from where they were read.
fn fill(machine: &mut Machine) {
    for node in 0..machine.nodes().len() {
        let ram = machine.node_mut(node).ram_mut();
        for word in 0..(1 << 14) / 8 {
            let value = 1_000_000 * (node as u64 + 1) + word;
            assert!(ram.write(WORD + 8 * word, 8, value));
        }
    }
}

#[test]
fn a_run_of_many_cores_is_given_up_after_about_as_many_instructions_as_one_of_few() {
    let image = asm::assemble("_start: j _start", Profile::Rae2020).unwrap();
    for n_nodes in [1, 8, 64] {
        let config = MachineConfig {
            n_nodes,
            ram_bytes: 1 << 16,
            ..MachineConfig::default()
        };
        let machine = Machine::new(&config, &image).unwrap();
        let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
        assert!(matches!(simulation.run(1000), Err(Error::NoEnd(1000))));
        let n_instructions = simulation.machine().n_instructions();
        assert!(
            n_instructions < 400_000,
            "{n_nodes} nodes: {n_instructions}"
        );
    }
}

#[test]
fn a_bulk_transfer_is_one_instruction_of_a_cycle_at_least() {
    let cycles = |n_elements, transfer: &str| {
        let code = format!(
            "{POINT} mv a0, s5\n eaddie e10, zero, 2\n li a1, {n_elements}\n li a2, 1\n {transfer}\n li a0, 0"
        );
        let config = MachineConfig {
            profile: Profile::Xbgas2,
            ..config(2)
        };
        let machine = Machine::new(&config, &image(&code, Profile::Xbgas2)).unwrap();
        let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
        assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
        let stats = simulation.stats();
        for (machine, guest) in stats.machine.nodes.iter().zip(&stats.guests.nodes) {
            let (timed, done) = (machine.core.instructions, guest.instructions);
            assert_eq!(timed, done, "{n_elements} {transfer}");
        }
        stats.machine.nodes[0].cycles
    };
    for transfer in ["ebld s5, a0, a1, a2", "ebsd s5, a0, a1, a2"] {
        let none = cycles(0, transfer);
        assert_eq!(none, cycles(0, "nop"), "{transfer}");
        assert!(cycles(1, transfer) > none);
        assert!(cycles(8, transfer) > cycles(1, transfer));
    }
}
