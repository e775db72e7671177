//! Parameters by name: what is written is what is made, in the shortest words, and what cannot be is
//! refused with what can.

use std::collections::BTreeMap;

use mjolnir_policy::placement::{BlockView, Previous, Source, Stream};
use mjolnir_policy::read_plan::{ReadPlanView, Span};
use mjolnir_policy::{
    Number, Parameter, PolicyError, listed, pacing, placement, read_plan, shortest, text_or_table,
    victim, word,
};
use mjolnir_units::{Lba, TreeId};
use proptest::prelude::*;

/// All policies of all kinds, with their parameters.
fn all() -> Vec<(&'static str, &'static [Parameter])> {
    let (placements, victims) = (placement::list(), victim::list());
    placements.chain(victims).chain(pacing::list()).chain(read_plan::list()).collect()
}

/// Whether a text makes a policy of whatever kind.
fn makes(text: &str) -> bool {
    placement::by_name(text).is_ok()
        || victim::by_name(text).is_ok()
        || pacing::by_name(text).is_ok()
        || read_plan::by_name(text).is_ok()
}

fn why<P>(found: Result<P, PolicyError>) -> String {
    found.err().expect("it is refused").to_string()
}

/// A value in a parameter's range, its ends and its default among them.
fn value(parameter: &Parameter) -> BoxedStrategy<Number> {
    let Parameter { least, most, default, .. } = *parameter;
    let known = proptest::sample::select(
        [Some(least), Some(most), default].into_iter().flatten().collect::<Vec<_>>(),
    );
    match (least, most) {
        (Number::Whole(least), Number::Whole(most)) => {
            prop_oneof![known, (least..=most).prop_map(Number::Whole)].boxed()
        }
        (Number::Real(least), Number::Real(most)) => {
            prop_oneof![known, (least..=most).prop_map(Number::Real)].boxed()
        }
        mixed => panic!("a range of one sort: {mixed:?}"),
    }
}

/// A policy, and values of some of its parameters in any order.
fn said() -> impl Strategy<Value = (&'static str, Vec<(Parameter, Number)>)> {
    proptest::sample::select(all()).prop_flat_map(|(name, parameters)| {
        let values: Vec<_> = parameters
            .iter()
            .map(|parameter| {
                let value = proptest::option::of(value(parameter));
                value.prop_map(|value| value.map(|value| (*parameter, value)))
            })
            .collect();
        let values = values.prop_map(|values| values.into_iter().flatten().collect::<Vec<_>>());
        (Just(name), values.prop_shuffle())
    })
}

fn text_of(name: &str, values: &[(Parameter, Number)]) -> String {
    let pairs: Vec<_> =
        values.iter().map(|(parameter, value)| format!("{}={value}", parameter.name)).collect();
    if pairs.is_empty() { name.to_owned() } else { format!("{name}:{}", pairs.join(",")) }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_what_was_said((name, values) in said()) {
        let text = text_of(name, &values);
        prop_assert!(makes(&text), "{}", text);
        let short = shortest(&text).unwrap();
        prop_assert_eq!(shortest(&short), Some(short.clone()), "it is the shortest itself");
        // It says just what differs from the defaults.
        let differ: BTreeMap<_, _> = values
            .iter()
            .filter(|(parameter, value)| Some(*value) != parameter.default)
            .map(|(parameter, value)| (parameter.name.to_owned(), value.to_string()))
            .collect();
        let mut parts = short.split([':', ',']);
        prop_assert_eq!(parts.next(), Some(name));
        let told: BTreeMap<_, _> = parts
            .map(|part| part.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        prop_assert_eq!(told, differ);
        // A table says the same.
        let mut table = toml::Table::new();
        table.insert("name".into(), name.into());
        for (parameter, value) in &values {
            let value = match *value {
                Number::Whole(number) => match i64::try_from(number) {
                    Ok(number) => number.into(),
                    Err(_) => number.to_string().into(),
                },
                Number::Real(number) => number.into(),
            };
            table.insert(parameter.name.into(), value);
        }
        prop_assert_eq!(text_or_table(toml::Value::Table(table)).unwrap(), short);
    }

    #[test]
    fn no_text_is_too_odd(text in ".*", name in "[a-z-]{1,9}", rest in "[a-z0-9:=,. -]{0,20}") {
        for text in [text, format!("{name}:{rest}"), format!("dac:{rest}")] {
            prop_assert_eq!(makes(&text), shortest(&text).is_some(), "{:?}", text);
        }
    }
}

#[test]
fn every_parameter_has_its_default_within_its_range_and_says_what_it_is() {
    for (name, parameters) in all() {
        for parameter in parameters {
            assert!(!parameter.about.is_empty() && parameter.least < parameter.most, "{name}");
            if let Some(default) = parameter.default {
                assert!(parameter.least <= default && default <= parameter.most, "{name}");
                let text = format!("{name}:{}={default}", parameter.name);
                assert_eq!(shortest(&text).as_deref(), Some(name));
            }
        }
    }
    let mut names: Vec<_> = all().into_iter().map(|(name, _)| name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "no two kinds have a policy of one name");
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    assert_eq!(
        why(placement::by_name("dac:clases=4")),
        "placement policy \"dac:clases=4\": dac has no parameter \"clases\"; \"classes\" comes nearest \
         (there are: classes, a whole number from 1 to 64 (6 if not said))"
    );
    assert_eq!(
        why(placement::by_name("dac:classes=65")),
        "placement policy \"dac:classes=65\": classes = 65 cannot be; write a whole number from 1 to 64 \
         (6 if not said): temperatures"
    );
    for (text, said) in [
        ("dac:classes=0", "classes = 0 cannot be"),
        ("dac:classes=2.5", "classes = 2.5 cannot be"),
        ("dac:classes=-1", "classes = -1 cannot be"),
        ("dac:classes=4,classes=5", "classes is said twice"),
        ("dac:", "write NAME, or NAME:PARAMETER=VALUE"),
        ("dac:classes", "write NAME, or NAME:PARAMETER=VALUE"),
        ("dac:classes=4,", "write NAME, or NAME:PARAMETER=VALUE"),
        ("apart:classes=4", "apart has no parameter \"classes\", and no other"),
        ("dacs:classes=4", "no placement policy is called \"dacs\"; \"dac\" comes nearest"),
    ] {
        let why = why(placement::by_name(text));
        assert!(why.contains(said), "{text}: {why}");
        assert_eq!(placement::shortest(text).unwrap_err().to_string(), why);
    }
    for (text, said) in [
        ("age-threshold:share=1.5", "share = 1.5 cannot be; write a number from 0 to 1"),
        ("age-threshold:share=NaN", "share = NaN cannot be"),
        (
            "random:seed=x",
            "seed = x cannot be; write a whole number from 0 (the run's if not said)",
        ),
    ] {
        let why = why(victim::by_name(text));
        assert!(why.contains(said), "{text}: {why}");
    }
    assert!(why(pacing::by_name("free-space:power=0")).contains("from 1 to 16 (3 if not said)"));
    assert!(why(read_plan::by_name("near:gaps=0")).contains("\"gap\" comes nearest"));
}

#[test]
fn tables_that_are_no_policies_are_refused() {
    let read = |text: &str| {
        let table: toml::Table = format!("it = {text}").parse().unwrap();
        text_or_table(table["it"].clone()).map_err(|error| error.message().to_owned())
    };
    assert_eq!(read("{ name = \"dac\", classes = 4 }").as_deref(), Ok("dac:classes=4"));
    assert_eq!(read("{ name = \"dac\", classes = 6, label = \"six\" }").as_deref(), Ok("dac"));
    assert_eq!(read("\"age-threshold:share=0.30\"").as_deref(), Ok("age-threshold"));
    // Which kind it should be of is another's to know.
    assert_eq!(read("{ name = \"dacs\", classes = 4 }").as_deref(), Ok("dacs:classes=4"));
    for (text, said) in [
        ("{ classes = 4 }", "says its `name`"),
        ("{ name = \"dac:classes=4\" }", "write a name or a number alone"),
        ("{ name = \"dac\", classes = [4] }", "expected a number"),
        ("3", "expected a text, in quotes, or a table"),
    ] {
        let why = read(text).unwrap_err();
        assert!(why.contains(said), "{text}: {why}");
    }
    let of = |value: toml::Value| word(value);
    assert_eq!(of("dac:classes=6".into()).as_deref(), Some("dac"));
    assert_eq!(of("hotcold:20/80".into()), None);
    assert_eq!(of(4.into()), None);
}

#[test]
fn commas_of_parameters_are_not_those_of_a_list() {
    assert_eq!(
        listed("apart,autostream:classes=4,chunk=64,dac:classes=3,sepbit"),
        ["apart", "autostream:classes=4,chunk=64", "dac:classes=3", "sepbit"]
    );
    assert_eq!(listed("dac"), ["dac"]);
    assert_eq!(listed("classes=3,dac"), ["classes=3", "dac"]);
}

fn view(source: Source, now: u64, previous: Option<(u8, u64)>) -> BlockView {
    let previous = previous
        .map(|(stream, birth_sequence)| Previous { stream: Stream(stream), birth_sequence });
    BlockView { source, volume: TreeId(1), lba: Lba(1), now_sequence: now, previous }
}

#[test]
fn a_policy_does_as_its_parameters_say() {
    let streams = |text: &str| placement::by_name(text).unwrap().streams();
    assert_eq!([streams("dac"), streams("dac:classes=4"), streams("dac:classes=64")], [6, 4, 8]);
    assert_eq!([streams("interval:classes=3"), streams("autostream:classes=9")], [3, 8]);
    // Temperatures end at the last class.
    let dac = placement::by_name("dac:classes=3").unwrap();
    assert_eq!(dac.place(&view(Source::Client, 9, Some((2, 1)))), Stream(2));
    // Clients' blocks in one class: the policy is asked for reclaim's alone.
    let sepbit = placement::by_name("sepbit:clients=1").unwrap();
    assert_eq!(sepbit.streams(), 5);
    assert_eq!(sepbit.fixed(Source::Client), Some(Stream(0)));
    assert_eq!(sepbit.fixed(Source::Reclaim), None);
    assert_eq!(sepbit.place(&view(Source::Client, 9, Some((1, 1)))), Stream(0));
    assert_eq!(sepbit.place(&view(Source::Reclaim, 9, Some((0, 1)))), Stream(1));
    assert_eq!(sepbit.place(&view(Source::Reclaim, 9, Some((1, 1)))), Stream(2));
    // Without a gap, runs are read by themselves.
    let live = [Span { at: 0, blocks: 2 }, Span { at: 4, blocks: 1 }];
    let reads = |text: &str| {
        let view = ReadPlanView { live: &live, read_blocks_max: 64 };
        read_plan::by_name(text).unwrap().plan(&view).len()
    };
    assert_eq!([reads("near"), reads("near:gap=0"), reads("near:gap=1")], [1, 2, 2]);
}
