//! Where to listen, as Berth and VPSie's autoscaler write it.

use std::fmt;
use std::str::FromStr;

/// An address of this machine: `8080` and `:8080` are that port on all of them, `localhost:8080` and `[::1]:8080` on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// Without the brackets of IPv6.
    pub(crate) host: Option<String>,
    /// 0 for nowhere.
    pub(crate) port: u16,
}

const FORM: &str =
    "write a port from 0 to 65535, alone or after a host: 8080, :8080, localhost:8080 or [::1]:8080";

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').filter(|inner| inner.contains(':')).ok_or(FORM)?,
            None if host.contains([':', ']', '/']) => return Err(FORM),
            None => host,
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(FORM);
        }
        let port = port.parse().map_err(|_| FORM)?;
        Ok(Self { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, "port {}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("8080", "port 8080"),
            (":8080", "port 8080"),
            ("0", "port 0"),
            ("localhost:8080", "localhost:8080"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), expected, "{text}");
        }
        for text in
            ["", ":", "many", "65536", "+80", "::1", "::1:8080", "[localhost]:8080", "[::1]", "http://a:80"]
        {
            assert_eq!(text.parse::<Listen>(), Err(FORM), "{text}");
        }
    }
}
