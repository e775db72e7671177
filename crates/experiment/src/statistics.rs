//! Means and confidence intervals over seeds.

use serde::{Deserialize, Serialize};

/// A number over the seeds of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean, by Student's t: none for a
    /// single seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
    /// How many seeds.
    pub runs: u32,
}

impl Estimate {
    /// Over these values; at least one.
    pub fn of(values: &[f64]) -> Estimate {
        let runs = values.len();
        assert!(runs > 0, "an estimate is of something");
        let count = runs as f64;
        let mean = values.iter().sum::<f64>() / count;
        let ci95 = (runs > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            student_t(runs - 1) * deviation / count.sqrt()
        });
        Estimate { mean, ci95, runs: runs as u32 }
    }
}

/// The value that Student's t exceeds in size with a chance of 5 %, for degrees of freedom from 1.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
        2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739,
        2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
    ];
    if let Some(value) = TABLE.get(freedom - 1) {
        return *value;
    }
    // Cornish and Fisher's expansion about the normal distribution's value.
    let (z, n) = (1.959_964_f64, freedom as f64);
    z + (z.powi(3) + z) / (4.0 * n)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textbook_interval() {
        let estimate = Estimate::of(&[9.8, 10.2, 10.4, 9.8, 10.0, 10.2, 9.6]);
        // Mean 10, deviation 0.2828, t(6) = 2.447.
        assert!((estimate.mean - 10.0).abs() < 1e-12);
        assert!((estimate.ci95.unwrap() - 0.2616).abs() < 1e-4, "{estimate:?}");
        assert_eq!(Estimate::of(&[3.0]), Estimate { mean: 3.0, ci95: None, runs: 1 });
    }

    #[test]
    fn t_falls_smoothly_to_the_normal_value() {
        for (freedom, value) in [(31, 2.0395), (40, 2.0211), (60, 2.0003), (120, 1.9799)] {
            assert!((student_t(freedom) - value).abs() < 1e-4, "{freedom}");
        }
        assert!((1..1000).all(|freedom| student_t(freedom) > student_t(freedom + 1)));
    }
}
