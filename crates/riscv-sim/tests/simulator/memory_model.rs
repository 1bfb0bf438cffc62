//! What nodes that race see of each other's writes, without a clock and with one: words never go
//! back, what a fence orders stays in order, and what nothing orders may be overtaken.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::{LinePolicy, TimedConfig};
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Machine, MachineConfig, Outcome, asm};

const WORD: u64 = 0x8008_0000;

/// `s5` points at words of their own lines, `s0` is the node.
const START: &str = "li s5, 0x80080000\n eaddi s0, e10, 0\n li t6, 1\n";
const END: &str = "\n end: li a0, 0\n li a7, 93\n ecall\n";

fn machine(n_nodes: usize, quantum: u64, code: &str) -> Machine {
    machine_of(Profile::Rae2020, n_nodes, quantum, code)
}

fn machine_of(profile: Profile, n_nodes: usize, quantum: u64, code: &str) -> Machine {
    let config = MachineConfig {
        n_nodes,
        ram_bytes: 1 << 20,
        quantum,
        profile,
        ..MachineConfig::default()
    };
    let image = asm::assemble(&format!("{START}{code}{END}"), profile).unwrap();
    Machine::new(&config, &image).unwrap()
}

fn timed_config(outstanding: u32, policy: LinePolicy) -> TimedConfig {
    let mut config = TimedConfig::default();
    config.core.outstanding_remote = outstanding;
    config.nic.policy = policy;
    config
}

fn timed(n_nodes: usize, config: &TimedConfig, code: &str) -> Machine {
    run_timed(machine(n_nodes, 1000, code), config)
}

fn run_timed(machine: Machine, config: &TimedConfig) -> Machine {
    let mut simulation = Simulation::new(machine, config).unwrap();
    assert_eq!(simulation.run(1_000_000).unwrap(), Outcome::Success);
    std::mem::replace(simulation.machine_mut(), self::machine(1, 1, "j end"))
}

/// Runs it in turns of several lengths and on several timed machines; `check` looks at what the
/// nodes left.
fn everywhere(n_nodes: usize, code: &str, check: impl Fn(&Machine)) {
    for quantum in [1, 2, 3, 7, 1000] {
        let mut functional = machine(n_nodes, quantum, code);
        assert_eq!(functional.run(1_000_000).unwrap(), Outcome::Success);
        check(&functional);
    }
    for outstanding in [1, 2, 16] {
        for policy in [LinePolicy::InvalidateWhenIdle, LinePolicy::Retain] {
            check(&timed(n_nodes, &timed_config(outstanding, policy), code));
        }
    }
}

fn word(machine: &Machine, node: usize, at: u64) -> u64 {
    machine.nodes()[node].ram().read(WORD + at, 8).unwrap()
}

fn nops(n: u32) -> String {
    "nop\n".repeat(n as usize)
}

#[test]
fn who_sees_the_flag_sees_the_data_that_a_fence_put_before_it() {
    for delay in (0..60).step_by(4) {
        // Node 0 writes data to node 5, then a flag to node 1, which then asks node 5 for the data.
        let code = format!(
            "beqz      s0, writer
             bne       s0, t6, end
       poll: ld        t0, 0(s5)
             beqz      t0, poll
             eaddie    e21, zero, 6
             eld       t1, 64(s5)
             sd        t1, 128(s5)
             j         end
     writer: {}
             li        t0, 7
             eaddie    e21, zero, 6
             esd       t0, 64(s5)
             fence
             eaddie    e21, zero, 2
             esd       t6, 0(s5)",
            nops(delay)
        );
        everywhere(6, &code, |machine| assert_eq!(word(machine, 1, 128), 7));
    }
}

#[test]
fn two_nodes_that_fence_between_write_and_read_do_not_both_miss_the_other() {
    for delay in (0..40).step_by(3) {
        // Each writes a word at node 2, and then reads the other's.
        let code = format!(
            "li        t5, 2
             beq       s0, t5, end
             li        s1, 0
             li        s2, 64
             beqz      s0, go
             li        s1, 64
             li        s2, 0
             {}
         go: add       s3, s5, s1
             add       s4, s5, s2
             eaddie    e19, zero, 3
             eaddie    e20, zero, 3
             esd       t6, 0(s3)
             fence
             eld       t1, 0(s4)
             addi      t1, t1, 10
             sd        t1, 128(s5)",
            nops(delay)
        );
        everywhere(3, &code, |machine| {
            let seen = [word(machine, 0, 128), word(machine, 1, 128)];
            assert_ne!(seen, [10, 10]);
        });
    }
}

#[test]
fn a_word_that_only_grows_is_never_seen_to_shrink() {
    // Node 0 counts in its own memory; the others read it again and again, and count how often it
    // had shrunk.
    let code = "
             beqz      s0, writer
             eaddie    e21, zero, 1
             li        t1, 0
             li        t2, 0
             li        t3, 100
      again: eld       t0, 0(s5)
             bgeu      t0, t1, grown
             addi      t2, t2, 1
      grown: mv        t1, t0
             addi      t3, t3, -1
             bnez      t3, again
             addi      t2, t2, 10
             sd        t2, 64(s5)
             sd        t1, 128(s5)
             j         end
     writer: li        t0, 1000
      count: ld        t1, 0(s5)
             addi      t1, t1, 1
             sd        t1, 0(s5)
             bne       t1, t0, count";
    everywhere(4, code, |machine| {
        for node in 1..4 {
            assert_eq!(word(machine, node, 64), 10);
        }
    });
}

#[test]
fn without_a_fence_or_an_ordered_atomic_a_flag_may_overtake_its_data() {
    // The NIC of node 1 has the flag's line at hand, and has to fetch that of the data.
    let config = timed_config(4, LinePolicy::Retain);
    let overtaken = |data: &str, flag: &str| {
        (0..200).step_by(2).any(|delay| {
            let code = format!(
                "eaddie    e21, zero, 2
                 beqz      s0, writer
                 {}
                 ld        t0, 0(s5)
                 ld        t1, 64(s5)
                 sd        t0, 128(s5)
                 sd        t1, 136(s5)
                 j         end
         writer: esd       zero, 0(s5)
                 fence
                 addi      s6, s5, 64
                 eaddie    e22, zero, 2
                 {data}
                 {flag}",
                nops(100 + delay)
            );
            let machine = machine_of(Profile::Xbgas2, 2, 1000, &code);
            let machine = run_timed(machine, &config);
            let seen = [word(&machine, 1, 128), word(&machine, 1, 136)];
            seen == [1, 0]
        })
    };
    let (data, flag) = ("esd t6, 0(s6)", "esd t6, 0(s5)");
    assert!(overtaken(data, flag));
    assert!(!overtaken(data, &format!("fence\n {flag}")));
    assert!(overtaken(data, "eamoswap.d zero, t6, (s5)"));
    assert!(!overtaken(data, "eamoswap.d.rl zero, t6, (s5)"));
    assert!(!overtaken(data, "eamoswap.d.aqrl zero, t6, (s5)"));
    // What follows an acquire waits for it, whether anybody reads its result or not.
    for result in ["zero", "t1"] {
        let swap = |order| format!("eamoswap.d{order} {result}, t6, (s6)");
        assert!(overtaken(&swap(""), flag));
        assert!(!overtaken(&swap(".aq"), flag));
        assert!(!overtaken(&swap(".aqrl"), flag));
    }
}

#[test]
fn a_node_that_has_ended_still_serves_its_memory() {
    let code = "
             beqz      s0, end
             li        t0, 2000
       wait: addi      t0, t0, -1
             bnez      t0, wait
             mv        a0, s5
             eaddie    e10, zero, 1
             eamoadd.d t1, a0, s0
             eld       t2, 0(a0)";
    everywhere(4, code, |machine| {
        assert_eq!(word(machine, 0, 0), 1 + 2 + 3);
    });
}
