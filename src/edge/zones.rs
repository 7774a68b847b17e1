//! Time zones, as the platform knows them. The Worker carries no table of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;

use js_sys::{Array, Function, Intl, Object, Reflect};
use wasm_bindgen::prelude::*;

use crate::outbox::time::Millis;
use crate::ports::Zones;

/// The farthest instant that the platform's dates have, in ms from 1970.
const DATE_MS_MAX: i64 = 8_640_000_000_000_000;

/// The zones of one invocation. Making a formatter costs far more than using it, so each zone's is kept until the end.
#[derive(Debug, Default)]
pub(super) struct EdgeZones(RefCell<BTreeMap<String, Option<Function>>>);

impl Zones for EdgeZones {
    fn offset(&self, zone: &str, at: Millis) -> Option<i32> {
        let mut known = self.0.borrow_mut();
        let format = match known.get(zone) {
            Some(format) => format.clone(),
            None => {
                let format = formatter(zone).ok();
                known.insert(zone.to_owned(), format.clone());
                format
            }
        }?;
        let at = at.get().clamp(-DATE_MS_MAX, DATE_MS_MAX);
        let text = format.call1(&JsValue::UNDEFINED, &JsValue::from_f64(at as f64)).ok()?;
        seconds(&text.as_string()?)
    }
}

/// The function that writes an instant with the zone's offset. It throws where there is no such zone.
fn formatter(zone: &str) -> Result<Function, JsValue> {
    let options = Object::new();
    Reflect::set(&options, &"timeZone".into(), &zone.into())?;
    Reflect::set(&options, &"timeZoneName".into(), &"longOffset".into())?;
    let intl = Reflect::get(&js_sys::global(), &"Intl".into())?;
    let class: Function = Reflect::get(&intl, &"DateTimeFormat".into())?.dyn_into()?;
    let made = Reflect::construct(&class, &Array::of2(&"en-US".into(), &options))?;
    Ok(made.unchecked_into::<Intl::DateTimeFormat>().format())
}

/// The offset in a text that ends with `GMT`, `GMT+05:30` or `GMT-00:44:30`.
fn seconds(text: &str) -> Option<i32> {
    let (_, offset) = text.rsplit_once("GMT")?;
    let Some(sign) = offset.chars().next() else {
        return Some(0);
    };
    let mut seconds = 0;
    let mut weight = 3_600;
    for part in offset.get(1..)?.split(':') {
        seconds += part.parse::<i32>().ok()? * weight;
        weight /= 60;
    }
    match sign {
        '+' => Some(seconds),
        '-' => Some(-seconds),
        _ => None,
    }
}
