//! The CRC32C of two pieces of media, from the CRC32C of each piece.

use crate::Crc32c;

/// The Castagnoli polynomial, lowest power first: bit 31 is 1, bit 30 is x, and x^32 is implied.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomials 1 and x.
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// x^(2^k) modulo the polynomial. Lengths have 64 bits, and a byte is eight powers of x.
const POWERS: [u32; 64 + 3] = powers();

/// Combines the CRC32Cs of two consecutive pieces.
///
/// A CRC is the remainder of a polynomial over GF(2). Appending n bytes to a piece multiplies its
/// remainder by x^(8n). With the powers x^(2^k) in a table, this takes one multiplication for each
/// bit set in n.
pub(crate) fn combine(first: Crc32c, next: Crc32c, next_len: u64) -> Crc32c {
    let bits = (0..64).filter(|bit| next_len >> bit & 1 == 1);
    let shifted = bits.fold(first.0, |crc, bit| product(crc, POWERS[bit + 3]));
    Crc32c(shifted ^ next.0)
}

/// Multiplies `a` and `b` modulo the polynomial.
const fn product(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut power = ONE;
    while power != 0 {
        if a & power != 0 {
            product ^= b;
        }
        b = if b & 1 == 0 {
            b >> 1
        } else {
            b >> 1 ^ POLYNOMIAL
        };
        power >>= 1;
    }
    product
}

const fn powers() -> [u32; 64 + 3] {
    let mut powers = [X; 64 + 3];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = product(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
}
