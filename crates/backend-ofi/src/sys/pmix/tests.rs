//! The bindings beside the installed headers.

use std::fs;
use std::mem::offset_of;
use std::process::Command;

use super::*;

/// A program in C. It compiles only if the headers agree with the bindings, and succeeds only if
/// the keys agree.
fn program_in_c() -> String {
    let numbers = [
        ("sizeof(pmix_proc_t)", size_of::<Proc>()),
        ("offsetof(pmix_proc_t, rank)", offset_of!(Proc, rank)),
        ("sizeof(pmix_byte_object_t)", size_of::<ByteObject>()),
        (
            "offsetof(pmix_byte_object_t, size)",
            offset_of!(ByteObject, size),
        ),
        ("sizeof(pmix_value_t)", size_of::<Value>()),
        ("offsetof(pmix_value_t, data)", offset_of!(Value, data)),
        ("sizeof(pmix_info_t)", size_of::<Info>()),
        ("offsetof(pmix_info_t, flags)", offset_of!(Info, flags)),
        ("offsetof(pmix_info_t, value)", offset_of!(Info, value)),
        ("PMIX_RANK_WILDCARD", WILDCARD as usize),
        ("PMIX_GLOBAL", GLOBAL.into()),
        ("PMIX_BOOL", BOOL.into()),
        ("PMIX_UINT32", UINT32.into()),
        ("PMIX_BYTE_OBJECT", BYTE_OBJECT.into()),
    ];
    let mut text = String::from("#include <stddef.h>\n#include <string.h>\n#include <pmix.h>\n");
    for (expression, number) in numbers {
        text += &format!("_Static_assert(({expression}) == {number}u, \"{expression}\");\n");
    }
    let codes = [
        ("PMIX_SUCCESS", SUCCESS),
        ("PMIX_OPERATION_SUCCEEDED", OPERATION_SUCCEEDED),
    ];
    for (expression, code) in codes {
        text += &format!("_Static_assert({expression} == {code}, \"{expression}\");\n");
    }
    text += "int (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;\n\
         int (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;\n\
         int (*put)(unsigned char, const char *, pmix_value_t *) = PMIx_Put;\n\
         int (*commit)(void) = PMIx_Commit;\n\
         int (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,\n\
             void (*)(int, void *), void *) = PMIx_Fence_nb;\n\
         int (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,\n\
             pmix_value_t **) = PMIx_Get;\n\
         const char *(*error)(int) = PMIx_Error_string;\n";
    text += &format!(
        "_Static_assert(sizeof({:?}) == sizeof(PMIX_JOB_SIZE), \"key\");\n\
         int main(void) {{ return strcmp({:?}, PMIX_JOB_SIZE) || strcmp({:?}, PMIX_COLLECT_DATA); }}\n",
        JOB_SIZE.to_str().unwrap(),
        JOB_SIZE.to_str().unwrap(),
        COLLECT_DATA.to_str().unwrap(),
    );
    text
}

#[test]
fn sizes_offsets_constants_and_functions_are_those_of_the_installed_headers() {
    let folder = std::env::temp_dir().join(format!("pgas-pmix-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("same.c"), folder.join("same"));
    fs::write(&source, program_in_c()).unwrap();
    let mut cc = Command::new("cc");
    // The folders of Debian.
    for triple in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        cc.arg(format!("-I/usr/lib/{triple}/pmix2/include"));
    }
    cc.args(["-Werror", "-o"]);
    let built = cc.args([&program, &source]).arg("-lpmix").output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    let run = built
        .status
        .success()
        .then(|| Command::new(&program).status());
    fs::remove_dir_all(&folder).unwrap();
    let run = run.unwrap_or_else(|| panic!("{said}")).unwrap();
    assert!(run.success(), "the keys differ");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let cause = Library::open(c"libno-such-pmix.so.2").err().unwrap();
    assert!(cause.contains("libno-such-pmix.so.2"), "{cause}");
    let cause = Library::open(c"libc.so.6").err().unwrap();
    assert!(cause.contains("PMIx_Init"), "{cause}");
}
