//! What an option changes that does not show from outside.

use super::*;

#[test]
fn direct_writes_can_be_turned_off() {
    let vault = tempfile::tempdir().unwrap();
    Identity::random().mark_durably(vault.path()).unwrap();
    let takes_direct = filesystem::takes_direct_writes(&identity::path(vault.path()));
    for durability in [Durability::Disk, Durability::Os] {
        for page_cache in [false, true] {
            let options = Options {
                durability,
                page_cache,
                ..Options::default()
            };
            let is_direct = writes(vault.path(), options) == Writes::Direct;
            let expected = takes_direct && durability == Durability::Disk && !page_cache;
            assert_eq!(is_direct, expected, "{options:?}");
        }
    }
}
