use super::*;

#[test]
fn a_head_that_is_too_long_is_refused() {
    let mut head = b"GET / HTTP/1.1\r\nX: ".to_vec();
    head.resize(60_000, b'y');
    assert_eq!(Head::parse(&head).unwrap(), None);
    head.resize(70_000, b'y');
    assert!(Head::parse(&head).is_err());
}
