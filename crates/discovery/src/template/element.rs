//! What templates are made of, and how it lies along the segments of a path.

/// What a template wants at one place of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    /// This segment.
    Literal(String),
    /// Any one segment, not empty.
    One,
    /// One or more segments.
    Many,
}

impl Element {
    /// The rank of the end of a template, below everything else: see [`rank`](Self::rank).
    pub(super) const END_RANK: u8 = 3;

    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::One | Self::Many => None,
        }
    }

    /// Whether this element may hold, or begin with, this segment.
    fn fits(&self, segment: &str) -> bool {
        match self {
            Self::Literal(text) => text == segment,
            Self::One => !segment.is_empty(),
            Self::Many => true,
        }
    }

    /// The narrower, the lower.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Literal(_) => 0,
            Self::One => 1,
            Self::Many => 2,
        }
    }
}

/// Finds the segment at which each element begins.
///
/// An element of many segments takes as few as it can, and one more when the rest does not fit. Only
/// the latest such element needs to be tried again, so the work is at most segments times elements.
pub(super) fn align(elements: &[Element], segments: &[&str]) -> Option<Vec<usize>> {
    let mut starts = Vec::with_capacity(elements.len());
    let mut next = 0;
    let mut latest_many = None;
    loop {
        match (elements.get(starts.len()), segments.get(next)) {
            (None, None) => return Some(starts),
            (Some(element), Some(segment)) if element.fits(segment) => {
                starts.push(next);
                next += 1;
                if *element == Element::Many {
                    latest_many = Some((starts.len(), next));
                }
            }
            _ => {
                let (begun, end) = latest_many?;
                if end == segments.len() {
                    return None;
                }
                starts.truncate(begun);
                next = end + 1;
                latest_many = Some((begun, next));
            }
        }
    }
}
