//! The descriptions in docs/apis.md and in examples/ can be copied and served as they stand.

use std::path::Path;

use windlass_discovery::Api;

fn read(path: &str) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(workspace.join(path)).expect("it is readable")
}

#[test]
fn descriptions_of_the_page_about_apis_are_complete() {
    let page = read("docs/apis.md");
    let blocks: Vec<_> = page
        .split("\n```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"))
        .map(|(block, _)| block)
        .collect();
    assert!(blocks.len() >= 6, "{} blocks", blocks.len());
    for block in blocks {
        if let Err(error) = Api::from_toml(block) {
            panic!("{error}:\n{block}");
        }
    }
}

#[test]
fn the_photo_album_fits_on_a_screen() {
    let album = read("examples/album/album.toml");
    assert!(album.lines().count() <= 40);
    let api = Api::from_toml(&album).expect("it is valid");
    assert_eq!(windlass_server::unanswered_methods(&api).count(), 0);
}
