//! Redis as the renewals' peer: a script that swaps a version and moves an expiry, one call on the way per connection.

use super::error::{CompareError, system};
use super::tcp::{Exchange, Extent};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// The same decision as a renewal: the version must be the current one, the deadline moves, the new version is answered.
const SCRIPT: &str = "local version = redis.call('HGET', KEYS[1], 'version') \
    if version ~= ARGV[1] then return redis.error_reply('CONFLICT') end \
    redis.call('PEXPIRE', KEYS[1], ARGV[2]) \
    return redis.call('HINCRBY', KEYS[1], 'version', 1)";

/// Lifetime asked for, as in our renewals without a body.
const TTL_MS: &str = "3600000";

/// Scripted renewals, each connection going round its own keys.
#[derive(Debug)]
pub(super) struct Scripted {
    digest: String,
    /// Key and version.
    leases: Vec<Vec<(String, u64)>>,
    current: Vec<usize>,
}

impl Scripted {
    /// Loads the script and writes as many keys as there are listings.
    pub(super) fn prepare(address: SocketAddr, listings: usize, connections: usize) -> Result<Self, CompareError> {
        let mut leases: Vec<Vec<(String, u64)>> = vec![Vec::new(); connections];
        let mut write = || {
            let stream = TcpStream::connect(address)?;
            let (mut reader, mut stream) = (BufReader::new(stream.try_clone()?), stream);
            let digest = call(&mut stream, &mut reader, &["SCRIPT", "LOAD", SCRIPT])?;
            for n in 0..listings {
                // As long as a listing's id.
                let key = format!("{n:032x}");
                call(&mut stream, &mut reader, &["HSET", &key, "version", "1"])?;
                call(&mut stream, &mut reader, &["PEXPIRE", &key, TTL_MS])?;
                leases[n % connections].push((key, 1));
            }
            Ok(digest)
        };
        let digest = write().map_err(system("preparing redis"))?;
        Ok(Self { digest, leases, current: vec![0; connections] })
    }
}

impl Exchange for Scripted {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) {
        let current = &mut self.current[connection];
        *current = (*current + 1) % self.leases[connection].len();
        let (key, version) = &self.leases[connection][*current];
        out.extend_from_slice(b"*6\r\n");
        for word in [b"EVALSHA", self.digest.as_bytes(), b"1", key.as_bytes()] {
            bulk(out, word);
        }
        out.push(b'$');
        super::push_number(out, u64::from(version.ilog10()) + 1);
        out.extend_from_slice(b"\r\n");
        super::push_number(out, *version);
        out.extend_from_slice(b"\r\n");
        bulk(out, TTL_MS.as_bytes());
    }

    fn answer(&mut self, connection: usize, bytes: &[u8]) -> Result<Extent, String> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(Extent::Unknown) };
        if bytes[0] != b':' {
            return Err(format!("expected an integer, came {:?}", String::from_utf8_lossy(bytes)));
        }
        self.leases[connection][self.current[connection]].1 += 1;
        Ok(Extent::Bytes(end + 1))
    }
}

/// A bulk string of RESP.
fn bulk(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'$');
    super::push_number(out, word.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// One call while nothing is measured; the text of a simple, integer or bulk reply.
fn call(stream: &mut TcpStream, reader: &mut BufReader<TcpStream>, words: &[&str]) -> std::io::Result<String> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bulk(&mut request, word.as_bytes()));
    stream.write_all(&request)?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if line.starts_with('$') {
        line.clear();
        reader.read_line(&mut line)?;
    }
    match line.trim_end() {
        refused if refused.starts_with('-') => Err(std::io::Error::other(refused.to_owned())),
        text => Ok(text.to_owned()),
    }
}
