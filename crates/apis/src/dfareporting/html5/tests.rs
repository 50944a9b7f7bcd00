use std::io::Cursor;

use windlass_testkit::zip::{Packed, zip};

use super::*;

const PAGE: &str = r#"<!DOCTYPE html><html><head>
<meta name="ad.size" content="width=300,height=250">
<link rel="stylesheet" href="css/style.css">
<script>var clickTag = "https://shop.example/sale";</script></head>
<body><a href="javascript:window.open(clickTag)"><img src="img/logo.png"></a></body></html>"#;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";

fn bundle(files: &[(&str, &[u8])]) -> Result<Findings, ArchiveError> {
    let files: Vec<_> = files
        .iter()
        .map(|(name, bytes)| Packed::new(name, bytes))
        .collect();
    let mut archive = Archive::open(Cursor::new(zip(&files))).unwrap();
    Findings::of_bundle(&mut archive)
}

fn good(more: &[(&str, &[u8])]) -> Findings {
    let style = b".logo { background: url(../img/logo.png); border-radius: 2px }";
    let files = [
        ("index.html", PAGE.as_bytes()),
        ("css/style.css", style.as_slice()),
        ("img/logo.png", PNG),
    ];
    bundle(&[&files, more].concat()).unwrap()
}

fn rules(findings: &Findings) -> Vec<&'static str> {
    findings.rules.iter().map(|rule| rule.name()).collect()
}

#[test]
fn a_good_bundle_has_a_click_tag_and_breaks_no_rule() {
    let findings = good(&[]);
    assert_eq!(rules(&findings), [""; 0]);
    assert_eq!(findings.size, Some((300, 250)));
    assert!(!findings.rich_media);
    let tag = ClickTag {
        name: "clickTag".to_owned(),
        url: Some("https://shop.example/sale".to_owned()),
    };
    assert_eq!(findings.click_tags, [tag]);
    let features: Vec<_> = findings.features.iter().map(|it| it.name()).collect();
    assert_eq!(features, ["CSS_BORDER_RADIUS", "POST_MESSAGE"]);
}

#[test]
fn unexpected_files_of_bundle_are_reported() {
    let table: [(&str, &[u8], &[&str]); 5] = [
        ("img/unused.png", PNG, &["ORPHANED_ASSET"]),
        ("run.exe", b"MZ", &["ORPHANED_ASSET", "FILE_TYPE_INVALID"]),
        ("js/empty.js", b"", &["ORPHANED_ASSET", "FILE_DETAIL_EMPTY"]),
        (
            "img/fake.gif",
            b"text",
            &["ORPHANED_ASSET", "ASSET_INVALID"],
        ),
        // A script that nothing loads, but which it names all the same.
        ("b.js", b"// b.js", &[]),
    ];
    for (name, bytes, expected) in table {
        assert_eq!(rules(&good(&[(name, bytes)])), expected, "{name}");
    }
}

#[test]
fn bounded_number_of_references_is_followed() {
    let style = |found: usize| {
        let found = "url(a.png)\n".repeat(found);
        format!("{found}url(missing.png)")
    };
    let rules_of = |found| {
        let style = style(found);
        let page = [PAGE, "<link href=\"more.css\">"].concat();
        let files: [(&str, &[u8]); 5] = [
            ("index.html", page.as_bytes()),
            ("css/style.css", b""),
            ("img/logo.png", PNG),
            ("a.png", PNG),
            ("more.css", style.as_bytes()),
        ];
        rules(&bundle(&files).unwrap()).contains(&"LINKED_FILE_NOT_FOUND")
    };
    assert!(rules_of(100));
    assert!(!rules_of(MAX_REFERENCES));
}

#[test]
fn broken_rules_of_page_are_reported() {
    let tag = "<script>var clickTag = 'https://a.example/';</script>";
    let table = [
        ("<p>", &["CLICK_TAG_MISSING"][..]),
        ("TAG", &[]),
        (
            "TAG<script>var clickTag2 = 'https://b.example/'</script>",
            &["CLICK_TAG_MORE_THAN_ONE"],
        ),
        (
            "<script>var clickTag = 'buy'</script>",
            &["CLICK_TAG_INVALID"],
        ),
        (
            "<script>function f() { clickTag = 'https://a.example/' }</script>",
            &["CLICK_TAG_NON_TOP_LEVEL"],
        ),
        (
            "TAG<img src='https://cdn.example/a.png'>",
            &["EXTERNAL_FILE_REFERENCED"],
        ),
        (
            "TAG<img src='http://cdn.example/a.png'>",
            &["EXTERNAL_FILE_REFERENCED", "NOT_SSL_COMPLIANT"],
        ),
        (
            "TAG<link href='https://fonts.googleapis.com/css?family=Roboto'>",
            &[],
        ),
        ("TAG<img src='nowhere.png'>", &["LINKED_FILE_NOT_FOUND"]),
        (
            "TAG<script src='mraid.js'></script>",
            &["MRAID_REFERENCED", "LINKED_FILE_NOT_FOUND"],
        ),
        ("TAG<!-- AdMob -->", &["ADMOB_REFERENCED"]),
        (
            "TAG<script>localStorage.a = 1</script>",
            &["HTML5_FEATURE_UNSUPPORTED"],
        ),
        (
            "TAG<a href='https://a.example/'>",
            &["CLICK_TAG_HARD_CODED"],
        ),
        (
            "TAG<script>window.open('https://a.example/')</script>",
            &["CLICK_TAG_HARD_CODED"],
        ),
    ];
    for (page, expected) in table {
        let page = format!("<html>{}", page.replace("TAG", tag));
        let findings = Findings::of_page(page.as_bytes());
        assert_eq!(rules(&findings), expected, "{page}");
    }
}

#[test]
fn rich_media_has_exits_in_place_of_click_tags() {
    let enabler = "<html><script src='https://s0.2mdn.net/ads/studio/Enabler.js'></script>";
    let findings = Findings::of_page(enabler.as_bytes());
    assert!(findings.rich_media);
    assert_eq!(rules(&findings), [""; 0]);
    let both = format!("{enabler}<script>var clickTag = 'https://a.example/'</script>");
    let findings = Findings::of_page(both.as_bytes());
    assert_eq!(rules(&findings), ["CLICK_TAG_IN_RICH_MEDIA"]);
    assert_eq!(findings.click_tags, []);
}

#[test]
fn the_primary_page_is_the_one_nearest_to_the_root() {
    let table = [
        (&["a/index.html", "b.html"][..], Some(1)),
        (&["b.html", "index.html"], Some(1)),
        (&["z.htm", "b.html"], Some(1)),
        (&["x/y/index.html", "x/z.html"], Some(1)),
        (&["style.css"], None),
    ];
    for (names, expected) in table {
        assert_eq!(primary(names), expected, "{names:?}");
    }
    let findings = bundle(&[("style.css", b"a {}")]).unwrap();
    assert_eq!(rules(&findings), ["PRIMARY_HTML_MISSING"]);
}

#[test]
fn an_archive_in_an_archive_is_refused_whatever_it_is_called() {
    let inner = zip(&[Packed::new("a", b"x")]);
    let error = bundle(&[("index.html", PAGE.as_bytes()), ("logo.png", &inner)]).unwrap_err();
    assert!(
        error.to_string().contains("is a ZIP archive itself"),
        "{error}"
    );
}

#[test]
fn file_is_no_orphan_if_unread_text_may_name_it() {
    let unused = ("unused.png", PNG);
    let long = vec![b' '; usize::try_from(MAX_TEXT).unwrap()];
    assert_eq!(
        rules(&good(&[unused, ("a.css", &long[1..])])),
        ["ORPHANED_ASSET"]
    );
    assert_eq!(rules(&good(&[unused, ("a.css", &long)])), [""; 0]);
    let names: Vec<_> = (0..17).map(|number| format!("{number}.css")).collect();
    let many: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), &long[1..]))
        .collect();
    assert_eq!(rules(&good(&[many, vec![unused]].concat())), [""; 0]);
}

#[test]
fn click_tags_without_end_are_cut_short() {
    let page = format!(
        "<html><script>{}",
        "var clickTag = 'https://a.example/';".repeat(5000)
    );
    assert_eq!(
        Findings::of_page(page.as_bytes()).click_tags.len(),
        MAX_CLICK_TAGS
    );
}
