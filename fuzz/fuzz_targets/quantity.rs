//! Quantities and prices: no text panics, and what is printed reads back as the same number.

#![no_main]

use berth_core::units::{Price, Quantity, format_binary};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = text.parse::<Quantity>() {
        assert_eq!(quantity.to_string().parse(), Ok(quantity), "{text:?} as {quantity}");

        let units = quantity.units_ceil();
        assert_eq!(format_binary(units).parse::<Quantity>().map(Quantity::units_ceil), Ok(units), "{text:?}");
        let exact = Quantity::from_units(units).nanos();
        assert!(exact.abs() >= quantity.nanos().abs(), "{text:?}: {units} is rounded towards zero");
        assert!(exact.abs() - quantity.nanos().abs() < 1_000_000_000, "{text:?}: {units} is too far away");
    }
    if let Ok(price) = text.parse::<Price>() {
        assert!(price.micro_usd() >= 0, "{text:?} is a negative price");
        assert_eq!(price.to_string().parse(), Ok(price), "{text:?} as {price}");
    }
});
