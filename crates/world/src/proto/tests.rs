use super::*;

/// Bodies of kubectl 1.36, each with the command that sent it and with what Kubernetes' own decoder makes of it.
const KUBECTL: &str = include_str!("kubectl.txt");

fn decode(bytes: &[u8]) -> Result<Value, String> {
    let envelope = Envelope::read(bytes)?;
    let message = TABLE
        .of_kind(&envelope.api_version, &envelope.kind)
        .ok_or_else(|| format!("no {}", envelope.kind))?;
    let mut fields = envelope.open(message)?;
    fields.insert("apiVersion", json!(envelope.api_version));
    fields.insert("kind", json!(envelope.kind));
    Ok(Value::Object(fields))
}

fn bodies() -> Vec<(&'static str, Vec<u8>, Value)> {
    let lines: Vec<&str> = KUBECTL.lines().collect();
    let read = |of: &[&'static str]| match *of {
        [command, body, expected] => {
            Some((command, STANDARD.decode(body).ok()?, serde_json::from_str(expected).ok()?))
        }
        _ => None,
    };
    lines.chunks(3).filter_map(read).collect()
}

#[test]
fn what_kubectl_sends() {
    let bodies = bodies();
    assert_eq!(bodies.len() * 3, KUBECTL.lines().count());
    for (command, body, expected) in bodies {
        assert_eq!(decode(&body), Ok(expected), "{command}");
    }
}

/// A message in an envelope that says it is a ConfigMap.
fn config_map(message: &[u8]) -> Vec<u8> {
    let length = u8::try_from(message.len()).unwrap_or_default();
    [MAGIC, b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12", &[length], message].concat()
}

#[test]
fn what_is_wrong_is_said_in_the_servers_words() {
    let deep = [&[0x0a][..], &[0x7f; 9], &[0x01]].concat();
    for (bytes, expected) in [
        (Vec::new(), "empty data"),
        (
            b"k8s".to_vec(),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0".to_vec(), "empty body"),
        (b"k8s\0\x0a".to_vec(), "unexpected EOF"),
        (b"k8s\0\x0a\x05\x0a".to_vec(), "unexpected EOF"),
        (b"k8s\0\x08\x01".to_vec(), "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\0\x0c".to_vec(), "proto: Unknown: wiretype end group for non-group"),
        (b"k8s\0\x02".to_vec(), "proto: Unknown: illegal tag 0 (wire type 2)"),
        (b"k8s\0\x0f".to_vec(), "proto: illegal wireType 7"),
        ([b"k8s\0", &[0xff; 11][..]].concat(), "proto: integer overflow"),
        (
            [b"k8s\0\x0a", &[0xff; 9][..], b"\x01"].concat(),
            "proto: negative length found during unmarshaling",
        ),
        (config_map(b"\x08\x01"), "proto: wrong wireType = 0 for field ObjectMeta"),
        (config_map(b"\x0a\x02\x0a\x09"), "unexpected EOF"),
        (config_map(&deep), "unexpected EOF"),
    ] {
        assert_eq!(decode(&bytes), Err(expected.to_owned()), "{bytes:?}");
    }
}

#[test]
fn fields_that_nobody_knows_are_skipped() {
    let unknown = b"\x9a\x3f\x01x\x98\x3f\x05\x99\x3f12345678\x9d\x3f1234\x9b\x3f\x0a\x01a\x9c\x3f\x20\x01";
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "immutable": true});
    assert_eq!(decode(&config_map(unknown)), Ok(expected));
}

#[test]
fn messages_may_not_be_too_deep() {
    let Some(message) = TABLE.named("apiextensions.v1.JSONSchemaProps") else { panic!("no schemas") };
    let mut bytes = Vec::new();
    for _ in 0..2000 {
        // The field `not`, which is a schema too.
        let mut length = bytes.len();
        let mut next = vec![0xca, 0x01];
        while length > 0x7f {
            next.push(u8::try_from(length & 0x7f | 0x80).unwrap_or_default());
            length >>= 7;
        }
        next.push(u8::try_from(length).unwrap_or_default());
        bytes = [next, bytes].concat();
    }
    let read = read_message(message, &bytes, &mut Map::new(), 0);
    assert_eq!(read, Err("exceeded max depth".to_owned()));
}

/// No bytes make it panic: every prefix of what kubectl sends, and every byte changed.
#[test]
fn nothing_panics() {
    for (_, body, _) in bodies() {
        for at in 0..body.len() {
            let _ = decode(&body[..at]);
            for byte in [0, 0x0b, 0x7f, 0x80, 0xff, body[at] ^ 1, body[at].wrapping_add(8)] {
                let mut changed = body.clone();
                changed[at] = byte;
                let _ = decode(&changed);
            }
        }
    }
}
