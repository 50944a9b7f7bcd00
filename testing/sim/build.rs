//! Some crates look functions of the C library up by name. They have to find the functions of the
//! simulation, so the program must export these names.

fn main() {
    for name in ["getrandom", "clock_gettime"] {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
