//! JSON as it is written.

/// A tree, written as JSON with expressions in it.
macro_rules! json {
    (null) => { $crate::json::Value::Null };
    ([ $($items:tt)* ]) => { $crate::json::Value::Array($crate::json::json!(@items [] $($items)*).into()) };
    ({ $($fields:tt)* }) => {{
        #[allow(unused_mut, reason = "an object without fields")]
        let mut map = $crate::json::Map::new();
        $crate::json::json!(@fields map $($fields)*);
        $crate::json::Value::Object(map)
    }};
    (@items [ $($done:expr,)* ]) => { ::std::vec![$($done,)*] };
    (@items [ $($done:expr,)* ] null $(, $($rest:tt)*)?) => {
        $crate::json::json!(@items [ $($done,)* $crate::json::Value::Null, ] $($($rest)*)?)
    };
    (@items [ $($done:expr,)* ] [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json::json!(@items [ $($done,)* $crate::json::json!([ $($inner)* ]), ] $($($rest)*)?)
    };
    (@items [ $($done:expr,)* ] { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json::json!(@items [ $($done,)* $crate::json::json!({ $($inner)* }), ] $($($rest)*)?)
    };
    (@items [ $($done:expr,)* ] $item:expr $(, $($rest:tt)*)?) => {
        $crate::json::json!(@items [ $($done,)* $crate::json::ToValue::to_value(&$item), ] $($($rest)*)?)
    };
    (@fields $map:ident) => {};
    (@fields $map:ident $name:tt : null $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::Value::Null);
        $($crate::json::json!(@fields $map $($rest)*);)?
    };
    (@fields $map:ident $name:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::json!([ $($inner)* ]));
        $($crate::json::json!(@fields $map $($rest)*);)?
    };
    (@fields $map:ident $name:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::json!({ $($inner)* }));
        $($crate::json::json!(@fields $map $($rest)*);)?
    };
    (@fields $map:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::ToValue::to_value(&$value));
        $($crate::json::json!(@fields $map $($rest)*);)?
    };
    ($value:expr) => { $crate::json::ToValue::to_value(&$value) };
}

pub(crate) use json;
