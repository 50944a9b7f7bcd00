//! Effects of options that do not show through the public interface.

use super::*;

#[test]
fn direct_writes_can_be_turned_off() {
    let vault = tempfile::tempdir().unwrap();
    Identity::random().write_durably(vault.path()).unwrap();
    let takes_direct = filesystem::takes_direct_writes(&identity_path(vault.path()));
    for durability in [Durability::Disk, Durability::Os] {
        for page_cache in [false, true] {
            let options = Options {
                durability,
                page_cache,
                ..Options::default()
            };
            let is_direct = write_policy(vault.path(), &options) == WritePolicy::Direct;
            let expected = takes_direct && durability == Durability::Disk && !page_cache;
            assert_eq!(is_direct, expected, "{options:?}");
        }
    }
}

const IN_MEMORY: Safety = Safety::Unsafe("it is in memory");

#[test]
fn a_vault_on_a_file_system_that_loses_bytes_is_refused_unless_the_operator_insists() {
    let dir = tempfile::tempdir().unwrap();
    let vault = dir.path().join("vault");
    filesystem::make_directory(&vault).unwrap();
    // The vault is on a separate file system.
    let assess: Assess = |dir| {
        let is_vault = dir.ends_with("vault");
        Ok(if is_vault { IN_MEMORY } else { Safety::Safe })
    };
    let open = |options| LocalStore::open_assessed(dir.path(), options, assess);
    match open(Options::default()) {
        Err(OpenError::UnsafeFilesystem { dir, .. }) => assert_eq!(dir, vault),
        other => panic!("it must be refused: {other:?}"),
    }
    assert!(
        filesystem::names(&vault).unwrap().is_empty(),
        "nothing was changed"
    );
    open(Options {
        allow_unsafe_filesystem: true,
        ..Options::default()
    })
    .unwrap();
    open(Options {
        durability: Durability::Os,
        ..Options::default()
    })
    .unwrap();
    open(Options::default()).unwrap_err();
}
