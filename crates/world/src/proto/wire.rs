//! Protobuf's wire format, with the words that Kubernetes' own decoders have for what is wrong with it.

const EOF: &str = "unexpected EOF";
const OVERFLOW: &str = "proto: integer overflow";

/// What is still to be read of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// What no field of Kubernetes has.
    Other(u8),
}

impl Wire<'_> {
    /// The number of its form.
    pub(super) fn form(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Other(form) => form,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field of a message, with its number. `message` is for what is said of its mistakes.
    pub(super) fn field(&mut self, message: &str) -> Result<Option<(u32, Wire<'a>)>, String> {
        if self.is_done() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let form = u8::try_from(tag & 7).unwrap_or_default();
        // As in Go: the number is cut to 32 bits before it is looked at.
        let number = i32::try_from(tag >> 3 & u64::from(u32::MAX)).unwrap_or(-1);
        if form == 4 {
            return Err(format!("proto: {message}: wiretype end group for non-group"));
        }
        let Some(number) = u32::try_from(number).ok().filter(|number| *number > 0) else {
            return Err(format!("proto: {message}: illegal tag {number} (wire type {form})"));
        };
        self.value(form).map(|wire| Some((number, wire)))
    }

    fn value(&mut self, form: u8) -> Result<Wire<'a>, String> {
        match form {
            0 => self.varint().map(Wire::Varint),
            1 => {
                let bytes = self.take(8)?;
                let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                Ok(Wire::Fixed64(bits))
            }
            2 => {
                let length = self.varint()?;
                if i64::try_from(length).is_err() {
                    return Err("proto: negative length found during unmarshaling".to_owned());
                }
                self.take(usize::try_from(length).map_err(|_| EOF)?).map(Wire::Bytes)
            }
            3 => self.skip_group().map(|()| Wire::Other(form)),
            5 => self.take(4).map(|_| Wire::Other(form)),
            _ => Err(format!("proto: illegal wireType {form}")),
        }
    }

    /// Groups may be in groups, as deep as the bytes reach: they are counted, not called.
    fn skip_group(&mut self) -> Result<(), String> {
        let mut depth = 1_usize;
        while depth > 0 {
            let tag = self.varint()?;
            match tag & 7 {
                3 => depth += 1,
                4 => depth -= 1,
                form => {
                    self.value(u8::try_from(form).unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(EOF)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(OVERFLOW.to_owned())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(EOF)?;
        self.rest = rest;
        Ok(taken)
    }
}
