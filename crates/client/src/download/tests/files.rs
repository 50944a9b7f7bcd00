//! What happens to files that are there already.

use super::*;

const PRECIOUS: &[u8] = b"precious";

impl Barn {
    fn part_metadata(&self) -> PathBuf {
        with_suffix(&self.target(), ".part.json")
    }
}

/// Servers that give nothing.
fn barren() -> [(Server, usize); 2] {
    [(Fault::Status(404, vec![]), 1), (Fault::Unreachable, 6)]
        .map(|(fault, requests)| (Server::new(media()).failing(vec![fault; 6]), requests))
}

#[tokio::test]
async fn a_part_of_another_url_is_kept_unless_it_may_be_replaced() {
    let barn = Barn::new();
    let server = Server::new(media()).failing([Fault::BreaksAfter(1000)]);
    let other = Download::new("http://farm/animals/18".parse().unwrap(), barn.target());
    let other = other.schedule(no_waits());
    other.run(&server, None, |_| {}).await.unwrap_err();
    let error = barn.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::OtherUrl { .. }), "{error:?}");
    assert_eq!(fs::metadata(barn.part()).unwrap().len(), 1000);
    let download = barn.download().overwrite(true);
    download.run(&server, None, |_| {}).await.unwrap();
    assert_starts(&server, [None, None]);
    barn.assert_complete(&media());
}

#[tokio::test]
async fn a_target_that_exists_is_kept_unless_it_may_be_replaced() {
    let barn = Barn::new();
    fs::write(barn.target(), "old").unwrap();
    let server = Server::new(media());
    let error = barn.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Exists { .. }), "{error:?}");
    assert!(server.log().is_empty());
    barn.assert_complete(b"old");

    let download = barn.download().overwrite(true);
    download.run(&server, None, |_| {}).await.unwrap();
    barn.assert_complete(&media());
}

#[tokio::test]
async fn a_target_that_appears_meanwhile_is_kept() {
    let barn = Barn::new();
    let target = barn.target();
    let server = Server::new(media());
    let meanwhile = |progress: DownloadProgress| {
        if progress.received == LENGTH as u64 {
            fs::write(&target, "new").unwrap();
        }
    };
    let error = barn.download().run(&server, None, meanwhile).await;
    assert!(matches!(error, Err(DownloadError::Exists { .. })));
    assert_eq!(fs::read(barn.target()).unwrap(), b"new");
    assert_eq!(fs::read(barn.part()).unwrap(), media());
}

/// What happens to the bytes that are there.
type Damage = fn(&mut Vec<u8>);

/// Without a sync, a file system may leave zeros after a power cut, or bytes that no note tells of.
#[tokio::test]
async fn bytes_that_are_not_what_had_come_are_not_gone_on_with() {
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
        let barn = Barn::new();
        let server = Server::new(media.clone()).failing([Fault::BreaksAfter(1_200_000)]);
        let download = barn.download().schedule(no_waits());
        download.run(&server, None, |_| {}).await.unwrap_err();
        let mut part = fs::read(barn.part()).unwrap();
        damage(&mut part);
        fs::write(barn.part(), part).unwrap();

        let downloaded = barn.run(&server).await.unwrap();
        assert!(!downloaded.verified, "the server states no digest");
        assert_starts(&server, [None, start]);
        assert!(fs::read(barn.target()).unwrap() == media, "case {n}");
    }
}

/// As a process leaves it that is killed.
#[tokio::test]
async fn a_note_is_written_while_the_media_comes() {
    let barn = Barn::new();
    let part_metadata = barn.part_metadata();
    let server = Server::new(media()).failing([Fault::BreaksAfter(2_200_000)]);
    let kept = std::sync::Mutex::new(None);
    let watch = |progress: DownloadProgress| {
        if progress.received == 2_200_000 {
            kept.lock()
                .unwrap()
                .get_or_insert_with(|| fs::read(&part_metadata).unwrap());
        }
    };
    let download = barn.download().schedule(no_waits());
    download.run(&server, None, watch).await.unwrap_err();
    fs::write(&part_metadata, kept.into_inner().unwrap().unwrap()).unwrap();
    barn.run(&server).await.unwrap();
    let range = server.log()[1].range.clone().expect("it goes on");
    assert_ne!(range, "bytes=2200000-", "what no note tells of comes again");
    barn.assert_complete(&media());
}

#[tokio::test]
async fn two_runs_do_not_write_the_same_file() {
    let barn = Barn::new();
    let other = fs::File::create(barn.part()).unwrap();
    other.lock().unwrap();
    let server = Server::new(media());
    let download = barn.download();
    let error = download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, DownloadError::InUse { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_called_like_the_part_is_not_touched() {
    for (server, _) in barren() {
        let barn = Barn::new();
        fs::write(barn.part(), PRECIOUS).unwrap();
        let error = barn.run(&server).await.unwrap_err();
        assert!(matches!(&error, DownloadError::UnknownOrigin { path } if *path == barn.part()));
        assert_eq!(crate::Error::from(error).kind(), crate::error::Kind::Target);
        assert!(server.log().is_empty());
        assert_eq!(fs::read(barn.part()).unwrap(), PRECIOUS);
        barn.assert_names(&["cow.jpg.part"]);
    }
}

#[tokio::test]
async fn a_file_called_like_the_note_is_not_touched() {
    let barn = Barn::new();
    fs::write(barn.part_metadata(), PRECIOUS).unwrap();
    let error = barn.run(&Server::new(media())).await.unwrap_err();
    assert!(matches!(error, DownloadError::UnknownOrigin { path } if path == barn.part_metadata()));
    assert_eq!(fs::read(barn.part_metadata()).unwrap(), PRECIOUS);
    barn.assert_names(&["cow.jpg.part.json"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_be_replaced_is_replaced_when_media_comes_and_not_before() {
    for (server, requests) in barren() {
        let barn = Barn::new();
        fs::write(barn.part(), PRECIOUS).unwrap();
        fs::write(barn.part_metadata(), PRECIOUS).unwrap();
        let download = barn.download().overwrite(true);
        download.run(&server, None, |_| {}).await.unwrap_err();
        assert_eq!(server.log().len(), requests);
        for file in [barn.part(), barn.part_metadata()] {
            assert_eq!(fs::read(file).unwrap(), PRECIOUS);
        }
        download
            .run(&Server::new(media()), None, |_| {})
            .await
            .unwrap();
        barn.assert_complete(&media());
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_before_outlives_a_server_that_gives_nothing() {
    for tag in ["\"v1\"", "W/\"v1\""] {
        for (barren, _) in barren() {
            let barn = Barn::new();
            let server = Server::new(media())
                .describing(&[("etag", tag)])
                .failing([Fault::BreaksAfter(1000)]);
            let download = barn.download().schedule(no_waits());
            download.run(&server, None, |_| {}).await.unwrap_err();
            barn.run(&barren).await.unwrap_err();
            assert_eq!(fs::read(barn.part()).unwrap(), media()[..1000]);
            barn.assert_names(&["cow.jpg.part", "cow.jpg.part.json"]);
        }
    }
}

#[tokio::test]
async fn an_empty_part_is_used_and_left_if_another_made_it() {
    let barn = Barn::new();
    fs::write(barn.part(), "").unwrap();
    let refuses = Server::new("").failing([Fault::Status(404, vec![])]);
    barn.run(&refuses).await.unwrap_err();
    barn.assert_names(&["cow.jpg.part"]);
    barn.run(&Server::new(media())).await.unwrap();
    barn.assert_complete(&media());
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_not_followed() {
    for (name, overwrite) in [
        ("cow.jpg.part", false),
        ("cow.jpg.part", true),
        ("cow.jpg.part.json", true),
    ] {
        let barn = Barn::new();
        let victim = barn.0.path().join("a-victim");
        fs::write(&victim, PRECIOUS).unwrap();
        let link = barn.0.path().join(name);
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let server = Server::new(media());
        let download = barn.download().overwrite(overwrite);
        let error = download.run(&server, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, DownloadError::NotAFile { path } if path == link));
        assert!(server.log().is_empty());
        assert_eq!(fs::read(&victim).unwrap(), PRECIOUS);
        barn.assert_names(&["a-victim", name]);
    }
}

#[tokio::test]
async fn directories_are_in_the_way() {
    let barn = Barn::new();
    fs::create_dir(barn.part()).unwrap();
    let error = barn.run(&Server::new(media())).await.unwrap_err();
    assert!(matches!(error, DownloadError::NotAFile { .. }), "{error:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_took_the_place_of_the_part_does_not_become_the_media() {
    let barn = Barn::new();
    let part = barn.part();
    let meanwhile = |progress: DownloadProgress| {
        if progress.received == LENGTH as u64 {
            fs::remove_file(&part).unwrap();
            fs::write(&part, PRECIOUS).unwrap();
        }
    };
    let error = barn
        .download()
        .run(&Server::new(media()), None, meanwhile)
        .await;
    assert!(matches!(error, Err(DownloadError::UnknownOrigin { .. })));
    assert_eq!(fs::read(&part).unwrap(), PRECIOUS);
    assert!(!barn.target().exists());
}

/// A file that can be emptied and not written.
#[cfg(target_os = "linux")]
fn unwritable() -> fs::File {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let file = memfd_create("cow", MemfdFlags::ALLOW_SEALING).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    file.into()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn why_writing_failed_first_is_what_is_told() {
    for length in [1000, LENGTH] {
        let barn = Barn::new();
        let download = barn.download();
        let server = Server::new(media()[..length].to_vec());
        let run = Run {
            download: &download,
            transport: &server,
            token: None,
            can_refresh: false,
            partial: Partial::into_file(&barn.target(), &url(), unwritable()),
            progress: &|_| {},
        };
        let error = run.finish().await.unwrap_err();
        let DownloadError::File { source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    }
}
