//! Some crates look functions of the C library up by name. They are to find those of the simulation, which
//! therefore have to be among the names that the program exports.

fn main() {
    for name in ["getrandom", "clock_gettime"] {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
