//! The rules of the contract.

use std::sync::Arc;
use std::time::Duration;

use windlass_store::{Ledger, conformance};

use crate::database::{self, Database};

#[tokio::test]
async fn the_ledger_keeps_the_contract() {
    let database = Database::new().await;
    conformance::ledger(&database.open().await).await;
}

#[tokio::test]
async fn the_ledger_of_two_processes_keeps_the_contract() {
    let database = Database::new().await;
    let (first, second) = (database.open().await, database.open().await);
    conformance::ledger_of_processes(&first, &second).await;
}

#[tokio::test]
async fn the_ledger_keeps_released_media() {
    let database = Database::new().await;
    let options = database::options().retention(conformance::RETENTION);
    let ledger = database.open_with(options).await;
    // Its clock is the database's, so the entries become older instead.
    let advance = async |time: Duration| {
        let older = format!(
            "UPDATE garbage SET not_before = not_before - interval '{} seconds'",
            time.as_secs()
        );
        database.client.batch_execute(&older).await.unwrap();
    };
    conformance::ledger_with_retention(&ledger, advance).await;
}

#[tokio::test]
async fn the_ledger_keeps_what_it_committed_over_a_restart() {
    let database = Database::new().await;
    let open = async || Arc::new(database.open().await) as Arc<dyn Ledger>;
    conformance::ledger_restart(open).await;
}
