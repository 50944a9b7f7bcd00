//! A proxy before the server that cuts connections at chosen statements.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// When a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the server gets the statement.
    Before,
    /// When the server has answered, before the client gets the answer.
    Answer,
}

/// A proxy. It ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    armed: Arc<Mutex<Option<(&'static str, Cut)>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy of a server with this address.
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let armed = Arc::new(Mutex::new(None));
        let mut tasks = JoinSet::new();
        let of_listener = Arc::clone(&armed);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&server).await.unwrap();
                connections.spawn(forward(client, server, Arc::clone(&of_listener)));
            }
        });
        Self {
            address,
            armed,
            _tasks: tasks,
        }
    }

    /// Cuts the next connection with this text in what the client sends.
    pub(crate) fn cut(&self, text: &'static str, cut: Cut) {
        *self.armed.lock().unwrap() = Some((text, cut));
    }

    /// Whether a connection was cut since.
    pub(crate) fn has_cut(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }
}

async fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    armed: Arc<Mutex<Option<(&'static str, Cut)>>>,
) {
    let (mut sent, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => {
                let Ok(len @ 1..) = read else { return };
                let sent = &sent[..len];
                let is_in = |text: &str| sent.windows(text.len()).any(|it| it == text.as_bytes());
                let cut = armed.lock().unwrap().take_if(|(text, _)| is_in(text));
                match cut {
                    Some((_, Cut::Before)) => return,
                    Some((_, Cut::Answer)) => {
                        server.write_all(sent).await.unwrap();
                        // Until all statements are answered: the server then waits for the next.
                        loop {
                            let len = server.read(&mut answered).await.unwrap();
                            if is_complete(&answered[..len], is_in("COMMIT\0")) {
                                return;
                            }
                        }
                    }
                    None => server.write_all(sent).await.unwrap(),
                }
            }
            read = server.read(&mut answered) => {
                let Ok(len @ 1..) = read else { return };
                if client.write_all(&answered[..len]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Whether an answer ends with the message that the server waits for statements. Behind a `COMMIT`,
/// it is outside of a transaction.
fn is_complete(answered: &[u8], is_committed: bool) -> bool {
    let is_idle = answered.ends_with(b"Z\0\0\0\x05I");
    is_idle || !is_committed && answered.ends_with(b"Z\0\0\0\x05T")
}
