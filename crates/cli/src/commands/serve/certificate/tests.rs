use std::error::Error as _;
use std::fs;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;

/// A certificate for a name, and its key, both in PEM.
fn pair(name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([name.to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

/// A directory with these texts in `cert.pem` and `key.pem`.
fn files(chain: &str, key: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("cert.pem"), chain).expect("a file");
    fs::write(dir.path().join("key.pem"), key).expect("a file");
    dir
}

fn load(dir: &TempDir) -> Result<Certificate, CertificateError> {
    let file = |name| dir.path().join(name);
    Certificate::load(&file("cert.pem"), &file("key.pem"))
}

#[track_caller]
fn check(chain: &str, key: &str, expected: &str) {
    let dir = files(chain, key);
    let error = load(&dir).expect_err("it is refused");
    let text = error.to_string();
    let text = text.replace(&format!("{}/", dir.path().display()), "");
    assert_eq!(text, expected);
    // The log must not reveal anything of the key.
    let all = format!("{text}{error:?}{:?}{:?}", error.source(), error.hint());
    let secret = key.lines().nth(1).filter(|line| line.len() > 20);
    assert!(secret.is_none_or(|secret| !all.contains(secret)), "{all}");
}

#[test]
fn certificate_is_loaded_with_its_chain() {
    let ((own, key), (other, _)) = (pair("farm.example"), pair("authority.example"));
    let certificate = load(&files(&format!("{own}{other}"), &key)).expect("good files");
    let current = certificate.current.read().expect("nobody panicked");
    assert_eq!(current.cert.len(), 2);
}

#[test]
fn one_file_may_hold_both() {
    let (own, key) = pair("farm.example");
    let both = format!("{key}{own}");
    load(&files(&both, &both)).expect("good files");
}

#[test]
fn what_is_wrong_with_the_files_is_told() {
    let ((own, key), (_, other_key)) = (pair("farm.example"), pair("barn.example"));
    check("", &key, "cert.pem holds no certificate in PEM");
    check("\x30\x01", &key, "cert.pem holds no certificate in PEM");
    check(&key, &key, "cert.pem holds no certificate in PEM");
    check(&own, &own, "key.pem holds no private key in PEM");
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    check(&own, &encrypted, "key.pem holds no private key in PEM");
    let cut = &key[..key.len() / 2];
    check(&own, cut, "key.pem is damaged: it is not PEM throughout");
    let misspelt = key.replacen("MIG", "M?G", 1);
    check(
        &own,
        &misspelt,
        "key.pem is damaged: it is not PEM throughout",
    );
    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    check(&own, nonsense, "the key in key.pem cannot be used");
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check(nonsense, &key, "the certificate in cert.pem cannot be used");
    let expected = "the key in key.pem does not belong to the certificate in cert.pem";
    check(&own, &other_key, expected);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let (own, _) = pair("farm.example");
    let dir = files(&own, "");
    fs::remove_file(dir.path().join("key.pem")).expect("it was there");
    let error = load(&dir).expect_err("no key").to_string();
    assert!(error.ends_with("key.pem cannot be read"), "{error}");
}

#[test]
fn after_a_failed_reload_the_old_certificate_stays() {
    let ((own, key), (renewed, renewed_key)) = (pair("farm.example"), pair("farm.example"));
    let dir = files(&own, &key);
    let certificate = load(&dir).expect("good files");
    let serving = || {
        let current = certificate.current.read().expect("nobody panicked");
        current.cert[0].clone()
    };
    let old = serving();
    fs::write(dir.path().join("cert.pem"), renewed).expect("a file");
    certificate
        .reload()
        .expect_err("the key is still the old one");
    assert_eq!(serving(), old);
    fs::write(dir.path().join("key.pem"), renewed_key).expect("a file");
    certificate.reload().expect("both are there");
    assert_ne!(serving(), old);
}
