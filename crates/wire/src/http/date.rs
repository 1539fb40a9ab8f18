pub(super) type Date = [u8; 29];

/// Formats a time in seconds since 1970, as in `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7).
pub(super) fn date(now: u32) -> Date {
    const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
    const MONTHS: &[u8; 36] = b"MarAprMayJunJulAugSepOctNovDecJanFeb";

    let (days, second) = (now / 86_400, now % 86_400);
    // Count from 1 March of the year 0, 719 468 days before 1970, so that a leap day ends its year. An era has 400 years.
    let days_of_era = (days + 719_468) % 146_097;
    let era = (days + 719_468) / 146_097;
    let year_of_era = (days_of_era - days_of_era / 1460 + days_of_era / 36_524 - days_of_era / 146_096) / 365;
    let day_of_year = days_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // The five months from March on have 153 days, and so have the five from August on.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u32::from(month >= 10);

    let mut date = *b"Day, 00 Mon 0000 00:00:00 GMT";
    date[..3].copy_from_slice(name(WEEKDAYS, days % 7));
    date[8..11].copy_from_slice(name(MONTHS, month));
    for (at, number) in
        [(5, day), (12, year / 100), (14, year % 100), (17, second / 3600), (20, second / 60 % 60), (23, second % 60)]
    {
        date[at] = b'0' + (number / 10) as u8;
        date[at + 1] = b'0' + (number % 10) as u8;
    }
    date
}

fn name(names: &[u8], number: u32) -> &[u8] {
    &names[number as usize * 3..][..3]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(now: u32) -> String {
        String::from_utf8(date(now).to_vec()).unwrap()
    }

    #[test]
    fn date_is_formatted_like_the_example_of_the_rfc() {
        assert_eq!(text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    proptest! {
        #[test]
        fn date_matches_the_calendar(now in any::<u32>()) {
            let known = jiff::Timestamp::from_second(now.into()).unwrap();
            prop_assert_eq!(text(now), known.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
        }
    }
}
