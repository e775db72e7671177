//! Axes: which range, which ticks, and where a value lies.

use super::label;

/// The part of a step by which values may pass the last tick: a run of 600 s ends a moment later, which
/// is not worth another step.
const HAIR: f64 = 1e-3;

/// An axis of a figure.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Values that have a line and a label.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis that shows all of `values`; from zero, if asked or if they come near it. A
    /// logarithmic one needs values above zero.
    pub fn new(values: impl Iterator<Item = f64>, log: bool, from_zero: bool) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| !log || *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        if log { Axis::logarithmic(low, high) } else { Axis::linear(low, high, from_zero) }
    }

    /// An axis of `count` places side by side.
    pub fn of_places(count: usize) -> Axis {
        Axis { low: -0.5, high: count as f64 - 0.5, log: false, ticks: Vec::new() }
    }

    fn linear(mut low: f64, mut high: f64, from_zero: bool) -> Axis {
        if low > 0.0 && (from_zero || low < 0.5 * high) {
            low = 0.0;
        }
        if high < 0.0 && from_zero {
            high = 0.0;
        }
        if high - low <= 1e-12 * high.abs().max(low.abs()) {
            let half = if low == 0.0 { 0.5 } else { 0.05 * low.abs() };
            (low, high) = (low - half, high + half);
        }
        let rough = (high - low) / 6.0;
        let power = 10f64.powi(rough.log10().floor() as i32);
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|part| part * power)
            .find(|step| *step >= rough * (1.0 - HAIR))
            .unwrap_or(10.0 * power);
        let first = (low / step + HAIR).floor() as i64;
        let last = (high / step - HAIR).ceil() as i64;
        let ticks: Vec<f64> = (first..=last).map(|number| number as f64 * step).collect();
        Axis { low: first as f64 * step, high: last as f64 * step, log: false, ticks }
    }

    fn logarithmic(low: f64, high: f64) -> Axis {
        let room = (high / low).powf(0.03).max(1.02);
        let (low, high) = (low / room, high * room);
        let decades = (high / low).log10();
        let parts: &[f64] = match decades {
            d if d < 0.8 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            d if d < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = (decades / 8.0).ceil().max(1.0) as i32;
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let powers = powers.filter(|power| power.rem_euclid(every) == 0);
        let ticks = powers.flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
        let mut ticks: Vec<f64> = ticks.filter(|tick| (low..=high).contains(tick)).collect();
        if ticks.len() < 2 {
            // A range so narrow that it is as good as linear.
            let inner = Axis::linear(low, high, false);
            ticks = inner.ticks.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
        }
        Axis { low, high, log: true, ticks }
    }

    /// Where a value lies, 0 to 1 along the axis.
    pub fn place(&self, value: f64) -> f64 {
        match self.log {
            true => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    /// Where bars stand: at zero, or at the low end.
    pub fn base(&self) -> f64 {
        self.place(if self.log { self.low } else { self.low.max(0.0).min(self.high) })
    }

    /// What stands at a tick: few letters, so that large numbers are in millions and so on.
    pub fn tick_label(&self, tick: f64) -> String {
        let span = if self.log { tick.abs() } else { self.high - self.low };
        // What rounding leaves of zero.
        if tick.abs() < 1e-9 * span {
            return "0".to_owned();
        }
        // Of a linear axis all ticks are in the same unit.
        let size = if self.log { tick.abs() } else { self.low.abs().max(self.high.abs()) };
        let units = [(1e15, ""), (1e12, "T"), (1e9, "G"), (1e6, "M")];
        match units.into_iter().find(|(unit, _)| size >= *unit) {
            Some((unit, name)) if !name.is_empty() => label::number(tick / unit) + name,
            _ => label::number(tick),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        for values in
            [[0.07, 0.28], [1.9, 14.3], [0.1325, 0.5945], [1e-9, 3e-9], [5.0, 5.0], [-3.0, 8.0]]
        {
            for log in [false, true] {
                let axis = Axis::new(values.into_iter(), log, false);
                assert!((2..=12).contains(&axis.ticks.len()), "{values:?} {log}: {axis:?}");
                for value in values.into_iter().filter(|value| !log || *value > 0.0) {
                    assert!((-1e-9..=1.0 + 1e-9).contains(&axis.place(value)), "{value} {axis:?}");
                }
            }
        }
        let axis = Axis::new([1.9, 14.3].into_iter(), false, false);
        assert_eq!(axis.ticks, [0.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0]);
        let axis = Axis::new([2.0, 600.05].into_iter(), false, false);
        assert_eq!(axis.ticks, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0]);
        let axis = Axis::new([0.5, 2e6].into_iter(), true, false);
        assert_eq!(axis.ticks, [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
    }

    #[test]
    fn labels_of_large_numbers_are_short() {
        let labels = |values: [f64; 2], log| -> Vec<String> {
            let axis = Axis::new(values.into_iter(), log, false);
            axis.ticks.iter().map(|tick| axis.tick_label(*tick)).collect()
        };
        assert_eq!(labels([0.0, 3e7], false), ["0", "5M", "10M", "15M", "20M", "25M", "30M"]);
        assert_eq!(labels([0.0, 1.2e6], false)[1], "0.2M");
        assert_eq!(labels([1e4, 1e8], true), ["10,000", "100,000", "1M", "10M", "100M"]);
        for values in [[0.0, 4e13], [1e6, 9e9], [-2e9, 3e9]] {
            for label in labels(values, false) {
                assert!(label.chars().count() <= 7, "{label} fits beside the axis");
            }
        }
    }

    #[test]
    fn an_axis_begins_at_zero_and_not_below() {
        assert_eq!(Axis::new([0.0, 0.33].into_iter(), false, true).ticks[0], 0.0);
        assert_eq!(Axis::new([0.07, 0.28].into_iter(), false, false).ticks[0], 0.0);
    }

    #[test]
    fn nothing_at_all_has_an_axis_too() {
        let axis = Axis::new(std::iter::empty(), true, false);
        assert!(axis.place(1.0).is_finite());
    }
}
