//! Tests of composing mails, masking server replies, and slow-drip servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use data_encoding::BASE64;
use proptest::prelude::*;

use super::replies::{REPLY_MAX, TIMED_OUT};
use super::*;
use crate::mailer::InlineImage;
use playgate_types::{MailId, UnixSeconds};

fn settings() -> SmtpSettings {
    SmtpSettings {
        host: "mail.example".to_owned(),
        port: 25,
        security: SmtpSecurity::None,
        ca: None,
        hello: None,
        service: None,
        login: Some(SmtpLogin::Password(
            "tv".to_owned(),
            "hunter2 hunter2".to_owned(),
        )),
        from_name: Some("Åsa, \"TV\"".to_owned()),
        from: Email::parse("tv@example.org").unwrap(),
        timeout: Duration::from_secs(60),
    }
}

fn mail(to: &str, subject: &str) -> OutgoingMail {
    OutgoingMail {
        id: MailId::from_bytes([7; 16]),
        to: Email::parse(to).unwrap(),
        date: UnixSeconds(1_767_225_600),
        subject: subject.to_owned(),
        text: "Hej på dig\n.\nQUIT\n".to_owned(),
        html: "<p>Hej på dig</p>".to_owned(),
        logo: None,
    }
}

fn composed(mail: &OutgoingMail) -> String {
    let mailer = SmtpMailer::new(settings()).unwrap();
    let (_, message) = mailer.compose(mail).unwrap();
    String::from_utf8(message).unwrap()
}

#[test]
fn a_message_has_its_headers_and_both_parts() {
    let message = composed(&mail("ann@example.com", "Välj ett nytt lösenord"));
    let (head, body) = message.split_once("\r\n\r\n").unwrap();
    for line in [
        "To: ann@example.com",
        "Message-ID: <BwcHBwcHBwcHBwcHBwcHBw@example.org>",
        "Date: Thu, 01 Jan 2026 00:00:00 +0000",
        "Auto-Submitted: auto-generated",
        "MIME-Version: 1.0",
    ] {
        assert!(head.lines().any(|l| l == line), "{line} is not in\n{head}");
    }
    assert!(head.contains("tv@example.org>") && message.is_ascii());
    assert!(body.contains("Content-Type: text/plain") && body.contains("Content-Type: text/html"));
    let far = OutgoingMail {
        date: UnixSeconds(i64::MAX),
        ..mail("a@b.example", "x")
    };
    assert!(composed(&far).contains("31 Dec 9999"));
}

#[test]
fn a_logo_is_part_of_the_html_and_no_attachment() {
    let logo = InlineImage {
        media: "image/png",
        bytes: b"\x89PNG"[..].into(),
    };
    let message = composed(&OutgoingMail {
        logo: Some(logo),
        ..mail("ann@example.com", "x")
    });
    let at = |text: &str| {
        message
            .find(text)
            .unwrap_or_else(|| panic!("{text} in {message}"))
    };
    let order = [
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
    ];
    assert!(order.map(at).is_sorted(), "{message}");
    assert!(
        message.contains("Content-ID: <logo>") && message.contains("Content-Disposition: inline")
    );
    assert!(message.contains(&BASE64.encode(b"\x89PNG")) && !message.contains("attachment"));
}

#[test]
fn a_server_reply_is_one_short_line_without_credentials() {
    let mask = SmtpMailer::new(settings()).unwrap().mask();
    let plain = BASE64.encode(b"\0tv\0hunter2 hunter2");
    let said = format!(
        "no\r\n {plain} \u{1b}[31m hunter2 hunter2 {}",
        "x".repeat(1_000)
    );
    let reply = mask.line(&said);
    assert!(
        reply.starts_with("no ******** [31m ******** xxx"),
        "{reply}"
    );
    assert_eq!(reply.chars().count(), REPLY_MAX);
}

#[test]
fn a_file_of_certificates_must_hold_one() {
    let with = |ca: &[u8]| SmtpSettings {
        security: SmtpSecurity::Tls,
        ca: Some(ca.to_vec()),
        ..settings()
    };
    for bad in [
        &b""[..],
        b"not a certificate",
        b"-----BEGIN CERTIFICATE-----\nx\n",
    ] {
        let error = SmtpMailer::new(with(bad)).err().unwrap().to_string();
        assert!(error.starts_with("`smtp.ca`"), "{error}");
    }
}

/// A server that gives `whole` complete replies and drips the next one until the client disconnects. Returns
/// its port, and whether the client disconnected before the reply was complete.
fn dripping(whole: usize) -> (u16, JoinHandle<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut answer = "220 mail.example\r\n";
        for _ in 0..whole {
            (&stream).write_all(answer.as_bytes()).unwrap();
            let line = lines.next().unwrap().unwrap();
            answer = if line == "DATA" {
                "354 go on\r\n"
            } else {
                "250 mail.example\r\n"
            };
        }
        drips(&stream, answer)
    });
    (port, server)
}

/// Writes a byte at a time, the last one much too late; returns whether the client disconnected before.
fn drips(mut stream: &TcpStream, answer: &str) -> bool {
    let filler = answer.replacen(' ', "-", 1).trim_end().to_owned() + &"x".repeat(500);
    let left = filler.bytes().any(|byte| {
        thread::park_timeout(Duration::from_millis(20));
        stream.write_all(&[byte]).is_err()
    });
    left || stream
        .write_all(format!("\r\n{answer}").as_bytes())
        .is_err()
}

#[test]
fn a_slow_drip_server_times_out_like_a_silent_one() {
    // Greeting, EHLO, sender, recipient, DATA, the message. Together, because each waits for its time-out.
    thread::scope(|scope| {
        for whole in 0..6 {
            scope.spawn(move || a_response_that_drips_times_out(whole));
        }
    });
}

/// `whole` responses come at once, and the next one drips.
fn a_response_that_drips_times_out(whole: usize) {
    let (port, server) = dripping(whole);
    let mailer = SmtpMailer::new(SmtpSettings {
        host: "127.0.0.1".to_owned(),
        port,
        login: None,
        // Far above the time of a whole response on a busy machine, and far below that of a dripping one.
        timeout: Duration::from_secs(3),
        ..settings()
    });
    let mut dialogue = SmtpTranscript::new();
    let sent = mailer
        .unwrap()
        .connect(&mut dialogue)
        .map_err(SendError::Unavailable)
        .and_then(|mut line| line.send(&mail("ann@example.com", "x"), &mut dialogue));
    let late = TIMED_OUT.to_owned();
    let of_server = ServerUnavailable {
        response: late.clone(),
        lasting: false,
    };
    let expected = match whole {
        0..=2 => SendError::Unavailable(of_server),
        _ => SendError::Later(late),
    };
    assert_eq!(sent, Err(expected), "{whole}: {dialogue:?}");
    assert!(
        dialogue.last().unwrap().ends_with(TIMED_OUT),
        "{dialogue:?}"
    );
    assert!(server.join().unwrap(), "{whole}: the connection is let go");
}

proptest! {
    /// No address and no subject can add a header or a recipient.
    #[test]
    fn no_input_injects_a_header(
        local in "[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(\\.[a-z0-9!#$%&'*+-]{1,9})?",
        subject in "[^\r\n]{0,80}",
    ) {
        let to = format!("{local}@example.com");
        let mail = mail(&to, &subject);
        let message = composed(&mail);
        let (head, _) = message.split_once("\r\n\r\n").unwrap();
        let names: Vec<&str> = head
            .split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']))
            .map(|line| line.split(':').next().unwrap())
            .collect();
        prop_assert_eq!(names.iter().filter(|name| **name == "To").count(), 1);
        prop_assert_eq!(names.len(), 8, "{}", head);
        prop_assert!(!message.replace("\r\n", "").contains(['\r', '\n']));
    }
}
