//! A vault in memory, which is refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::super::verdict::Verdict;
use crate::disk::Mount;
use crate::scratch::Scratch;
use crate::server_under_test::{ServerUnderTest, Unstarted};
use crate::tool::dies_with_us;

/// A server does not start with a vault on tmpfs, mounted or linked, and its error states the
/// reason.
pub(super) fn refuses_a_vault_in_memory(
    server_under_test: &ServerUnderTest,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    for by_link in [false, true] {
        let scratch = Scratch::on_disk()?;
        let data = scratch.path().join("data");
        let vault = data.join("vault");
        fs::create_dir(&data)?;
        fs::set_permissions(&data, Permissions::from_mode(0o700))?;
        let place = if by_link {
            let elsewhere = scratch.path().join("memory");
            symlink(&elsewhere, &vault)?;
            elsewhere
        } else {
            vault.clone()
        };
        let _mount = Mount::in_memory(&place)?;
        let how = if by_link { "by a link" } else { "mounted" };
        let occasion = format!("a vault in memory, {how}");
        expect_refusal(server_under_test, &data, &vault, &occasion, verdict)?;
    }
    Ok(())
}

fn expect_refusal(
    server_under_test: &ServerUnderTest,
    data: &Path,
    vault: &Path,
    occasion: &str,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let log = data.with_file_name("log");
    let refused = match server_under_test.start_under(&dies_with_us(), data, &log) {
        Ok(_server) => {
            verdict.blame(occasion, "the server starts");
            return Ok(());
        }
        Err(error) => error.downcast::<Unstarted>()?,
    };
    let said = refused.to_string();
    let status = refused.status;
    let has_failed = status.is_some_and(|status| !status.success());
    verdict.expect(has_failed, occasion, format!("it ended with {status:?}"));
    let vault = vault.to_string_lossy();
    let names_it = said.contains(&*vault) && said.contains("tmpfs");
    verdict.expect(names_it, occasion, format!("it says: {said}"));
    Ok(())
}
