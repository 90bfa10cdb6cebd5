//! The languages that a browser or a product asks for.

/// The most languages of a request that are read. Browsers send fewer than ten.
const WANTED_MAX: usize = 32;

/// The tags of `ui_locales` (OpenID Connect Core 3.1.2.1), most wanted first.
pub(crate) fn of_ui_locales(ui_locales: &str) -> impl Iterator<Item = &str> {
    ui_locales.split_ascii_whitespace().take(WANTED_MAX)
}

/// The tags of an `Accept-Language` (RFC 9110 section 12.5.4), most wanted first. Tags of one weight keep their order.
/// What cannot be read, or has the weight 0, is left out.
pub(crate) fn of_accept_language(header: &str) -> Vec<&str> {
    let mut found: Vec<(u32, &str)> = header.split(',').take(WANTED_MAX).filter_map(weighed).collect();
    found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(_, tag)| tag).collect()
}

/// A language and its weight, in thousandths.
fn weighed(range: &str) -> Option<(u32, &str)> {
    let mut parts = range.split(';').map(str::trim);
    let tag = parts.next().filter(|tag| !tag.is_empty())?;
    let mut weight = 1000;
    for parameter in parts {
        let (_, value) =
            parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"))?;
        let value: f32 = value.trim().parse().ok()?;
        if !(0.0..=1.0).contains(&value) {
            return None;
        }
        weight = (value * 1000.0).round() as u32;
    }
    (weight > 0).then_some((weight, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_order_the_languages() {
        for (header, expected) in [
            ("de-AT, de;q=0.9, en;q=0.8", &["de-AT", "de", "en"][..]),
            ("en;q=0.2,de;q=0.7, fr", &["fr", "de", "en"]),
            ("de;q=0, en", &["en"]),
            ("en ; q = 0.5 , de;Q=0.6", &["de", "en"]),
            ("de;q=x, fr;q=2, nl;q=NaN, en", &["en"]),
            ("*;q=0.1, da", &["da", "*"]),
            (", ,;q=1", &[]),
            ("", &[]),
        ] {
            assert_eq!(of_accept_language(header), expected, "{header}");
        }
        assert_eq!(of_accept_language(&"x,".repeat(8000)).len(), WANTED_MAX);
    }
}
