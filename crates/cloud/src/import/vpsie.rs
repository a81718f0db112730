//! VPSie's offers, as its API answers: the general offerings, those for Kubernetes, and the plans with
//! nicknames; as a bare list, or in the envelope `{error, code, message, data}`.
//!
//! A type has the offer's name, or its id where the name cannot be a label's value. The label
//! `autoscaler.vpsie.com/offering` holds the id, and stands on the offering because one name has another id in
//! each datacenter. The zone is the datacenter; offers that name none are had in the options' zones. An offer is
//! on-demand unless it says `spot`, and then says how often such machines are taken back.

use std::collections::BTreeMap;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Labels, Text, label_value_problem};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use berth_core::units::Price;

use super::{Draft, PODS_DEFAULT, Repeated};
use crate::CatalogOptions;
use crate::draft::quoted;
use crate::error::{CatalogError, Problem};
use crate::field::Field;

use berth_api::vpsie::{DATACENTER, INTERRUPTION_RATE};

pub(crate) use berth_api::vpsie::OFFERING;

/// The envelope of an answer that is an error.
pub(super) fn refuse_error(envelope: &Field) -> Result<(), CatalogError> {
    if !envelope.get("error").boolean_or(false).unwrap_or(true) {
        return Ok(());
    }
    let said = |key: &str| envelope.get(key).scalar("").unwrap_or_else(|_| "none given".to_owned());
    Err(CatalogError::Refused { code: said("code"), message: said("message") })
}

pub(super) fn read(list: &Field, name: &str, options: &CatalogOptions) -> Result<Catalog, CatalogError> {
    let (catalog, unread) = read_legible(list, name, options)?;
    unread.into_iter().next().map_or(Ok(catalog), |unread| Err(unread.problem))
}

/// An offer that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// Its name or id, as far as it says.
    pub(super) offer: String,
    pub(super) problem: CatalogError,
}

/// The offers that can be read, and the others. Where none can be, what is wrong with the first.
pub(super) fn read_legible(
    list: &Field,
    name: &str,
    options: &CatalogOptions,
) -> Result<(Catalog, Vec<Unread>), CatalogError> {
    let mut draft = Draft::default();
    let mut unread = Vec::new();
    for offer in list.items("a list of offers")? {
        let added = instance_type(&offer, options)
            .and_then(|known| draft.add(known, Repeated::AddsOfferings, || offer.place()));
        if let Err(problem) = added {
            let named = offer.get_any(&["name", "nickname", "id", "identifier"]).scalar("its name");
            unread.push(Unread { offer: named.unwrap_or_else(|_| "one without a name".to_owned()), problem });
        }
    }
    match (draft.finish(name), unread.is_empty()) {
        (Err(_), false) => Err(unread.swap_remove(0).problem),
        (catalog, _) => Ok((catalog?, unread)),
    }
}

fn instance_type(offer: &Field, options: &CatalogOptions) -> Result<InstanceType, CatalogError> {
    let id = offer.get_any(&["id", "identifier"]).label_value("the offer's id")?;
    let name = offer.get_any(&["name", "nickname"]);
    let name = match name.is_present().then(|| name.text("the offer's name")).transpose()? {
        Some(name) if label_value_problem(name).is_none() => Text::from(name),
        _ => id.clone(),
    };
    let scaled = |keys: &[&'static str], scale: i64, wanted| {
        let units = offer.get_any(keys).quantity(wanted)?.units_ceil();
        Ok::<i64, CatalogError>(units.saturating_mul(scale))
    };
    let cpu = Resources::amount_of(CPU, offer.get("cpu").quantity("the number of CPUs")?);
    let capacity = Resources::of(&[
        (CPU, cpu),
        (MEMORY, scaled(&["ram"], 1 << 20, "the memory in MB")?),
        (EPHEMERAL_STORAGE, scaled(&["disk", "ssd"], 1 << 30, "the disk in GB")?),
        (PODS, PODS_DEFAULT),
    ]);
    Ok(InstanceType {
        labels: Labels::from([
            (names::INSTANCE_TYPE.into(), name.clone()),
            (names::ARCH.into(), "amd64".into()),
            (names::OS.into(), "linux".into()),
        ]),
        name,
        capacity,
        // What VPSie's autoscaler reserves for the kubelet.
        overhead: Resources::of(&[(CPU, 100), (MEMORY, 256 << 20)]),
        volume_limits: BTreeMap::new(),
        offerings: offerings(offer, &id, options)?,
    })
}

fn offerings(offer: &Field, id: &Text, options: &CatalogOptions) -> Result<Vec<Offering>, CatalogError> {
    let price = price_per_hour(offer)?;
    let available = offer.get("available").boolean_or(true)?;
    let datacenter = offer.get("datacenter_id");
    let zones = if datacenter.is_present() {
        vec![datacenter.label_value("the datacenter's id")?]
    } else {
        options.zones.clone()
    };
    if zones.is_empty() {
        return Err(CatalogError::NoZones { at: offer.place() });
    }
    let spot = interruption_rate(offer)?;
    let capacity_type = if spot.is_some() { CapacityType::Spot } else { CapacityType::OnDemand };
    let offering = |zone: Text| {
        let mut labels = Labels::from([(OFFERING.into(), id.clone()), (DATACENTER.into(), zone.clone())]);
        labels.extend(spot.map(|rate| (INTERRUPTION_RATE.into(), rate.to_string().into())));
        Offering { labels, available, ..quoted(zone, capacity_type, price) }
    };
    Ok(zones.into_iter().map(offering).collect())
}

/// Of an offer that is spot.
fn interruption_rate(offer: &Field) -> Result<Option<u32>, CatalogError> {
    if !offer.get("spot").boolean_or(false)? {
        return Ok(None);
    }
    let wanted = "a percentage from 0 to 100";
    let field = offer.get("interruption_rate");
    let rate = field.count(wanted)?;
    if rate > 100 {
        return Err(field.error(Problem::NotA { found: rate.to_string(), wanted }));
    }
    Ok(Some(rate))
}

/// The hourly price, or else the monthly one spread over a month's hours. The API writes 0 for none.
fn price_per_hour(offer: &Field) -> Result<Price, CatalogError> {
    let (hourly, monthly) = (offer.get("hourly_price"), offer.get("price"));
    let stated = |field: &Field| if field.is_present() { field.price() } else { Ok(Price::ZERO) };
    let (per_hour, per_month) = (stated(&hourly)?, stated(&monthly)?);
    if !per_hour.is_zero() {
        Ok(per_hour)
    } else if !per_month.is_zero() {
        Ok(per_month.scaled(1, Price::HOURS_PER_MONTH))
    } else {
        Err(hourly
            .error(Problem::Missing("the price in US dollars an hour, or `price` with US dollars a month")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::import;
    use super::*;

    const OFFERS: &str = r#"{"error": false, "code": 200, "message": "ok", "data": [
        {"id": "off-1", "name": "s-2", "cpu": 2, "ram": 4096, "disk": 80, "bandwidth": 1, "price": 20, "hourly_price": 0.03,
         "available": true, "datacenter_id": "dc-1", "category": "standard"},
        {"id": "off-2", "name": "s-2", "cpu": 2, "ram": 4096, "disk": 80, "price": 20, "available": false, "datacenter_id": "dc-2"}]}"#;
    const K8S_OFFERS: &str = r#"[{"id": 7, "name": "Big Box", "cpu": 8, "ram": 16384, "disk": 160, "price": "73", "hourly_price": 0}]"#;
    const PLANS: &str = r#"{"data": [{"identifier": "abc", "nickname": "tiny", "cpu": 1, "ram": 1024, "ssd": 20, "traffic": 1, "price": 7.3}], "pagination": {"total": 1}}"#;

    const SPOT: &str = r#"[{"id": "s", "name": "s-1", "cpu": 1, "ram": 1024, "ssd": 20, "hourly_price": 0.01, "datacenter_id": "dc-1",
        "spot": true, "interruption_rate": 5}]"#;

    /// Each type as `name cpu memory disk: zone id price…`.
    fn types(text: &str, zones: &[&str]) -> Result<Vec<String>, String> {
        let zones = zones.iter().map(|zone| Text::from(*zone)).collect();
        let options = CatalogOptions { zones, ..CatalogOptions::default() };
        let catalog = import(text, "vpsie", &options).map_err(|error| error.to_string())?;
        Ok(catalog
            .types
            .iter()
            .map(|t| {
                let room = t.allocatable();
                let mut words = vec![format!("{} {} {}", t.name, room.get(CPU), room.get(MEMORY) >> 20)];
                words.extend(t.offerings.iter().map(|o| {
                    let available = if o.available { "" } else { " unavailable" };
                    format!("{} {} {}{available}", o.zone, o.labels[OFFERING], o.price)
                }));
                words.join(", ")
            })
            .collect())
    }

    #[test]
    fn offers_are_types() {
        for (text, zones, expected) in [
            (OFFERS, &[][..], "s-2 1900 3840, dc-1 off-1 0.030000, dc-2 off-2 0.027397 unavailable"),
            (K8S_OFFERS, &["dc-1", "dc-2"], "7 7900 16128, dc-1 7 0.100000, dc-2 7 0.100000"),
            (PLANS, &["dc-1"], "tiny 900 768, dc-1 abc 0.010000"),
        ] {
            assert_eq!(types(text, zones).unwrap(), [expected]);
        }
    }

    #[test]
    fn spot_is_what_says_so() {
        let options = CatalogOptions { zones: Vec::new(), ..CatalogOptions::default() };
        let catalog = import(SPOT, "vpsie", &options).unwrap();
        let offering = &catalog.types[0].offerings[0];
        assert_eq!(offering.capacity_type, CapacityType::Spot);
        assert_eq!(&*offering.labels[INTERRUPTION_RATE], "5");
    }

    #[test]
    fn errors_say_where() {
        for (text, part, replacement, expected) in [
            (
                SPOT,
                "\"interruption_rate\": 5",
                "\"interruption_rate\": 101",
                "[0].interruption_rate: `101` is not a percentage",
            ),
            (SPOT, ", \"interruption_rate\": 5", "", "[0].interruption_rate: is missing; write a percentage"),
            (K8S_OFFERS, "", "", "[0]: the list names no zones"),
            (
                OFFERS,
                r#""price": 20, "available": false"#,
                r#""available": false"#,
                "data[1].hourly_price: is missing",
            ),
            (OFFERS, "0.03", "-0.03", "data[0].hourly_price: `-0.03` is negative"),
            (OFFERS, "4096", "-1", "data[0].ram: `-1` is negative"),
            (
                OFFERS,
                "4096",
                "1024",
                "data[1]: instance type `s-2` differs here from where it is listed first; its resources must agree",
            ),
            (OFFERS, r#""disk": 80, "#, "", "data[0].disk: is missing; write the disk in GB"),
            (OFFERS, r#""id": "off-1", "#, "", "data[0].id: is missing; write the offer's id"),
            (
                OFFERS,
                r#""error": false, "code": 200, "message": "ok""#,
                r#""error": true, "code": 401, "message": "bad token""#,
                "the cloud answered with an error instead of offers: bad token (code 401)",
            ),
            (
                OFFERS,
                r#""off-2", "name": "s-2", "cpu": 2, "ram": 4096, "disk": 80, "price": 20, "available": false, "datacenter_id": "dc-2""#,
                r#""off-1", "name": "s-2", "cpu": 2, "ram": 4096, "disk": 80, "price": 20, "datacenter_id": "dc-1""#,
                "data[1]: instance type `s-2` is offered twice in dc-1 as on-demand",
            ),
        ] {
            assert!(text.contains(part), "{part}");
            let error = types(&text.replacen(part, replacement, 1), &[]).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n  not {expected}");
        }
    }
}
