//! Logarithm and exponential that give the same bits on every machine.
//!
//! The platform's own may differ in the last place, and one request on the other side of a block
//! boundary changes all later requests. These use addition, multiplication and division alone,
//! which IEEE 754 defines to the bit, and no fused operations. They are within a few units in the
//! last place of the true values.

const LN_2: f64 = std::f64::consts::LN_2;
/// ln 2 in two parts: the first has zeroes at its end, so that its product with a small whole
/// number is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// The natural logarithm of a finite number above 0 that is not subnormal.
pub(super) fn ln(value: f64) -> f64 {
    debug_assert!(value.is_normal() && value > 0.0, "no logarithm of {value}");
    let bits = value.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut fraction = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if fraction > std::f64::consts::SQRT_2 {
        fraction /= 2.0;
        exponent += 1;
    }
    // ln f = 2 artanh s, with |s| < 0.172.
    let s = (fraction - 1.0) / (fraction + 1.0);
    let sum = polynomial(&ODD_RECIPROCALS, s * s);
    let exponent = exponent as f64;
    exponent * LN_2_HIGH + (2.0 * s * sum + exponent * LN_2_LOW)
}

/// e to the power of a number; between 10^-300 and 10^300, beyond which it stays.
pub(super) fn exp(value: f64) -> f64 {
    let value = value.clamp(-690.0, 690.0);
    let twos = (value / LN_2 + if value < 0.0 { -0.5 } else { 0.5 }) as i64;
    let count = twos as f64;
    let rest = (value - count * LN_2_HIGH) - count * LN_2_LOW;
    // Taylor's series, with |rest| < 0.35.
    polynomial(&FACTORIAL_RECIPROCALS, rest) * f64::from_bits(((twos + 1023) as u64) << 52)
}

/// 1 / (2n + 1).
const ODD_RECIPROCALS: [f64; 12] = {
    let mut all = [0.0; 12];
    let mut n = 0;
    while n < all.len() {
        all[n] = 1.0 / (2 * n + 1) as f64;
        n += 1;
    }
    all
};

/// 1 / n!.
const FACTORIAL_RECIPROCALS: [f64; 14] = {
    let mut all = [1.0; 14];
    let mut n = 1;
    let mut factorial = 1u64;
    while n < all.len() {
        factorial *= n as u64;
        all[n] = 1.0 / factorial as f64;
        n += 1;
    }
    all
};

/// The polynomial with these coefficients, even and odd powers apart, so that a processor works on
/// both at once.
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let square = x * x;
    let (mut even, mut odd) = (0.0, 0.0);
    for pair in coefficients.chunks_exact(2).rev() {
        even = even * square + pair[0];
        odd = odd * square + pair[1];
    }
    even + x * odd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_close_to_the_platforms() {
        for step in 1..20_000 {
            let value = f64::from(step) * 0.013;
            assert!((ln(value) - value.ln()).abs() <= 4e-16 * value.ln().abs().max(1.0), "{value}");
            let power = f64::from(step - 10_000) * 0.05;
            assert!((exp(power) / power.exp() - 1.0).abs() < 1e-13, "{power}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert!((ln(1e300) - 1e300f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn their_bits_are_pinned() {
        assert_eq!(ln(10.0).to_bits(), 0x4002_6bb1_bbb5_5516);
        assert_eq!(exp(1.0).to_bits(), 0x4005_bf0a_8b14_576a);
    }
}
