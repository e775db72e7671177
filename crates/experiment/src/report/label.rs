//! Names and numbers, for people.

/// A number's name in words, with its unit in brackets: `write_p99_9_us` is `write p99.9 (µs)`.
pub fn words(name: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in name.split('_') {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match parts.last_mut() {
            Some(last) if digits(part) && last.strip_prefix('p').is_some_and(digits) => {
                *last += &format!(".{part}");
            }
            _ => parts.push(part.to_owned()),
        }
    }
    let mut unit = None;
    if let [.., of, per, time] = &parts[..]
        && per == "per"
        && let Some(over) = symbol(time)
    {
        let of = symbol(of).map(str::to_owned).unwrap_or_else(|| of.clone());
        unit = Some(format!("{of}/{over}"));
        parts.truncate(parts.len() - 3);
    } else if let Some(symbol) = parts.last().and_then(|last| symbol(last))
        && parts.len() > 1
    {
        unit = Some(symbol.to_owned());
        parts.pop();
    }
    let spelled = parts.iter().map(|part| match part.as_str() {
        "waf" => "write amplification",
        word => word,
    });
    let text = spelled.collect::<Vec<_>>().join(" ");
    match unit {
        Some(unit) if text.is_empty() => unit,
        Some(unit) => format!("{text} ({unit})"),
        None => text,
    }
}

fn symbol(word: &str) -> Option<&'static str> {
    Some(match word {
        "ns" => "ns",
        "us" => "µs",
        "ms" => "ms",
        "s" => "s",
        "bytes" => "bytes",
        "kib" => "KiB",
        "mib" => "MiB",
        "gib" => "GiB",
        "tib" => "TiB",
        "percent" => "%",
        "share" => "share",
        _ => return None,
    })
}

/// A number with at most four significant digits, or all digits before the point.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.3e}");
    }
    let before = size.log10().floor() as i32 + 1;
    let places = (4 - before).clamp(0, 8) as usize;
    let text = format!("{value:.places$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let part = part.trim_end_matches('0');
    let grouped = grouped(whole);
    if part.is_empty() { grouped } else { format!("{grouped}.{part}") }
}

fn grouped(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("−", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text that may stand in HTML and SVG, in attributes too.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // XML has no word for these.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words_with_units() {
        for (name, shown) in [
            ("waf", "write amplification"),
            ("write_p99_9_us", "write p99.9 (µs)"),
            ("bandwidth_mib_per_s", "bandwidth (MiB/s)"),
            ("requests_per_s", "requests/s"),
            ("drive_writes", "drive writes"),
            ("map_bytes", "map (bytes)"),
        ] {
            assert_eq!(words(name), shown);
        }
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 3.35412, 14.0, 240_844.25, 0.132511, 1e-7, -12_345.0].map(number);
        assert_eq!(shown, ["0", "3.354", "14", "240,844", "0.1325", "1.000e-7", "−12,345"]);
    }

    #[test]
    fn nothing_breaks_out_of_markup() {
        assert_eq!(escape("<a b=\"c\">'&\u{0}"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp;\u{fffd}");
    }
}
