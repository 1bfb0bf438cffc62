//! A program as people write them, built by the test that runs it: what it does is its first
//! argument.

mod edges;

use std::collections::HashMap;
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments[1].as_str() {
        "words" => words(&arguments),
        "hash" => hash(),
        "read" => match std::fs::read_to_string(&arguments[2]) {
            Ok(text) => println!("{} lines", text.lines().count()),
            Err(why) => println!("{:?}", why.kind()),
        },
        "write" => println!(
            "{:?}",
            std::fs::write(&arguments[2], "new").map_err(|why| why.kind())
        ),
        "move" => println!(
            "{:?}",
            std::fs::rename(&arguments[2], format!("{}.moved", arguments[2]))
                .map_err(|why| why.kind())
        ),
        "need" => drop(std::fs::read(&arguments[2]).expect("it is needed")),
        "list" => list(&arguments[2]),
        "files" => files(&arguments[2]),
        "lock" => lock(&arguments[2]),
        "leave" => leave_locked(&arguments[2]),
        "crosswise" => lock_crosswise(&arguments[2]),
        "calls" => calls(&arguments[2]),
        "edges" => edges::print(&arguments[2]),
        "time" => time(),
        "panic" => panic!("as asked"),
        "exit" => std::process::exit(7),
        "abort" => std::process::abort(),
        "thread" => {
            let spawned = std::thread::Builder::new().spawn(|| ());
            println!("{:?}", spawned.map(|_| ()).map_err(|why| why.kind()));
        }
        "park" => std::thread::park(),
        "timeout" => std::thread::park_timeout(Duration::from_millis(1)),
        "socket" => drop(std::net::TcpStream::connect("127.0.0.1:1")),
        "memory" => memory(),
        "program" => program(),
        "atomics" => atomics(),
        "segment" => segment(),
        "null" => null(),
        "relay" => relay(true),
        "deadlock" => relay(false),
        other => panic!("no {other}"),
    }
}

fn words(arguments: &[String]) {
    let mut counts = HashMap::new();
    for word in &arguments[2..] {
        *counts.entry(word).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort();
    println!(
        "{counts:?} {:>8.3} {:?}",
        2.0_f64.sqrt(),
        std::env::var("COLOUR")
    );
    eprintln!("to errors");
}

/// The order of a map is random.
fn hash() {
    let map: HashMap<u32, ()> = (0..20).map(|key| (key, ())).collect();
    println!("{:?}", map.keys().collect::<Vec<_>>());
}

fn list(folder: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        println!(
            "{:?} {}",
            entry.file_name(),
            entry.metadata().unwrap().len()
        );
    }
}

/// What the standard library does with files: copies, links, locks, lengths, rights, folders.
fn files(folder: &str) {
    use std::io::{Seek as _, Write as _};
    use std::os::unix::fs::FileExt as _;
    std::env::set_current_dir(folder).unwrap();
    std::fs::create_dir_all("a/b").unwrap();
    std::fs::write("a/first", "one\ntwo\n").unwrap();
    let copied = std::fs::copy("a/first", "a/second").unwrap();
    std::fs::hard_link("a/first", "a/third").unwrap();
    let link = std::os::unix::fs::symlink("a/first", "a/link").map_err(|why| why.kind());
    println!("{copied} {link:?}");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.read(true).write(true).open("a/first").unwrap();
    file.set_len(20).unwrap();
    file.seek(std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b"x").unwrap();
    file.set_times(std::fs::FileTimes::new()).unwrap();
    file.write_at(b"O", 0).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0).unwrap();
    println!("{} {bytes:?}", file.metadata().unwrap().len());
    let mut permissions = std::fs::metadata("a/second").unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions("a/second", permissions).unwrap();
    let other = std::fs::File::open("a/first").unwrap();
    file.lock().unwrap();
    let refused = other.try_lock_shared().is_err();
    file.try_clone().unwrap().unlock().unwrap();
    println!("{refused} {}", other.try_lock_shared().is_ok());
    let mut from = std::fs::File::open("a/second").unwrap();
    let shown = std::io::copy(&mut from, &mut std::io::stdout()).unwrap();
    let full = std::fs::remove_dir("a").map_err(|why| why.kind());
    let real = std::fs::canonicalize("a/second").unwrap();
    println!("{shown} {full:?} {}", real.ends_with("a/second"));
    std::fs::remove_dir_all("a").unwrap();
    println!("{:?} {}", std::fs::exists("a"), std::io::read_to_string(std::io::stdin()).unwrap());
}

/// Adds to a number in a file that all nodes share, again and again.
fn lock(folder: &str) {
    use std::io::{Read as _, Seek as _, Write as _};
    let mut options = std::fs::OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    for _ in 0..20 {
        let mut file = options.open(format!("{folder}/sum")).unwrap();
        file.lock().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let sum = text.parse().unwrap_or(0) + 1;
        std::thread::sleep(Duration::from_micros(3));
        file.rewind().unwrap();
        write!(file, "{sum}").unwrap();
    }
}

fn locked(path: &str) -> std::fs::File {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.unwrap();
    file.lock().unwrap();
    file
}

/// Ends with the lock of a file.
fn leave_locked(folder: &str) {
    let _held = locked(&format!("{folder}/held"));
    std::process::exit(0);
}

/// Two nodes that have a lock each and want the other's.
fn lock_crosswise(folder: &str) {
    let own = std::process::id() % 2;
    let _held = locked(&format!("{folder}/{own}"));
    std::thread::sleep(Duration::from_millis(1));
    locked(&format!("{folder}/{}", 1 - own));
}

/// Calls that the C library makes and the standard library does not.
#[cfg(target_arch = "riscv64")]
fn calls(folder: &str) {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    unsafe extern "C" {
        fn dup2(file: i32, to: i32) -> i32;
        fn posix_fallocate(file: i32, offset: i64, n_bytes: i64) -> i32;
        fn posix_fadvise(file: i32, offset: i64, n_bytes: i64, advice: i32) -> i32;
        fn access(path: *const u8, mode: i32) -> i32;
        fn umask(mode: u32) -> u32;
        fn times(to: *mut [i64; 4]) -> i64;
        fn getrusage(who: i32, to: *mut [i64; 18]) -> i32;
        fn sysinfo(to: *mut [u64; 14]) -> i32;
        fn sched_getcpu() -> i32;
        fn getgroups(n: i32, to: *mut u32) -> i32;
        fn getresuid(real: *mut u32, effective: *mut u32, saved: *mut u32) -> i32;
        fn waitpid(who: i32, status: *mut i32, options: i32) -> i32;
        fn mlock(from: *const u8, n_bytes: usize) -> i32;
        fn sync();
    }
    std::thread::sleep(Duration::from_millis(30));
    let path = format!("{folder}/file");
    std::fs::write(&path, "text").unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let c_path = format!("{path}\0");
    let (mut ticks, mut usage, mut system) = ([0; 4], [0; 18], [0; 14]);
    let mut ids = [7_u32; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: every call gets a file that is open, or as many bytes as it writes, or a text that
    // ends.
    unsafe {
        let copy = dup2(file.as_raw_fd(), 9);
        let bad = dup2(77, 9);
        let longer = posix_fallocate(copy, 0, 6);
        let advised = posix_fadvise(copy, 0, 0, 4);
        println!("{copy} {bad} {longer} {advised}");
        println!("{} {} {}", access(c_path.as_ptr(), 2), access(c"/x".as_ptr().cast(), 0), umask(0));
        let passed = times(&mut ticks);
        println!("{passed} {}", getrusage(0, &mut usage));
        println!("{} {} {}", ticks[0], usage[0], usage[1] / 10_000);
        println!("{} {} {}", sysinfo(&mut system), system[4] >> 20, sched_getcpu());
        let groups = getgroups(0, std::ptr::null_mut());
        println!("{groups} {} {ids:?}", getresuid(real, effective, saved));
        sync();
        println!("{} {}", waitpid(-1, std::ptr::null_mut(), 0), mlock(path.as_ptr(), 4));
    }
    let mut text = Vec::new();
    (&file).read_to_end(&mut text).unwrap();
    println!("{text:?}");
}

#[cfg(not(target_arch = "riscv64"))]
fn calls(_folder: &str) {}

fn time() {
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(20));
    let slept = start.elapsed();
    let is_right = (20..30).contains(&slept.as_millis());
    let day = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    println!("{is_right} {}", day.as_secs());
}

/// The mapping that has this function is the program's file, where it says.
fn program() {
    let here = program as fn() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let same = maps.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let (start, end) = (number(start), number(end));
        if !(start..end).contains(&here) || fields[1] != "r-xp" {
            return None;
        }
        let file = std::fs::read("/proc/self/exe").unwrap();
        let place = here - start + number(fields[2]);
        // SAFETY: the function's own first instructions are readable.
        let code = unsafe { std::slice::from_raw_parts(here as *const u8, 16) };
        Some(file[place..place + 16] == *code)
    });
    println!("{}", same == Some(true));
}

fn memory() {
    // Beyond what brk gives at once, grown and given back.
    let mut grown = Vec::new();
    for k in 0..300_000_u64 {
        grown.push(k);
    }
    let sum: u64 = grown.iter().sum();
    drop(grown);
    let zeros = vec![0_u8; 3 << 20];
    let is_zero = zeros.iter().step_by(1000).all(|byte| *byte == 0);
    let mut none = Vec::<u8>::new();
    let refused = none.try_reserve_exact(1 << 40).is_err();
    println!("{sum} {is_zero} {refused}");
}

/// Reads where nothing is.
#[cfg(target_arch = "riscv64")]
fn null() {
    // SAFETY: none; that the simulator ends the program here is what is tested. The compiler knows
    // nothing of the address.
    unsafe { std::arch::asm!("ld a0, 8(zero)", out("a0") _) };
}

#[cfg(not(target_arch = "riscv64"))]
fn null() {}

/// Every node stores into the segment of the next one, whose place it was told at the start, and
/// says what it finds in its own.
#[cfg(target_arch = "riscv64")]
fn segment() {
    use std::arch::asm;
    let (node, nodes, bytes, start): (u64, u64, u64, *mut u64);
    // SAFETY: these read extended registers and touch no memory.
    unsafe {
        asm!(".insn i 0x7b, 6, {}, x10, 0", ".insn i 0x7b, 6, {}, x11, 0", out(reg) node, out(reg) nodes);
        asm!(".insn i 0x7b, 6, {}, x12, 0", ".insn i 0x7b, 6, {}, x13, 0", out(reg) bytes, out(reg) start);
    }
    let next = (node + 1) % nodes;
    // SAFETY: object k is node k - 1; esd to the first word of its segment, which is only accessed
    // so, and by volatile reads.
    unsafe {
        asm!(".insn i 0x7b, 7, x10, {object}, 1", ".insn s 0x7b, 3, {value}, 0(a0)", "fence",
            object = in(reg) next, value = in(reg) node + 10, in("a0") start);
    }
    // SAFETY: the segment is memory of this process.
    while unsafe { start.read_volatile() } == 0 {}
    // SAFETY: as above.
    println!("{bytes} {}", unsafe { start.read_volatile() });
}

#[cfg(not(target_arch = "riscv64"))]
fn segment() {}

/// Every node adds to a word of node 0, which waits for all.
#[cfg(target_arch = "riscv64")]
fn atomics() {
    use std::arch::asm;
    use std::sync::atomic::{AtomicU64, Ordering};
    static SUM: AtomicU64 = AtomicU64::new(0);
    let (node, nodes): (u64, u64);
    // SAFETY: these read extended registers and touch no memory.
    unsafe {
        asm!(".insn i 0x7b, 6, {}, x10, 0", ".insn i 0x7b, 6, {}, x11, 0", out(reg) node, out(reg) nodes);
    }
    // SAFETY: e10 = 1 is the object that stands for node 0; then eamoadd.d at the address in a0,
    // that of a word which is only reached by atomics, and lies there on every node.
    unsafe {
        asm!(".insn i 0x7b, 7, x10, {object}, 0", ".insn r 0x6b, 7, 7, {old}, a0, {value}",
            object = in(reg) 1, old = out(reg) _, value = in(reg) node + 1, in("a0") &raw const SUM);
    }
    while node == 0 && SUM.load(Ordering::Acquire) != nodes * (nodes + 1) / 2 {
        std::hint::spin_loop();
    }
    println!("{}", SUM.load(Ordering::Acquire));
}

#[cfg(not(target_arch = "riscv64"))]
fn atomics() {}

/// A word goes round: every node sleeps until its own is written, and then writes that of the next
/// one. The last one writes to the first, which began, or nobody begins.
#[cfg(target_arch = "riscv64")]
fn relay(begins: bool) {
    use std::arch::asm;
    let (node, nodes, start): (u64, u64, *mut u64);
    // SAFETY: these read extended registers and touch no memory.
    unsafe {
        asm!(".insn i 0x7b, 6, {}, x10, 0", ".insn i 0x7b, 6, {}, x11, 0", ".insn i 0x7b, 6, {}, x13, 0",
            out(reg) node, out(reg) nodes, out(reg) start);
    }
    let pass = || {
        let next = (node + 1) % nodes;
        // SAFETY: object k is node k - 1; esd to the first word of its segment, which is only
        // accessed so, and by volatile reads.
        unsafe {
            asm!(".insn i 0x7b, 7, x10, {object}, 1", ".insn s 0x7b, 3, {value}, 0(a0)", "fence",
                object = in(reg) next, value = in(reg) node + 1, in("a0") start);
        }
    };
    if begins && node == 0 {
        pass();
    }
    let mut seen = 0_u64;
    // SAFETY: the segment is memory of this process.
    while unsafe { start.read_volatile() } == 0 {
        // SAFETY: the call reads and writes registers alone.
        unsafe { asm!("ecall", in("a7") 4096, inlateout("a0") seen, in("a1") 2_000_000) };
    }
    if node != 0 {
        pass();
    }
    println!("{seen}");
}

#[cfg(not(target_arch = "riscv64"))]
fn relay(_begins: bool) {}
