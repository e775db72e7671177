//! From a score for each segment, or an order of them, to a choice within the budget.

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
    let better = |(a_score, a): &(f64, &SegmentView), (b_score, b): &(f64, &SegmentView)| {
        let older = (a.sealed_sequence, a.zone).cmp(&(b.sealed_sequence, b.zone));
        b_score.total_cmp(a_score).then(older)
    };
    // Where only their number is limited, those beyond it need no order.
    if view.live_blocks_max == u64::MAX && (1..ranked.len()).contains(&view.segments_max) {
        ranked.select_nth_unstable_by(view.segments_max - 1, better);
        ranked.truncate(view.segments_max);
    }
    ranked.sort_unstable_by(better);
    first_within_budget(view, ranked.into_iter().map(|(_, segment)| segment))
}

/// Chooses the first of `order` that the view's budget allows, in that order. `order` names
/// candidates of the view, none twice; it is asked for no more of them than the budget can take.
///
/// A candidate that no longer fits the budget of live blocks is passed over, and the choice is
/// empty if moving it would win nothing, as in [`best_within_budget`].
pub fn first_within_budget<'a>(
    view: &VictimView<'_>,
    order: impl IntoIterator<Item = &'a SegmentView>,
) -> Vec<ZoneId> {
    let mut order = order.into_iter();
    let mut chosen = Vec::new();
    let mut live_blocks_left = view.live_blocks_max;
    while chosen.len() < view.segments_max
        && let Some(segment) = order.next()
    {
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
