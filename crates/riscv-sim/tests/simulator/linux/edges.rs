//! What calls answer at their edges: a part of the program, which the host runs as well.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;

#[repr(C)]
struct Polled {
    file: i32,
    events: u16,
    found: u16,
}

#[repr(C)]
struct Buffer {
    start: *mut u8,
    n_bytes: usize,
}

unsafe extern "C" {
    fn open(path: *const u8, flags: i32, ...) -> i32;
    fn close(file: i32) -> i32;
    fn poll(files: *mut Polled, n: u64, ms: i32) -> i32;
    fn lseek(file: i32, offset: i64, from: i32) -> i64;
    fn dup(file: i32) -> i32;
    fn fcntl(file: i32, command: i32, ...) -> i32;
    fn readv(file: i32, buffers: *const Buffer, n: i32) -> i64;
    fn writev(file: i32, buffers: *const Buffer, n: i32) -> i64;
    fn read(file: i32, to: *mut u8, n: usize) -> i64;
    fn write(file: i32, from: *const u8, n: usize) -> i64;
    fn getrandom(to: *mut u8, n: usize, flags: u32) -> i64;
    fn kill(process: i32, signal: i32) -> i32;
    fn mmap(at: usize, n: usize, rights: i32, flags: i32, file: i32, offset: i64) -> isize;
    fn munmap(at: usize, n_bytes: usize) -> i32;
    fn mremap(at: usize, n_bytes: usize, new: usize, flags: i32) -> isize;
    fn madvise(at: usize, n_bytes: usize, advice: i32) -> i32;
    fn clock_nanosleep(clock: i32, flags: i32, span: *const [i64; 2], left: *mut [i64; 2]) -> i32;
    fn clock_getres(clock: i32, to: *mut [i64; 2]) -> i32;
    fn readlink(path: *const u8, to: *mut u8, n: usize) -> isize;
    fn fstatat(at: i32, path: *const u8, to: *mut [u64; 64], flags: i32) -> i32;
    fn syscall(number: i64, ...) -> i64;
    fn pread(file: i32, to: *mut u8, n: usize, at: i64) -> isize;
    fn pwrite(file: i32, from: *const u8, n: usize, at: i64) -> isize;
    fn fallocate(file: i32, mode: i32, at: i64, n: i64) -> i32;
}

const WRITE_ONLY: i32 = 1;
const CREATE: i32 = 0o100;
const EXCLUSIVE: i32 = 0o200;
const TRUNCATE: i32 = 0o1000;
const APPEND: i32 = 0o2000;
const NO_FOLLOW: i32 = 0o400_000;

/// Where no process has memory.
const NOWHERE: *mut u8 = std::ptr::without_provenance_mut(8);

pub(crate) fn print(folder: &str) {
    std::env::set_current_dir(folder).unwrap();
    links();
    ends();
    opened();
    flags();
    places();
    several();
    nothing_and_too_much();
    polled();
    memory();
    clocks();
    names();
    offsets();
    unknown_flags();
    signals();
}

/// A result, or the number of the failure.
fn told(value: impl Into<i64>) -> Result<i64, i32> {
    match value.into() {
        -1 => Err(Error::last_os_error().raw_os_error().unwrap()),
        value => Ok(value),
    }
}

fn number<T>(result: std::io::Result<T>) -> Result<T, Option<i32>> {
    result.map_err(|why| why.raw_os_error())
}

fn open_as(path: &str, flags: i32) -> Result<i64, i32> {
    let path = format!("{path}\0");
    // SAFETY: the path ends.
    let file = told(unsafe { open(path.as_ptr(), flags, 0o644) })?;
    // SAFETY: nobody else has it.
    told(unsafe { close(i32::try_from(file).unwrap()) })
}

fn length(path: &str) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// A link is what is removed and moved, not what it leads to.
fn links() {
    let mut entries: Vec<_> = fs::read_dir(".").unwrap().map(|it| it.unwrap()).collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let (kind, lstat) = (entry.file_type().unwrap(), entry.metadata().unwrap().file_type());
        println!("{:?} {} {}", entry.file_name(), kind == lstat, kind.is_symlink());
        println!("{} {} {:?}", kind.is_dir(), kind.is_file(), number(fs::read_link(entry.path())));
    }
    println!("{:?}", open_as("link", NO_FOLLOW));
    println!("{:?}", number(fs::hard_link("ten", "taken")));
    println!("{:?} {:?}", number(fs::create_dir("taken")), number(fs::create_dir("link")));
    println!("{:?}", number(fs::remove_file("to folder/")));
    println!("{:?}", number(fs::remove_dir_all("to folder")));
    println!("{:?} {:?}", number(fs::remove_file("link")), number(fs::remove_file("dangling")));
    fs::write("new", "new").unwrap();
    println!("{:?} {:?}", number(fs::rename("new", "replaced")), number(fs::rename("moved", "at")));
    println!("{} {}", length("ten"), fs::exists("folder/inner").unwrap());
    println!("{:?} {}", number(fs::read_link("at")), fs::read_to_string("replaced").unwrap());
}

/// A slash or a dot at the end of a path is for folders alone.
fn ends() {
    fs::write("plain", "").unwrap();
    for end in ["/", "/.", "//", "/./"] {
        let path = |name| format!("{name}{end}");
        println!("{:?} {:?}", open_as(&path("plain"), 0), open_as(&path("absent"), CREATE));
        println!("{:?}", number(fs::metadata(path("plain")).map(drop)));
        println!("{:?}", number(fs::symlink_metadata(path("to ten")).map(drop)));
        println!("{:?} {:?}", number(fs::remove_file(path("plain"))), number(fs::remove_dir(path("plain"))));
        println!("{:?}", number(fs::rename(path("plain"), "absent")));
        println!("{:?}", number(fs::rename("plain", path("absent"))));
        println!("{:?}", number(fs::hard_link("plain", path("absent"))));
        println!("{:?}", number(fs::create_dir(path("plain"))));
        println!("{:?} {:?}", number(fs::create_dir(path("a folder"))), number(fs::remove_dir(path("a folder"))));
        println!("{:?}", number(fs::remove_dir("a folder")));
        println!("{} {}", fs::exists("plain").unwrap(), fs::exists("absent").unwrap());
    }
}

fn opened() {
    println!("{:?}", open_as("made", CREATE));
    println!("{:?}", open_as("made", CREATE | EXCLUSIVE));
    println!("{:?}", open_as("folder", CREATE | EXCLUSIVE));
    println!("{:?}", open_as("new", WRITE_ONLY | CREATE | EXCLUSIVE));
    println!("{:?}", open_as(&"x".repeat(300), 0));
    fs::write("long", "0123456789").unwrap();
    println!("{:?} {}", open_as("long", WRITE_ONLY | TRUNCATE | APPEND), length("long"));
    fs::write("long", "0123456789").unwrap();
    println!("{:?} {}", open_as("long", TRUNCATE), length("long"));
    let mut bytes = [0; 4];
    let mut writer = File::create("long").unwrap();
    println!("{:?}", number(writer.read(&mut bytes)));
    println!("{:?}", number(File::open("long").unwrap().write(&bytes)));
}

fn flags() {
    const GET: i32 = 3;
    const SET: i32 = 4;
    fs::write("flags", "0123456789").unwrap();
    let mut options = OpenOptions::new();
    let mut appends = options.append(true).open("flags").unwrap();
    let mut writes = OpenOptions::new().write(true).open("flags").unwrap();
    let reads = File::open("flags").unwrap();
    for file in [&appends, &writes, &reads] {
        // SAFETY: these change no memory.
        println!("{}", unsafe { fcntl(file.as_raw_fd(), GET) } & (3 | APPEND));
    }
    // SAFETY: as above.
    println!("{:?}", told(unsafe { fcntl(writes.as_raw_fd(), SET, APPEND) }));
    // SAFETY: as above.
    println!("{:?}", told(unsafe { fcntl(appends.as_raw_fd(), SET, 0) }));
    writes.write_all(b"end").unwrap();
    appends.rewind().unwrap();
    appends.write_all(b"start").unwrap();
    println!("{}", fs::read_to_string("flags").unwrap());
}

/// Descriptors of one open file have one place, and a folder is read again from its start.
fn places() {
    const CURRENT: i32 = 1;
    let mut maps = File::open("/proc/self/maps").unwrap();
    maps.read_exact(&mut [0; 4]).unwrap();
    let folder = File::open(".").unwrap();
    // SAFETY: these change no memory.
    let (same_maps, same) = unsafe { (dup(maps.as_raw_fd()), dup(folder.as_raw_fd())) };
    // SAFETY: as above.
    println!("{:?}", told(unsafe { lseek(same_maps, 0, CURRENT) }));
    let folder = folder.as_raw_fd();
    println!("{:?} {}", entries(folder, NOWHERE), n_entries(folder));
    println!("{}", n_entries(same));
    // SAFETY: as above.
    println!("{:?} {}", told(unsafe { lseek(same, 0, 0) }), n_entries(folder));
}

/// Reads entries of a folder into 1,024 bytes.
fn entries(folder: i32, to: *mut u8) -> Result<i64, i32> {
    let number = if cfg!(target_arch = "x86_64") { 217 } else { 61 };
    // SAFETY: there is room for so many bytes, or no memory at all.
    told(unsafe { syscall(number, i64::from(folder), to, 1024_i64) })
}

fn n_entries(folder: i32) -> usize {
    let (mut bytes, mut n) = ([0_u8; 1024], 0);
    loop {
        let end = usize::try_from(entries(folder, bytes.as_mut_ptr()).unwrap()).unwrap();
        let mut at = 0;
        while at < end {
            at += usize::from(u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]));
            n += 1;
        }
        if end == 0 {
            return n;
        }
    }
}

/// What was moved before a failure is told.
fn several() {
    let mut bytes = *b"abcdefgh";
    let buffer = |start, n_bytes| Buffer { start, n_bytes };
    let good = buffer(bytes.as_mut_ptr(), 4);
    let buffers = [good, buffer(NOWHERE, 4)];
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open("v");
    let mut file = file.unwrap();
    let number = file.as_raw_fd();
    // SAFETY: the first buffer is memory, and the second one is none at all.
    println!("{:?}", told(unsafe { writev(number, buffers.as_ptr(), 2) }));
    // SAFETY: as above.
    println!("{:?}", told(unsafe { writev(number, &raw const buffers[1], 1) }));
    file.write_all(b"ijkl").unwrap();
    println!("{}", fs::read_to_string("v").unwrap());
    file.rewind().unwrap();
    // SAFETY: as above.
    println!("{:?}", told(unsafe { readv(number, buffers.as_ptr(), 2) }));
    println!("{bytes:?}");
}

/// Nothing is moved from or to anywhere, and a buffer may be longer than what is read into it.
fn nothing_and_too_much() {
    let mut bytes = vec![b'x'; 16];
    let (ten, out) = (File::open("ten").unwrap(), File::create("five").unwrap());
    let (ten, out) = (ten.as_raw_fd(), out.as_raw_fd());
    let buffer = |start, n_bytes| Buffer { start, n_bytes };
    let buffers = [buffer(NOWHERE, 0), buffer(bytes.as_mut_ptr(), 5)];
    // SAFETY: where there is no memory nothing is moved, and the file has ten bytes.
    unsafe {
        println!("{:?} {:?}", told(write(1, NOWHERE, 0)), told(write(out, NOWHERE, 0)));
        println!("{:?} {:?}", told(write(999, NOWHERE, 0)), told(write(out, NOWHERE, 1)));
        println!("{:?} {:?}", told(read(ten, NOWHERE, 0)), told(getrandom(NOWHERE, 0, 0)));
        println!("{:?} {:?}", told(writev(out, buffers.as_ptr(), 2)), length("five"));
        println!("{:?}", told(readv(ten, buffers.as_ptr(), 2)));
        println!("{:?}", told(read(ten, bytes.as_mut_ptr(), 0x7fff_f000)));
        println!("{:?}", told(open(NOWHERE, 0)));
    }
    println!("{bytes:?}");
}

fn polled() {
    let file = File::open("ten").unwrap();
    let polled = |file, events| {
        let mut files = [Polled { file, events, found: 77 }];
        // SAFETY: there is one.
        let n = unsafe { poll(files.as_mut_ptr(), 1, 1) };
        println!("{:?} {:#x}", told(n), files[0].found);
    };
    polled(-1, 1);
    polled(-5, 5);
    polled(999, 1);
    polled(file.as_raw_fd(), 1 | 4 | 0x40 | 0x100);
    polled(file.as_raw_fd(), 0x40);
    let own = i32::try_from(std::process::id()).unwrap();
    for signal in [-1, 65, 0] {
        // SAFETY: none of them is a signal.
        println!("{:?}", told(unsafe { kill(own, signal) }));
        // SAFETY: no process has so high a number.
        println!("{:?}", told(unsafe { kill(0x3fff_ffff, signal) }));
    }
}

fn memory() {
    const PAGE: usize = 4096;
    const PRIVATE: i32 = 0x22;
    const FIXED: i32 = 0x10;
    const NO_REPLACE: i32 = 0x10_0000;
    const NOT_NEEDED: i32 = 4;
    let map = |at: usize, flags: i32| {
        // SAFETY: what is mapped is nobody else's.
        told(unsafe { mmap(at, PAGE, 3, PRIVATE | flags, -1, 0) } as i64)
    };
    let start = usize::try_from(map(0, 0).unwrap()).unwrap();
    let page = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the page is this function's.
    let page = unsafe { std::slice::from_raw_parts_mut(page, PAGE) };
    page.fill(7);
    println!("{:?} {:?}", map(start, NO_REPLACE), map(start, FIXED | NO_REPLACE));
    println!("{:?} {:?}", map(start + 1, NO_REPLACE), map(1 << 60, NO_REPLACE));
    println!("{} {}", page[0], page[PAGE - 1]);
    let folder = File::open(".").unwrap();
    let writer = File::create("written").unwrap();
    for file in [999, writer.as_raw_fd(), folder.as_raw_fd()] {
        // SAFETY: nothing can be mapped, and so the page stays.
        let mapped = told(unsafe { mmap(start, PAGE, 3, 2 | FIXED, file, 0) } as i64);
        println!("{mapped:?} {} {:?}", page[0], map(start, FIXED | NO_REPLACE));
    }
    // SAFETY: nobody needs what is there.
    println!("{:?}", told(unsafe { madvise(start, 1, NOT_NEEDED) }));
    println!("{} {}", page[0], page[PAGE - 1]);
    unmapped(start);
    let here = memory as fn() as usize & !(PAGE - 1);
    // SAFETY: the program's code is what its file has.
    println!("{:?}", told(unsafe { madvise(here, PAGE, NOT_NEEDED) }));
    // SAFETY: no page starts there.
    println!("{:?}", told(unsafe { madvise(here + 1, PAGE, NOT_NEEDED) }));
}

/// Memory that is given back, and then again, is nobody's.
fn unmapped(start: usize) {
    const PAGE: usize = 4096;
    const MAY_MOVE: i32 = 1;
    let unmap = |at, n_bytes| {
        // SAFETY: the page is nobody's from now on.
        told(unsafe { munmap(at, n_bytes) })
    };
    println!("{:?} {:?}", unmap(start, PAGE), unmap(start, PAGE));
    println!("{:?} {:?}", unmap(start, 0), unmap(start + 1, PAGE));
    println!("{:?} {:?}", unmap(1 << 60, PAGE), unmap(PAGE, usize::MAX - PAGE + 1));
    for new in [PAGE, 2 * PAGE, 64 * PAGE] {
        // SAFETY: nothing is there.
        println!("{:?}", told(unsafe { mremap(start, PAGE, new, MAY_MOVE) } as i64));
    }
}

/// Some clocks cannot be slept by.
fn clocks() {
    let mut time = [0; 2];
    for clock in [0, 1, 3, 4, 5, 6, 99] {
        // SAFETY: the times are this function's.
        let slept = unsafe { clock_nanosleep(clock, 0, &raw const time, std::ptr::null_mut()) };
        println!("{clock} {slept}");
    }
    for clock in [0, 2, 99] {
        // SAFETY: as above.
        println!("{:?}", told(unsafe { clock_getres(clock, std::ptr::null_mut()) }));
        // SAFETY: as above.
        println!("{:?}", told(unsafe { clock_getres(clock, &raw mut time) }));
    }
}

/// Links into no room, and names that are empty.
fn names() {
    const CURRENT: i32 = -100;
    const NO_PATH: i32 = 0x1000;
    let (mut bytes, mut facts) = ([0; 8], [0; 64]);
    for n_bytes in [0, 8] {
        // SAFETY: there is room for so many bytes.
        println!("{:?}", told(unsafe { readlink(c"to ten".as_ptr().cast(), bytes.as_mut_ptr(), n_bytes) } as i64));
    }
    let file = File::open("ten").unwrap();
    for at in [file.as_raw_fd(), CURRENT, 999] {
        for flags in [0, NO_PATH] {
            // SAFETY: there is room for what is told.
            println!("{:?}", told(unsafe { fstatat(at, c"".as_ptr().cast(), &raw mut facts, flags) }));
        }
    }
}

/// Nothing lies before the start of a file, nor behind all addresses.
fn offsets() {
    let mut bytes = [0_u8; 8];
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open("at");
    let (file, null) = (file.unwrap(), OpenOptions::new().read(true).write(true).open("/dev/null").unwrap());
    let maps = File::open("/proc/self/maps").unwrap();
    let [file, null, maps] = [&file, &null, &maps].map(|it| it.as_raw_fd());
    let (to, all) = (bytes.as_mut_ptr(), usize::MAX);
    let buffers = [Buffer { start: to, n_bytes: 2 }, Buffer { start: to, n_bytes: all }];
    let most = isize::MAX.cast_unsigned();
    let far = [Buffer { start: to, n_bytes: 2 }, Buffer { start: to, n_bytes: most }];
    // SAFETY: what is moved lies in the array, and the rest is refused.
    unsafe {
        for file in [file, null, maps] {
            println!("{:?} {:?}", told(pread(file, to, 8, -1) as i64), told(pread(file, to, 0, i64::MIN) as i64));
            println!("{:?} {:?}", told(readv(file, buffers.as_ptr(), 2)), told(readv(file, far.as_ptr(), 2)));
        }
        for file in [file, null] {
            println!("{:?}", told(writev(file, far.as_ptr(), 2)));
            println!("{:?} {:?}", told(pwrite(file, to, 8, -1) as i64), told(writev(file, buffers.as_ptr(), 2)));
        }
        println!("{:?} {:?}", told(write(file, to, all)), told(read(file, to, all)));
        println!("{:?} {:?}", told(fallocate(file, 0, 0, 0)), told(fallocate(file, 0, -1, 5)));
        println!("{:?} {:?}", told(lseek(maps, i64::MAX, 0)), told(lseek(maps, 1, 1)));
        println!("{:?}", told(lseek(file, 0, 2)));
    }
}

/// Makes the first of these calls on this architecture, the second on the guest's.
fn call(numbers: [i64; 2], [a, b, c, d, e]: [i64; 5]) -> Result<i64, i32> {
    let number = numbers[usize::from(!cfg!(target_arch = "x86_64"))];
    // SAFETY: the callers name only what is theirs, or nothing.
    told(unsafe { syscall(number, a, b, c, d, e) })
}

/// What a call is not known to do it does not do.
fn unknown_flags() {
    const CURRENT: i64 = -100;
    let ten = c"ten".as_ptr() as i64;
    let mut facts = [0_u64; 128];
    let to = facts.as_mut_ptr() as i64;
    println!("{:?}", call([263, 35], [CURRENT, ten, 0x1000, 0, 0]));
    println!("{:?}", call([265, 37], [CURRENT, ten, CURRENT, c"eleven".as_ptr() as i64, 1]));
    println!("{} {}", fs::exists("ten").unwrap(), fs::exists("eleven").unwrap());
    println!("{:?}", call([269, 48], [CURRENT, ten, 8, 0, 0]));
    println!("{:?}", call([439, 439], [CURRENT, ten, 0, 1, 0]));
    println!("{:?}", call([262, 79], [CURRENT, ten, to, 1, 0]));
    for (flags, mask) in [(1, 0x7ff), (0x6000, 0x7ff), (0, 1 << 31)] {
        println!("{:?}", call([332, 291], [CURRENT, ten, flags, mask, to]));
    }
    println!("{:?}", call([292, 24], [1, 40, 1, 0, 0]));
    println!("{:?} {:?}", call([318, 278], [to, 8, 8, 0, 0]), call([318, 278], [to, 8, 6, 0, 0]));
    println!("{:?}", call([280, 88], [CURRENT, c"absent".as_ptr() as i64, 0, 0, 0]));
    println!("{:?}", call([280, 88], [CURRENT, ten, 0, 1, 0]));
    // Memory that is neither shared nor private, from within a page of a file, and beyond all.
    let file = File::open("ten").unwrap();
    // A link has times of its own, wherever it leads.
    let link = c"dangling".as_ptr() as i64;
    println!("{:?}", fs::symlink_metadata("dangling").map(|it| it.is_symlink()).ok());
    println!("{:?} {:?}", call([280, 88], [CURRENT, link, 0, 0x100, 0]), call([439, 439], [CURRENT, link, 2, 0x100, 0]));
    // No path is needed for what is open.
    let (open, none) = (i64::from(file.as_raw_fd()), c"".as_ptr() as i64);
    println!("{:?} {:?}", call([280, 88], [open, none, 0, 0x1000, 0]), call([280, 88], [open, none, 0, 0, 0]));
    println!("{:?} {:?}", call([439, 439], [open, none, 2, 0x1000, 0]), call([439, 439], [open, none, 2, 0, 0]));
    for (flags, offset) in [(0x20, 0), (2, 1)] {
        // SAFETY: nothing is mapped.
        let mapped = unsafe { mmap(0, 4096, 1, flags, file.as_raw_fd(), offset) };
        println!("{:?}", told(mapped as i64));
    }
    let page = facts.as_ptr() as usize & !4095;
    // SAFETY: none of these does anything.
    unsafe {
        println!("{:?} {:?}", told(madvise(page, usize::MAX, 4)), told(mremap(page, 4096, 4096, 8) as i64));
        println!("{:?}", told(syscall(if cfg!(target_arch = "x86_64") { 10 } else { 226 }, page + 1, 4096_i64, 3_i64)));
    }
    println!("{:?}", call([202, 98], [to + 1, 1, 1, 0, 0]));
    println!("{:?}", call([271, 73], [0, 0, [0_i64, 1 << 40].as_ptr() as i64, 0, 8]));
    for number in [[203, 122], [204, 123], [121, 155], [124, 156], [302, 261]] {
        // Long enough for the processors of any host.
        println!("{:?}", call(number, [0x3fff_ffff, 1024, to, 0, 0]));
    }
}

/// A handler, and the set of those that wait.
fn signals() {
    let mut bytes = [0_u64; 4];
    let at = bytes.as_mut_ptr() as i64;
    for (signal, new, size) in [(0, 0, 8), (65, 0, 8), (10, 0, 4), (9, at, 8), (19, at, 8), (10, 8, 8), (10, 0, 8), (9, 0, 8)] {
        println!("{:?}", call([13, 134], [signal, new, at, size, 0]));
    }
    for (way, new, size) in [(3, at, 8), (3, 0, 8), (0, 0, 4), (0, 8, 8), (0, at, 8)] {
        println!("{:?}", call([14, 135], [way, new, 0, size, 0]));
    }
}
