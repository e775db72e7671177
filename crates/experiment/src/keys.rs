//! Dotted keys over tables: `drive.victim` is the key `victim` of the table `drive`.

use toml::{Table, Value};

/// Whether a table is joined with the one that it is laid upon. One with a name is a policy with its
/// parameters, and replaces whatever was there.
fn joins(above: &Table) -> bool {
    !above.contains_key("name")
}

/// Lays `over` upon `base`: tables are joined, all else is replaced.
pub fn merge(base: &mut Table, over: &Table) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if joins(above) => merge(below, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Sets the value at a dotted key, making tables on the way; a table is laid upon a table that is
/// there.
///
/// # Errors
///
/// The part of the key that holds something other than a table.
pub fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let Some((head, rest)) = key.split_once('.') else {
        match (table.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if joins(&above) => {
                merge(below, &above)
            }
            (_, value) => {
                table.insert(key.to_owned(), value);
            }
        }
        return Ok(());
    };
    let below = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
    match below {
        Value::Table(below) => set(below, rest, value).map_err(|within| format!("{head}.{within}")),
        _ => Err(head.to_owned()),
    }
}

/// What lies at a dotted key.
pub fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((head, rest)) => get(table.get(head)?.as_table()?, rest),
    }
}

/// The rest of a dotted key that lies within another.
pub fn within<'a>(key: &'a str, outer: &str) -> Option<&'a str> {
    key.strip_prefix(outer)?.strip_prefix('.')
}

/// Every list of a table and of the tables within it, with its dotted key; and every key that holds
/// neither a list nor a table.
pub fn lists(table: &Table) -> (Vec<(String, Vec<Value>)>, Vec<String>) {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for (key, value) in table {
        match value {
            Value::Array(values) => found.push((key.clone(), values.clone())),
            Value::Table(inner) => {
                let (within, wrong) = lists(inner);
                found
                    .extend(within.into_iter().map(|(rest, list)| (format!("{key}.{rest}"), list)));
                others.extend(wrong.into_iter().map(|rest| format!("{key}.{rest}")));
            }
            _ => others.push(key.clone()),
        }
    }
    (found, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn tables_are_joined_and_values_replaced() {
        let mut base = table("a = 1\nb.c = 2\nb.d = 3\n");
        merge(&mut base, &table("b.c = 4\ne = 5\n"));
        assert_eq!(base, table("a = 1\nb.c = 4\nb.d = 3\ne = 5\n"));
        merge(&mut base, &table("b = { name = \"dac\", classes = 4 }"));
        set(&mut base, "b", Value::Table(table("name = \"sepbit\""))).unwrap();
        assert_eq!(get(&base, "b"), Some(&Value::Table(table("name = \"sepbit\""))));
    }

    #[test]
    fn dotted_keys_reach_into_tables() {
        let mut base = table("a.b = 1\nc = 2\n");
        set(&mut base, "a.d.e", Value::Integer(3)).unwrap();
        assert_eq!(get(&base, "a.d.e"), Some(&Value::Integer(3)));
        assert_eq!(get(&base, "a.x"), None);
        assert_eq!(within("a.d.e", "a.d"), Some("e"));
        assert_eq!((within("a.d", "a.d"), within("a.de", "a.d")), (None, None));
        assert_eq!(set(&mut base, "a.b.f", Value::Integer(4)), Err("a.b".to_owned()));
    }

    #[test]
    fn lists_are_found_at_any_depth() {
        let (found, others) = lists(&table("\"a.b\" = [1]\nc.d = [2, 3]\nc.e = 4\n"));
        let keys: Vec<_> = found.iter().map(|(key, list)| (key.as_str(), list.len())).collect();
        assert_eq!((keys, others), (vec![("a.b", 1), ("c.d", 2)], vec!["c.e".to_owned()]));
    }
}
