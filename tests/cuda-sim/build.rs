//! Gives the library the name by which the driver's users look for it first: whoever has opened it by
//! path is then given it when asking for the driver.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}
