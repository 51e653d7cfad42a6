//! Links the code that unwinds the stack of a panicking thread into every program that has a supervisor. Otherwise the loader would look
//! for the library `libgcc_s` at each start, map it and relocate it: a tenth of the time that a small program takes.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|is| is == value);
    let is_static =
        env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|features| features.contains("crt-static"));
    // Elsewhere unwinding is in no library of its own. A program that is linked statically has it anyway.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && !is_static && has_archive()
    {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Returns whether the compiler that links has the code as an archive: it then says where, and otherwise repeats the name.
fn has_archive() -> bool {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let said = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    said.is_ok_and(|said| {
        said.status.success() && Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute()
    })
}
