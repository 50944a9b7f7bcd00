//! Stops and starts the server, and changes its settings.

use std::process::Command;

use crate::database;

fn control(action: &str) {
    let ctl = std::env::var("POSTGRES_CTL").expect("tests/postgres/run sets POSTGRES_CTL");
    let output = Command::new(ctl).arg(action).output().unwrap();
    assert!(output.status.success(), "{action}: {output:?}");
}

/// Ends the server like a crash.
pub(crate) fn stop() {
    control("stop");
}

/// Starts it again, and waits until it has recovered.
pub(crate) fn start() {
    control("start");
}

/// Changes a setting, and waits until a new connection has it.
pub(crate) async fn set(name: &str, value: &str) {
    let client = database::connect(&database::server()).await;
    // It would wait for the standby, too.
    let set = format!("ALTER SYSTEM SET {name} = {value}");
    client.batch_execute(&set).await.unwrap();
    client
        .batch_execute("SELECT pg_reload_conf()")
        .await
        .unwrap();
    let show = format!("SELECT current_setting('{name}')");
    let value = value.trim_matches('\'');
    loop {
        let client = database::connect(&database::server()).await;
        let row = client.query_one(&show, &[]).await.unwrap();
        if row.get::<_, &str>(0) == value {
            return;
        }
    }
}
