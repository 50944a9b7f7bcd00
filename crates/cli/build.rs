//! How a release is linked: what a server needs until it is idle lies side by side, then what uploads need, and it takes
//! little to relocate. `layout/README.md` tells why.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What runs until a server is idle, and what runs for uploads, one mangled name or pattern a line; and where it
/// goes. `layout/record` writes the files.
const NAMES: [(&str, &str); 2] = [
    (".text.start", "layout/start.names"),
    (".text.upload", "layout/upload.names"),
];

/// Set to anything, it keeps all of this from the linker.
const PLAIN: &str = "WINDLASS_PLAIN_LINK";

fn main() {
    for (_, names) in NAMES {
        println!("cargo:rerun-if-changed={names}");
    }
    println!("cargo:rerun-if-env-changed={PLAIN}");
    if env::var_os(PLAIN).is_some() || !is_release_for_glibc() || has_own_linker() {
        return;
    }
    let folder = env::var_os("OUT_DIR").expect("Cargo tells where to put what is built");
    let script = PathBuf::from(folder).join("layout.ld");
    fs::write(&script, linker_script()).expect("Cargo's folder can be written");
    link(&format!("-T{}", script.display()));
    if has_compact_relocations() {
        link("-Wl,-z,pack-relative-relocs");
    }
}

/// Puts the named functions, one section each, before all others.
fn linker_script() -> String {
    let mut script = String::from("SECTIONS\n{\n");
    for (section, names) in NAMES {
        let names = fs::read_to_string(names).expect("the package has the names of its functions");
        let _ = writeln!(script, "  {section} : {{");
        for name in names.lines() {
            let _ = writeln!(script, "    *(.text.{name} .text.unlikely.{name})");
        }
        script.push_str("  }\n");
    }
    script.push_str("}\nINSERT BEFORE .text;\n");
    script
}

fn link(option: &str) {
    println!("cargo:rustc-link-arg-bin=windlass={option}");
}

fn is_release_for_glibc() -> bool {
    is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// Whether somebody chose a linker. The defaults, lld and GNU's, know what is asked for here; others may not.
fn has_own_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_some() || flags.contains("linker") || flags.contains("-fuse-ld")
}

/// Whether the C library here can read compact relocations: glibc does since 2.36. Other machines' are not known.
fn has_compact_relocations() -> bool {
    let here = env::var_os("HOST") == env::var_os("TARGET");
    here && glibc().is_some_and(|version| version >= (2, 36))
}

fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let told = String::from_utf8(told.ok()?.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn is(name: &str, value: &str) -> bool {
    env::var(name).is_ok_and(|found| found == value)
}
