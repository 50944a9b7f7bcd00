//! Downloads in directories that already contain files.

use super::*;

const PRECIOUS: &[u8] = b"precious";

impl DownloadDir {
    fn sidecar(&self) -> PathBuf {
        with_suffix(&self.target(), ".part.json")
    }
}

/// Returns servers that send no media, and the number of requests that a download sends to each.
fn servers_without_media() -> [(Server, usize); 2] {
    [(Fault::Status(404, vec![]), 1), (Fault::Unreachable, 6)]
        .map(|(fault, requests)| (Server::new(media()).failing(vec![fault; 6]), requests))
}

#[tokio::test]
async fn part_of_another_url_is_kept_without_overwrite() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing([Fault::BreaksAfter(1000)]);
    let other = Download::new("http://farm/animals/18".parse().unwrap(), dir.target());
    let other = other.schedule(no_waits());
    other.run(&server, None, |_| {}).await.unwrap_err();
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::OtherUrl { .. }), "{error:?}");
    assert_eq!(fs::metadata(dir.part()).unwrap().len(), 1000);
    let download = dir.download().overwrite(true);
    download.run(&server, None, |_| {}).await.unwrap();
    assert_starts(&server, [None, None]);
    dir.assert_complete(&media());
}

#[tokio::test]
async fn existing_target_is_kept_without_overwrite() {
    let dir = DownloadDir::new();
    fs::write(dir.target(), "old").unwrap();
    let server = Server::new(media());
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Exists { .. }), "{error:?}");
    assert!(server.log().is_empty());
    dir.assert_complete(b"old");

    let download = dir.download().overwrite(true);
    download.run(&server, None, |_| {}).await.unwrap();
    dir.assert_complete(&media());
}

#[tokio::test]
async fn target_created_during_the_download_is_kept() {
    let dir = DownloadDir::new();
    let target = dir.target();
    let server = Server::new(media());
    let meanwhile = |progress: DownloadProgress| {
        if progress.received == LENGTH as u64 {
            fs::write(&target, "new").unwrap();
        }
    };
    let error = dir.download().run(&server, None, meanwhile).await;
    assert!(matches!(error, Err(DownloadError::Exists { .. })));
    assert_eq!(fs::read(dir.target()).unwrap(), b"new");
    assert_eq!(fs::read(dir.part()).unwrap(), media());
}

/// A modification of the stored bytes.
type Damage = fn(&mut Vec<u8>);

/// Without a sync, a file system may leave zeros after a power failure, or bytes that the sidecar
/// does not cover.
#[tokio::test]
async fn part_with_changed_bytes_restarts() {
    let media = media();
    let zeros = |part: &mut Vec<u8>| part[1_000_000..].fill(0);
    let one_bit = |part: &mut Vec<u8>| part[0] ^= 1;
    let shorter = |part: &mut Vec<u8>| part.truncate(1_000_000);
    let longer = |part: &mut Vec<u8>| part.extend([0; 1000]);
    let table: [(Damage, Option<usize>); 4] = [
        (zeros, None),
        (one_bit, None),
        (shorter, None),
        (longer, Some(1_200_000)),
    ];
    for (n, (damage, start)) in table.into_iter().enumerate() {
        let dir = DownloadDir::new();
        let server = Server::new(media.clone()).failing([Fault::BreaksAfter(1_200_000)]);
        let download = dir.download().schedule(no_waits());
        download.run(&server, None, |_| {}).await.unwrap_err();
        let mut part = fs::read(dir.part()).unwrap();
        damage(&mut part);
        fs::write(dir.part(), part).unwrap();

        let downloaded = dir.run(&server).await.unwrap();
        assert!(!downloaded.verified, "the server states no digest");
        assert_starts(&server, [None, start]);
        assert!(fs::read(dir.target()).unwrap() == media, "case {n}");
    }
}

/// Simulates a killed process: after the download has broken, the sidecar is replaced by the
/// version that was on disk before the break. It covers fewer bytes than the part has.
#[tokio::test]
async fn sidecar_is_written_during_the_download() {
    let dir = DownloadDir::new();
    let sidecar = dir.sidecar();
    let server = Server::new(media()).failing([Fault::BreaksAfter(2_200_000)]);
    let kept = std::sync::Mutex::new(None);
    let watch = |progress: DownloadProgress| {
        if progress.received == 2_200_000 {
            kept.lock()
                .unwrap()
                .get_or_insert_with(|| fs::read(&sidecar).unwrap());
        }
    };
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, watch).await.unwrap_err();
    fs::write(&sidecar, kept.into_inner().unwrap().unwrap()).unwrap();
    dir.run(&server).await.unwrap();
    let range = server.log()[1]
        .range
        .clone()
        .expect("the download continues");
    assert_ne!(
        range, "bytes=2200000-",
        "bytes that the sidecar does not cover are requested again"
    );
    dir.assert_complete(&media());
}

/// After a power failure, a sidecar that was replaced without a sync may be empty. The part would
/// then be taken for a file of another program.
#[cfg(unix)]
#[tokio::test]
async fn sidecar_is_overwritten_and_not_replaced_during_the_download() {
    use std::os::unix::fs::MetadataExt as _;

    let dir = DownloadDir::new();
    let sidecar = dir.sidecar();
    let server = Server::new(media()).failing([Fault::BreaksAfter(2_200_000)]);
    let created = std::sync::Mutex::new(None);
    let watch = |_: DownloadProgress| {
        let content = fs::read(&sidecar).unwrap();
        // Kept open, so that no other file gets its inode.
        let opened = fs::File::open(&sidecar).unwrap();
        let mut created = created.lock().unwrap();
        created.get_or_insert((opened, content));
    };
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, watch).await.unwrap_err();
    let (opened, content) = created.into_inner().unwrap().unwrap();
    let inode = |stat: fs::Metadata| (stat.dev(), stat.ino());
    let before = inode(opened.metadata().unwrap());
    assert_eq!(inode(fs::metadata(&sidecar).unwrap()), before);
    assert_ne!(fs::read(&sidecar).unwrap(), content);
    dir.run(&server).await.unwrap();
    assert_starts(&server, [None, Some(2_200_000)]);
    dir.assert_complete(&media());
}

#[tokio::test]
async fn sidecar_that_was_removed_during_the_download_is_written_again() {
    let dir = DownloadDir::new();
    let sidecar = dir.sidecar();
    let server = Server::new(media()).failing([Fault::BreaksAfter(2_200_000)]);
    let watch = |progress: DownloadProgress| {
        if progress.received == 2_200_000 {
            fs::remove_file(&sidecar).ok();
        }
    };
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, watch).await.unwrap_err();
    dir.run(&server).await.unwrap();
    assert_starts(&server, [None, Some(2_200_000)]);
}

#[tokio::test]
async fn part_with_bytes_and_an_empty_sidecar_is_not_touched() {
    let dir = DownloadDir::new();
    fs::write(dir.part(), PRECIOUS).unwrap();
    fs::write(dir.sidecar(), "").unwrap();
    let error = dir.run(&Server::new(media())).await.unwrap_err();
    assert!(matches!(&error, DownloadError::UnrelatedFile { path } if *path == dir.part()));
    assert_eq!(fs::read(dir.part()).unwrap(), PRECIOUS);
}

#[tokio::test]
async fn second_run_on_the_same_part_is_refused() {
    let dir = DownloadDir::new();
    let other = fs::File::create(dir.part()).unwrap();
    other.lock().unwrap();
    let server = Server::new(media());
    let download = dir.download();
    let error = download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, DownloadError::InUse { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn foreign_file_named_like_the_part_is_not_touched() {
    for (server, _) in servers_without_media() {
        let dir = DownloadDir::new();
        fs::write(dir.part(), PRECIOUS).unwrap();
        let error = dir.run(&server).await.unwrap_err();
        assert!(matches!(&error, DownloadError::UnrelatedFile { path } if *path == dir.part()));
        assert_eq!(crate::Error::from(error).kind(), crate::error::Kind::Target);
        assert!(server.log().is_empty());
        assert_eq!(fs::read(dir.part()).unwrap(), PRECIOUS);
        dir.assert_names(&["cow.jpg.part"]);
    }
}

#[tokio::test]
async fn foreign_file_named_like_the_sidecar_is_not_touched() {
    let dir = DownloadDir::new();
    fs::write(dir.sidecar(), PRECIOUS).unwrap();
    let error = dir.run(&Server::new(media())).await.unwrap_err();
    assert!(matches!(error, DownloadError::UnrelatedFile { path } if path == dir.sidecar()));
    assert_eq!(fs::read(dir.sidecar()).unwrap(), PRECIOUS);
    dir.assert_names(&["cow.jpg.part.json"]);
}

#[tokio::test(start_paused = true)]
async fn files_are_replaced_only_when_media_arrives() {
    for (server, requests) in servers_without_media() {
        let dir = DownloadDir::new();
        fs::write(dir.part(), PRECIOUS).unwrap();
        fs::write(dir.sidecar(), PRECIOUS).unwrap();
        let download = dir.download().overwrite(true);
        download.run(&server, None, |_| {}).await.unwrap_err();
        assert_eq!(server.log().len(), requests);
        for file in [dir.part(), dir.sidecar()] {
            assert_eq!(fs::read(file).unwrap(), PRECIOUS);
        }
        download
            .run(&Server::new(media()), None, |_| {})
            .await
            .unwrap();
        dir.assert_complete(&media());
    }
}

#[tokio::test(start_paused = true)]
async fn received_bytes_survive_a_server_without_media() {
    for tag in ["\"v1\"", "W/\"v1\""] {
        for (server_without_media, _) in servers_without_media() {
            let dir = DownloadDir::new();
            let server = Server::new(media())
                .describing(&[("etag", tag)])
                .failing([Fault::BreaksAfter(1000)]);
            let download = dir.download().schedule(no_waits());
            download.run(&server, None, |_| {}).await.unwrap_err();
            dir.run(&server_without_media).await.unwrap_err();
            assert_eq!(fs::read(dir.part()).unwrap(), media()[..1000]);
            dir.assert_names(&["cow.jpg.part", "cow.jpg.part.json"]);
        }
    }
}

#[tokio::test]
async fn empty_foreign_part_is_used_and_left() {
    let dir = DownloadDir::new();
    fs::write(dir.part(), "").unwrap();
    let refuses = Server::new("").failing([Fault::Status(404, vec![])]);
    dir.run(&refuses).await.unwrap_err();
    dir.assert_names(&["cow.jpg.part"]);
    dir.run(&Server::new(media())).await.unwrap();
    dir.assert_complete(&media());
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_not_followed() {
    for (name, overwrite) in [
        ("cow.jpg.part", false),
        ("cow.jpg.part", true),
        ("cow.jpg.part.json", true),
    ] {
        let dir = DownloadDir::new();
        let victim = dir.0.path().join("a-victim");
        fs::write(&victim, PRECIOUS).unwrap();
        let link = dir.0.path().join(name);
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let server = Server::new(media());
        let download = dir.download().overwrite(overwrite);
        let error = download.run(&server, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, DownloadError::NotAFile { path } if path == link));
        assert!(server.log().is_empty());
        assert_eq!(fs::read(&victim).unwrap(), PRECIOUS);
        dir.assert_names(&["a-victim", name]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn files_of_others_and_with_other_names_are_not_used() {
    let plant: [fn(&Path, &Path); 2] = [
        |path, _| std::os::unix::fs::chown(path, Some(65_534), None).unwrap(),
        |path, other_name| fs::hard_link(path, other_name).unwrap(),
    ];
    // Only root can give a file away.
    let can_give = rustix::process::geteuid().is_root();
    for name in ["cow.jpg.part", "cow.jpg.part.json"] {
        for plant in &plant[usize::from(!can_give)..] {
            let dir = DownloadDir::new();
            let elsewhere = tempfile::tempdir_in(dir.0.path().parent().unwrap()).unwrap();
            let planted = dir.0.path().join(name);
            fs::write(&planted, "").unwrap();
            plant(&planted, &elsewhere.path().join("other"));
            let server = Server::new(media());
            let download = dir.download().overwrite(true);
            let error = download.run(&server, None, |_| {}).await.unwrap_err();
            assert!(matches!(error, DownloadError::NotOwn { path, .. } if path == planted));
            assert!(server.log().is_empty());
            assert_eq!(fs::read(&planted).unwrap(), b"");
            dir.assert_names(&[name]);
        }
    }
}

#[tokio::test]
async fn special_file_is_not_replaced_by_the_media() {
    let dir = DownloadDir::new();
    let target = dir.0.path().join("cow.jpg");
    let _socket = std::os::unix::net::UnixListener::bind(&target).unwrap();
    let server = Server::new(media());
    let download = dir.download().overwrite(true);
    let error = download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, DownloadError::NotAFile { path } if path == target));
    assert!(server.log().is_empty());
    assert!(!target.symlink_metadata().unwrap().is_file());
    dir.assert_names(&["cow.jpg"]);
}

#[tokio::test]
async fn directory_in_place_of_a_file_is_refused() {
    let dir = DownloadDir::new();
    fs::create_dir(dir.part()).unwrap();
    let error = dir.run(&Server::new(media())).await.unwrap_err();
    assert!(matches!(error, DownloadError::NotAFile { .. }), "{error:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn file_that_replaced_the_part_is_not_published() {
    let dir = DownloadDir::new();
    let part = dir.part();
    let meanwhile = |progress: DownloadProgress| {
        if progress.received == LENGTH as u64 {
            fs::remove_file(&part).unwrap();
            fs::write(&part, PRECIOUS).unwrap();
        }
    };
    let error = dir
        .download()
        .run(&Server::new(media()), None, meanwhile)
        .await;
    assert!(matches!(error, Err(DownloadError::PartReplaced { .. })));
    assert_eq!(fs::read(&part).unwrap(), PRECIOUS);
    assert!(!dir.target().exists());
}

/// Opens a file that can be truncated but not written.
#[cfg(target_os = "linux")]
fn unwritable() -> fs::File {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let file = memfd_create("cow", MemfdFlags::ALLOW_SEALING).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    file.into()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn first_write_error_is_reported() {
    for length in [1000, LENGTH] {
        let dir = DownloadDir::new();
        let download = dir.download();
        let server = Server::new(media()[..length].to_vec());
        let run = Run {
            download: &download,
            transport: &server,
            token: None,
            can_refresh: false,
            partial: Partial::into_file(&dir.target(), &url(), unwritable()),
            continues: false,
            is_known_host: false,
            waited: Duration::ZERO,
            progress: &|_| {},
        };
        let error = run.execute().await.unwrap_err();
        let DownloadError::File { source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    }
}
