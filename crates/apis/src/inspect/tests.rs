use std::io::Cursor;

use windlass_testkit::images::{
    PNG_SIGNATURE, gif, jpeg_frame, jpeg_segment, jpeg_with, png, png_chunk, png_header, png_with,
};

use super::*;

fn read(bytes: &[u8]) -> Result<ImageHeader, ImageHeaderError> {
    ImageHeader::read(&mut Cursor::new(bytes))
}

#[test]
fn format_and_size_are_those_of_the_header() {
    let exif = jpeg_segment(0xe1, &vec![0; 65_000]);
    let table = [
        (png(512, 256), Format::Png, 512, 256),
        (png(10_000, 10_000), Format::Png, 10_000, 10_000),
        (
            jpeg_with(&[], &jpeg_frame(0xc0, 640, 480)),
            Format::Jpeg,
            640,
            480,
        ),
        // Progressive.
        (
            jpeg_with(&[], &jpeg_frame(0xc2, 640, 480)),
            Format::Jpeg,
            640,
            480,
        ),
        // A huffman table is no frame, and metadata may be long.
        (
            jpeg_with(
                &[jpeg_segment(0xc4, &[0; 30]), exif.clone(), exif],
                &jpeg_frame(0xc1, 7, 9),
            ),
            Format::Jpeg,
            7,
            9,
        ),
        // Fill bytes before a marker.
        (
            jpeg_with(&[vec![0xff, 0xff]], &jpeg_frame(0xc0, 640, 480)),
            Format::Jpeg,
            640,
            480,
        ),
        (gif(300, 250), Format::Gif, 300, 250),
    ];
    for (bytes, format, width, height) in table {
        let expected = ImageHeader {
            format,
            width,
            height,
        };
        assert_eq!(read(&bytes).unwrap(), expected);
    }
}

#[test]
fn images_that_break_a_rule_of_their_format_are_refused() {
    let mut crc = png(1, 1);
    crc[30] ^= 1;
    let mut first = png(1, 1);
    first[12] = b'J';
    let no_data = [
        PNG_SIGNATURE.to_vec(),
        png_chunk(b"IHDR", &png_header(1, 1, [8, 6, 0, 0, 0])),
        png_chunk(b"IEND", &[]),
    ]
    .concat();
    let no_end: Vec<u8> = jpeg_with(&[], &jpeg_frame(0xc0, 1, 1));
    let table = [
        (crc, "checksum"),
        (first, "first chunk"),
        (no_data, "no data"),
        (png_with(&png_header(1, 1, [3, 6, 0, 0, 0])), "coding"),
        (png_with(&png_header(1, 1, [8, 5, 0, 0, 0])), "coding"),
        (png_with(&png_header(1, 1, [8, 6, 1, 0, 0])), "coding"),
        (png_with(&png_header(1, 1, [8, 6, 0, 0, 2])), "coding"),
        (png(0, 1), "no pixels"),
        (png(1, 0), "no pixels"),
        (jpeg_with(&[], &jpeg_frame(0xc0, 0, 1)), "no pixels"),
        (gif(0, 1), "no pixels"),
        (jpeg_with(&[], &[]), "no frame"),
        (
            jpeg_with(&[jpeg_frame(0xc0, 1, 1)], &jpeg_frame(0xc0, 9, 9)),
            "two frame",
        ),
        (jpeg_with(&[vec![0xff, 0xe0, 0, 1]], &[]), "too short"),
        (
            jpeg_with(&[jpeg_segment(0xe0, &[]), vec![7]], &[]),
            "marker is missing",
        ),
        (no_end[..no_end.len() - 20].to_vec(), "cut off"),
        (PNG_SIGNATURE.to_vec(), "cut off"),
        (gif(1, 1)[..9].to_vec(), "cut off"),
        (b"RIFF\x10\0\0\0WEBPVP8 ".to_vec(), "not a PNG"),
        (b"<svg xmlns='x'/>".to_vec(), "not a PNG"),
        (Vec::new(), "not a PNG"),
    ];
    for (bytes, expected) in table {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

#[test]
fn an_image_cut_off_anywhere_is_refused() {
    for whole in [png(3, 4), jpeg_with(&[], &jpeg_frame(0xc0, 3, 4))] {
        let scan = whole.len() - 14;
        for length in 0..scan {
            read(&whole[..length]).unwrap_err();
        }
    }
}

#[test]
fn an_image_of_too_many_pixels_is_refused_by_its_header() {
    let table = [
        png(10_001, 10_000),
        png(u32::MAX, u32::MAX),
        jpeg_with(&[], &jpeg_frame(0xc0, 65_535, 65_535)),
        gif(65_535, 65_535),
    ];
    for bytes in table {
        let error = read(&bytes).unwrap_err();
        assert!(
            matches!(error, ImageHeaderError::TooManyPixels { .. }),
            "{error}"
        );
    }
}

#[test]
fn endless_chunks_and_segments_are_not_followed() {
    let head = png(1, 1)[..33].to_vec();
    let endless = [head, png_chunk(b"tEXt", &[]).repeat(100_000)].concat();
    let error = read(&endless).unwrap_err().to_string();
    assert!(error.contains("too many chunks"), "{error}");
    let endless = [vec![0xff, 0xd8], jpeg_segment(0xe0, &[]).repeat(10_000)].concat();
    let error = read(&endless).unwrap_err().to_string();
    assert!(error.contains("too many segments"), "{error}");
    let endless = [vec![0xff, 0xd8], vec![0xff; 100_000]].concat();
    let error = read(&endless).unwrap_err().to_string();
    assert!(error.contains("fill bytes"), "{error}");
}
