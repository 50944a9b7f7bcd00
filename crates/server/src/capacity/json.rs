//! How much memory JSON takes when it is read.

/// At least as many bytes as the values take that are read from a JSON text, in addition to the text: an element of an array of
/// two bytes becomes one of 32, in a vector that may be half empty, and an object has a table.
pub(crate) fn json_cost(text: &[u8]) -> u64 {
    const STRING: u64 = 32;
    const ELEMENT: u64 = 64;
    const ENTRY: u64 = 112;
    const ARRAY: u64 = 160;
    const OBJECT: u64 = 352;
    let mut cost = text.len() as u64;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        cost += match byte {
            b'"' => {
                skip_string(&mut bytes);
                STRING
            }
            b',' => ELEMENT,
            b':' => ENTRY,
            b'[' => ARRAY,
            b'{' => OBJECT,
            _ => 0,
        };
    }
    cost
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_costs_little_more_than_its_length_and_structure_many_times_as_much() {
        let text = format!(r#"{{"a": "{}"}}"#, "x, [\\\" {: ".repeat(1000));
        assert!(json_cost(text.as_bytes()) < text.len() as u64 + 1000);
        for dense in [r#"{"":0},"#, "[0],", "0,", "[],"] {
            let text = dense.repeat(1000);
            assert!(
                json_cost(text.as_bytes()) > 30 * text.len() as u64,
                "{dense}"
            );
        }
    }
}
