//! The server's process: the real store, the real server.

use std::cell::{Cell, RefCell};
use std::error::Error as _;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use windlass_server::config::Checkpoints;
use windlass_server::{Listener, Registry, Server, Settings, Stores};
use windlass_store_local::{LocalStore, OpenError, Options};
use windlass_testkit::rng::Rng;

use crate::oracle::LIFETIME;
use crate::os::trace::note;
use crate::wire::SimListener;

/// Where its data lies and how it is set up. It survives the process.
#[derive(Debug, Clone)]
pub(crate) struct Place(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: RefCell<PathBuf>,
    checkpoints: Checkpoints,
    has_refused: Cell<bool>,
}

impl Place {
    pub(crate) fn new(directory: PathBuf, rng: &mut Rng) -> Self {
        let mut checkpoints = Checkpoints::default();
        checkpoints.bytes = rng.pick(&[16, 64, 256, 1024]) * 1024;
        checkpoints.interval = Duration::from_millis(rng.pick(&[5, 50, 1000]));
        Self(Rc::new(Inner {
            directory: RefCell::new(directory),
            checkpoints,
            has_refused: Cell::new(false),
        }))
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.0.directory.borrow().clone()
    }

    pub(crate) fn move_to(&self, directory: PathBuf) {
        self.0.directory.replace(directory);
    }

    /// Whether the store could not be opened since the last time that this was asked.
    pub(crate) fn has_refused(&self) -> bool {
        self.0.has_refused.take()
    }

    /// The life of the process.
    pub(crate) async fn run(self) -> turmoil::Result {
        let store = match open(&self.directory()) {
            Ok(store) => store,
            Err(error) => {
                // Its path is not the same each time.
                note!(
                    "server   does not start: {:?}",
                    error.source().map(ToString::to_string)
                );
                self.0.has_refused.set(true);
                return Ok(());
            }
        };
        let stores = Stores {
            ledger: Arc::new(store.ledger),
            vault: Arc::new(store.vault),
        };
        let farm = windlass_apis::by_name("farm", &windlass_apis::Options::default());
        let registry = Registry::new(farm.expect("it comes with Windlass"))?;
        let server = Server::builder(registry, stores)
            .settings(self.settings())
            .build()?;
        note!("server   starts");
        let ended = server
            .run(Listener::plain(SimListener::open().await?), pending())
            .await;
        note!("server   ends: {ended:?}");
        Ok(())
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.session_lifetime = LIFETIME;
        settings.checkpoints = self.0.checkpoints.clone();
        settings.limits.drain = Duration::from_secs(2);
        // The only name that the simulated network has for it.
        settings.hosts = vec!["server".parse().expect("it is the name of a host")];
        settings
    }
}

/// Opens the store. The real file system below lies in memory, which does not matter here.
pub(crate) fn open(directory: &Path) -> Result<LocalStore, OpenError> {
    let options = Options::default().allow_unsafe_filesystem(true);
    LocalStore::open(directory, options)
}
