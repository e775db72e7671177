//! From a score for each segment to a choice within the budget.

use mjolnir_units::ZoneId;

use crate::victim::{SegmentView, VictimView};

/// Chooses the candidates with the highest scores, as many as the view's budget allows, best
/// first. Equal scores go to the segment sealed first. A score that is not a number is the worst.
///
/// A candidate that no longer fits the budget of live blocks is passed over for the next that
/// does, so a dead segment is never left behind for want of memory. The choice is empty if moving
/// it would win nothing ([`VictimView::wins`]).
pub fn best_within_budget(
    view: &VictimView<'_>,
    mut score: impl FnMut(&SegmentView) -> f64,
) -> Vec<ZoneId> {
    let mut ranked: Vec<(f64, &SegmentView)> = view
        .candidates()
        .map(|segment| {
            let score = score(segment);
            (if score.is_nan() { f64::NEG_INFINITY } else { score }, segment)
        })
        .collect();
    ranked.sort_unstable_by(|(a_score, a), (b_score, b)| {
        let older = (a.sealed_sequence, a.zone).cmp(&(b.sealed_sequence, b.zone));
        b_score.total_cmp(a_score).then(older)
    });

    let mut chosen = Vec::new();
    let mut live_blocks_left = view.live_blocks_max;
    for (_, segment) in ranked {
        if chosen.len() == view.segments_max {
            break;
        }
        if segment.live_blocks <= live_blocks_left {
            live_blocks_left -= segment.live_blocks;
            chosen.push(segment);
        }
    }
    if !view.wins(&chosen) {
        return Vec::new();
    }
    chosen.iter().map(|segment| segment.zone).collect()
}
