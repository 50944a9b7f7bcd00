//! For tests: what comes to pass beside them, sooner or later.

use std::time::Duration;

/// Waits until there is an answer.
pub(crate) async fn soon<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let until_there_is = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, until_there_is)
        .await
        .expect("there is one in the end")
}
