//! The statements and the schema fit together.

use windlass_store_cloud::STATEMENTS;

use crate::database::Database;

#[tokio::test]
async fn each_statement_fits_the_schema() {
    let database = Database::new().await;
    drop(database.open().await);
    for (name, sql) in STATEMENTS {
        let prepared = database.client.prepare(sql).await;
        assert!(prepared.is_ok(), "{name}: {prepared:?}");
    }
}
