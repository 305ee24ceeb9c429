//! A client that sends exactly the given bytes and reads one response after the other. The crash tests use it too.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

use super::process::LIMIT;

pub struct Wire<S = TcpStream> {
    pub stream: S,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    /// Returns the status, and the code if it is an error.
    pub fn outcome(&self) -> String {
        match self.status {
            200..=299 => self.status.to_string(),
            status => format!("{status} {}", self.code()),
        }
    }

    pub fn status_and_code(&self) -> (u16, String) {
        (self.status, self.code())
    }

    pub fn field(&self) -> String {
        let json = self.json();
        json["error"]["details"]["field"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Wire {
    pub fn to(address: SocketAddr) -> Self {
        Self::try_to(address).unwrap()
    }

    /// Like [`Wire::to`]. `None` if nothing listens.
    pub fn try_to(address: SocketAddr) -> Option<Self> {
        Some(Self::with_timeouts(TcpStream::connect(address).ok()?))
    }

    /// Like [`Wire::to`], from a local address.
    ///
    /// # Errors
    /// The connection fails.
    pub fn from(from: IpAddr, address: SocketAddr) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(from, 0))?;
            socket.connect(address).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Ok(Self::with_timeouts(stream))
    }

    fn with_timeouts(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Returns whether the server closes the connection in time without another response.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let began = Instant::now();
        self.stream.set_read_timeout(Some(time)).unwrap();
        let mut chunk = [0; 1024];
        let ended = match self.stream.read(&mut chunk) {
            Ok(n) => n == 0 && self.unread.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        self.stream.set_read_timeout(Some(LIMIT)).unwrap();
        ended && began.elapsed() <= time
    }
}

impl Wire<UnixStream> {
    /// Like [`Wire::to`], to a Unix socket.
    ///
    /// # Errors
    /// The connection fails.
    pub fn to_socket(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Self::over(stream))
    }
}

impl<S: Read + Write> Wire<S> {
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Returns whether all bytes read so far belonged to a response.
    pub fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The server may have closed already. Only its response counts.
        let _ = self.stream.write_all(bytes.as_ref());
        self
    }

    /// Reads more bytes. `false` at the end of the connection.
    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Ok(false),
            Ok(n) => {
                self.unread.extend_from_slice(&chunk[..n]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(false),
            // A stopped process has continued.
            Err(error) if error.kind() == ErrorKind::Interrupted => self.fill(),
            Err(error) => Err(error),
        }
    }

    /// Reads the next response. `None` if the connection ends first.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET")
    }

    /// Like [`Self::answer`], to a request with this method: a response to HEAD has no body.
    pub fn answer_to(&mut self, method: &str) -> Option<Answer> {
        self.try_answer_to(method)
            .unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// Like [`Self::answer_to`]. A timeout or a truncated response is an error.
    pub fn try_answer_to(&mut self, method: &str) -> io::Result<Option<Answer>> {
        let head = loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                let head: Vec<u8> = self.unread.drain(..at + 4).collect();
                let text = String::from_utf8(head).unwrap();
                if text.starts_with("HTTP/1.1 100") {
                    continue;
                }
                break text;
            }
            if !self.fill()? {
                return Ok(None);
            }
        };
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap().splitn(3, ' ').skip(1);
        let status = first.next().unwrap().parse().unwrap();
        let reason = first.next().unwrap_or_default().to_owned();
        let headers: Vec<(String, String)> = lines
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_once(": ").expect("a header"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut answer = Answer {
            status,
            reason,
            headers,
            body: Vec::new(),
        };
        let empty = method == "HEAD" || matches!(status, 204 | 304);
        if !empty && answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.chunks()?;
            return Ok(Some(answer));
        }
        let length: usize = match answer.header("content-length") {
            _ if empty => 0,
            Some(text) => text.parse().unwrap(),
            // HTTP/1.0 has no chunks: the body ends with the connection.
            None if head.starts_with("HTTP/1.0 ") => {
                while self.fill()? {}
                self.unread.len()
            }
            None => panic!("an answer without a length: {head}"),
        };
        answer.body = self.bytes(length)?;
        Ok(Some(answer))
    }

    fn more(&mut self) -> io::Result<()> {
        if self.fill()? {
            return Ok(());
        }
        Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "the body breaks off",
        ))
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            self.more()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.unread.windows(2).position(|w| w == b"\r\n") {
                let line = self.bytes(at + 2)?;
                return Ok(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            self.more()?;
        }
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16).unwrap();
            body.extend(self.bytes(length)?);
            assert_eq!(self.line()?, "");
            if length == 0 {
                return Ok(body);
            }
        }
    }
}

/// Receives the address, the request and the response.
pub type Watch = fn(SocketAddr, &[u8], &Answer);

/// Called after every [`ask`].
pub static WATCH: OnceLock<Watch> = OnceLock::new();

/// Sends a request on a new connection and reads the response.
pub fn ask(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Answer {
    let bytes = bytes.as_ref();
    let answer = Wire::to(address).send(bytes).answer().expect("an answer");
    if let Some(watch) = WATCH.get() {
        watch(address, bytes, &answer);
    }
    answer
}

/// Builds a request with `Host`, and with `Content-Length` if there is a body.
pub fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text
}
