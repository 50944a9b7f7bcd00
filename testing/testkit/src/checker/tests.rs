use super::Load;

#[test]
fn uploads_of_a_client_follow_from_the_seed() {
    let load = Load::default();
    assert_eq!(load.upload(1, 2, 3), load.upload(1, 2, 3));
    assert_ne!(load.upload(1, 2, 3), load.upload(1, 2, 4));
    assert_ne!(load.upload(1, 2, 3), load.upload(2, 2, 3));
}
