//! Vectors with little slack. Memory per mapped block is a design goal, which the doubling growth
//! of `Vec` would miss.

/// A vector grows to a multiple of this many items. With few sizes, the allocator can reuse the
/// memory of one vector for another.
const STEP: usize = 8;
/// A vector with more unused items than this is shrunk.
const SLACK_MAX: usize = 64;

/// The capacity of a vector of `length` items that has at most `most`.
fn room_for(length: usize, most: usize) -> usize {
    debug_assert!(length <= most, "{length} items where {most} are the most there can be");
    length.next_multiple_of(STEP).min(most.max(length))
}

/// A copy with the capacity that a grown vector would have. It can grow to `most` items.
pub(crate) fn copy_with_room<T: Copy>(items: &[T], most: usize) -> Vec<T> {
    let mut copy = Vec::with_capacity(room_for(items.len(), most));
    copy.extend_from_slice(items);
    copy
}

/// Replaces `vec[from..to]` with `new`. The vector can grow to `most` items.
pub(crate) fn splice<T: Copy>(vec: &mut Vec<T>, from: usize, to: usize, new: &[T], most: usize) {
    let (length, old) = (vec.len(), to - from);
    if new.len() > old {
        let more = new.len() - old;
        if vec.capacity() - length < more {
            vec.reserve_exact(room_for(length + more, most) - length);
        }
        vec.extend_from_slice(&new[..more]); // Only lengthens the vector; overwritten below.
        vec.copy_within(to..length, to + more);
    } else if new.len() < old {
        vec.copy_within(to..length, from + new.len());
        vec.truncate(length - (old - new.len()));
        trim(vec, most);
    }
    vec[from..from + new.len()].copy_from_slice(new);
}

/// Shrinks a vector with much unused capacity, or with a capacity above `most`.
pub(crate) fn trim<T>(vec: &mut Vec<T>, most: usize) {
    if vec.capacity() - vec.len() > SLACK_MAX {
        vec.shrink_to_fit();
    } else if vec.capacity() > most {
        vec.shrink_to(most);
    }
}

/// Sizes of the fewest pieces of at most `most` items (evenly filled) that hold `total`.
pub(crate) fn even_pieces(total: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = total.div_ceil(most).max(1);
    (0..count).map(move |i| total * (i + 1) / count - total * i / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splicing_equals_that_of_vec_and_leaves_little_slack() {
        for from in 0..5 {
            for to in from..6 {
                for count in 0..4 {
                    let (mut a, new) = (vec![1, 2, 3, 4, 5, 6], vec![9; count]);
                    let mut b = a.clone();
                    splice(&mut a, from, to, &new, usize::MAX);
                    b.splice(from..to, new);
                    assert_eq!(a, b);
                    assert!(a.capacity() - a.len() <= 6.max(STEP));
                    a.shrink_to_fit();
                    let end = a.len();
                    let (mut c, most) = (a.clone(), end + 1 + from % 4);
                    splice(&mut a, end, end, &[1], usize::MAX);
                    assert_eq!(a.capacity(), (end + 1).next_multiple_of(STEP));
                    let copy = copy_with_room(&a, usize::MAX);
                    assert_eq!((&copy, copy.capacity()), (&a, a.capacity()));
                    splice(&mut c, end, end, &[1], most);
                    assert_eq!((&c, c.capacity()), (&a, a.capacity().min(most)));
                    let copy = copy_with_room(&c, most);
                    assert_eq!((&copy, copy.capacity()), (&c, c.capacity()));
                }
            }
        }
    }

    #[test]
    fn pieces_are_even_and_add_up() {
        for total in 1..300 {
            let pieces: Vec<_> = even_pieces(total, 32).collect();
            assert_eq!(pieces.iter().sum::<usize>(), total);
            assert!(pieces.iter().all(|p| *p <= 32 && *p + 1 >= pieces[0]));
        }
    }
}
