//! Durations: no text panics, and what is printed reads back as the same duration.

#![no_main]

use berth_api::duration::{GoDuration, NillableDuration};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let duration = text.parse::<GoDuration>();
    if let Ok(duration) = duration {
        assert_eq!(duration.to_string().parse(), Ok(duration), "{text:?} as {duration}");
    }
    match text.parse::<NillableDuration>() {
        Ok(NillableDuration::After(after)) => assert_eq!(duration, Ok(after), "{text:?}"),
        Ok(NillableDuration::Never) => assert_eq!(text, "Never"),
        Err(_) => assert!(duration.is_err(), "{text:?} is a duration only where it may not be Never"),
    }
});
