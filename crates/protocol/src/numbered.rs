//! Enums as bytes, with the number of each variant written out.
//!
//! Derived code numbers variants by their order, so that sorting a list would change a wire format without a word. Here each
//! number stands beside its variant:
//!
//! ```
//! # use meshlock_protocol::numbered;
//! # #[derive(Debug, PartialEq)]
//! enum Shape {
//!     Point,
//!     Circle(u32),
//!     Box { width: u32, height: u32 },
//! }
//!
//! numbered! { Shape {
//!     0 => Point,
//!     1 => Circle(radius),
//!     7 => Box { width, height },
//! } }
//! # let bytes = postcard::to_stdvec(&Shape::Box { width: 2, height: 3 }).unwrap();
//! # assert_eq!(bytes, [7, 2, 3]);
//! # assert_eq!(postcard::from_bytes::<Shape>(&bytes), Ok(Shape::Box { width: 2, height: 3 }));
//! # assert!(postcard::from_bytes::<Shape>(&[2]).is_err());
//! ```
//!
//! A variant without a number does not compile, nor do two with the same number:
//!
//! ```compile_fail
//! # use meshlock_protocol::numbered;
//! enum Shape {
//!     Point,
//!     Circle,
//! }
//!
//! numbered! { Shape {
//!     0 => Point,
//!     0 => Circle,
//! } }
//! ```
//!
//! A number is never used again for something else: what is gone keeps its number in a comment.

/// An enum whose variants are written by numbers.
pub trait Numbered {
    /// The number and the name of each variant.
    const VARIANTS: &'static [(u32, &'static str)];
}

/// Whether no number stands twice. [`numbered!`] asserts it when it is compiled.
#[doc(hidden)]
pub const fn are_unique(numbers: &[u32]) -> bool {
    let mut at = 0;
    while at < numbers.len() {
        let mut before = 0;
        while before < at {
            if numbers[before] == numbers[at] {
                return false;
            }
            before += 1;
        }
        at += 1;
    }
    true
}

/// Writes and reads an enum by numbers that are written out.
#[macro_export]
macro_rules! numbered {
    ($name:ident $(<$generic:ident>)? {
        $($number:literal => $variant:ident $(($($item:ident),+))? $({ $($field:ident),+ $(,)? })?,)+
    }) => {
        const _: () = assert!(
            $crate::are_unique(&[$($number),+]),
            concat!("two variants of ", stringify!($name), " have the same number")
        );

        impl $(<$generic>)? $crate::Numbered for $name $(<$generic>)? {
            const VARIANTS: &'static [(u32, &'static str)] = &[$(($number, stringify!($variant)),)+];
        }

        impl $(<$generic: $crate::serde::Serialize>)? $crate::serde::Serialize for $name $(<$generic>)? {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let name = stringify!($name);
                match self {
                    $($name::$variant $(($($item),+))? $({ $($field),+ })? => $crate::numbered!(
                        @write serializer, name, $number, stringify!($variant) $(, ($($item),+))? $(, ($($field),+))?
                    ),)+
                }
            }
        }

        impl<'de $(, $generic: $crate::serde::Deserialize<'de>)?> $crate::serde::Deserialize<'de> for $name $(<$generic>)? {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read<T>(std::marker::PhantomData<T>);

                impl<'de $(, $generic: $crate::serde::Deserialize<'de>)?> $crate::serde::de::Visitor<'de>
                    for Read<$name $(<$generic>)?>
                {
                    type Value = $name $(<$generic>)?;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("the number of a variant of ", stringify!($name)))
                    }

                    fn visit_enum<A: $crate::serde::de::EnumAccess<'de>>(self, data: A) -> Result<Self::Value, A::Error> {
                        use $crate::serde::de::{Error as _, VariantAccess as _};
                        let (number, variant) = data.variant::<u32>()?;
                        match number {
                            $($number => $crate::numbered!(
                                @read variant, $name, $variant $(, ($($item),+))? $(, { $($field),+ })?
                            ),)+
                            other => Err(A::Error::invalid_value(
                                $crate::serde::de::Unexpected::Unsigned(other.into()),
                                &self,
                            )),
                        }
                    }
                }

                deserializer.deserialize_enum(stringify!($name), &[], Read::<Self>(std::marker::PhantomData))
            }
        }
    };
    (@write $serializer:ident, $name:ident, $number:literal, $variant:expr) => {
        $serializer.serialize_unit_variant($name, $number, $variant)
    };
    (@write $serializer:ident, $name:ident, $number:literal, $variant:expr, ($($value:ident),+)) => {
        $serializer.serialize_newtype_variant($name, $number, $variant, &($($value,)+))
    };
    (@read $access:ident, $name:ident, $variant:ident) => {
        $access.unit_variant().map(|()| $name::$variant)
    };
    (@read $access:ident, $name:ident, $variant:ident, ($($value:ident),+)) => {
        $access.newtype_variant().map(|($($value,)+)| $name::$variant($($value),+))
    };
    (@read $access:ident, $name:ident, $variant:ident, { $($value:ident),+ }) => {
        $access.newtype_variant().map(|($($value,)+)| $name::$variant { $($value),+ })
    };
}

#[cfg(test)]
mod tests {
    #[derive(Clone, Debug, PartialEq)]
    enum Old<M> {
        Data { number: u64, body: M },
        Ack(u64),
        End,
    }

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    enum Derived {
        Data { number: u64, body: String },
        Ack(u64),
        End,
    }

    numbered! { Old<M> {
        0 => Data { number, body },
        1 => Ack(number),
        2 => End,
    } }

    #[test]
    fn numbers_in_their_order_give_the_bytes_of_derived_code() {
        let pairs = [
            (
                Old::Data { number: 300, body: "x".to_owned() },
                Derived::Data { number: 300, body: "x".to_owned() },
            ),
            (Old::Ack(7), Derived::Ack(7)),
            (Old::End, Derived::End),
        ];
        for (ours, derived) in pairs {
            let bytes = postcard::to_stdvec(&ours).unwrap();
            assert_eq!(bytes, postcard::to_stdvec(&derived).unwrap());
            assert_eq!(postcard::from_bytes::<Old<String>>(&bytes), Ok(ours));
        }
    }

    #[test]
    fn a_number_that_stands_twice_is_found() {
        assert!(super::are_unique(&[]) && super::are_unique(&[7, 0, 1]));
        assert!(!super::are_unique(&[7, 0, 7]) && !super::are_unique(&[0, 1, 1]));
    }

    #[test]
    fn the_numbers_are_known_to_programs() {
        assert_eq!(<Old<u8> as crate::Numbered>::VARIANTS, [(0, "Data"), (1, "Ack"), (2, "End")]);
    }

    #[test]
    fn a_number_that_nobody_has_is_an_error() {
        assert!(postcard::from_bytes::<Old<u8>>(&[3]).is_err());
        assert!(postcard::from_bytes::<Old<u8>>(&[]).is_err());
    }
}
