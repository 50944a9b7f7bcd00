//! CRC32C of two pieces of media behind each other, from those of the pieces.
//!
//! A CRC is the remainder of a polynomial over GF(2): putting n bytes behind a piece multiplies its remainder by x to the
//! power of 8n. With the powers x^(2^k) in a table that is one multiplication for each bit that is set in n.

use super::Crc32c;

/// The polynomial of Castagnoli, lowest power first: bit 31 is 1, bit 30 is x, and x^32 is left out.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomials 1 and x.
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// x^(2^k). Lengths have 64 bits, and a byte is eight powers of x.
const POWERS: [u32; 64 + 3] = powers();

/// The digest of two pieces.
pub(super) fn combine(first: Crc32c, next: Crc32c, next_len: u64) -> Crc32c {
    let bits = (0..64).filter(|bit| next_len >> bit & 1 == 1);
    let shifted = bits.fold(first.0, |crc, bit| product(crc, POWERS[bit + 3]));
    Crc32c(shifted ^ next.0)
}

/// `a` times `b`, modulo the polynomial.
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
