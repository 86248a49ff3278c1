//! Which certificates are trusted, and the errors for those that are not.

use std::cell::Cell;
use std::future::pending;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::{StatusCode, Version};
use tokio::io::AsyncReadExt;

use super::server::{GOOD, Issuer, Scratch, Server, Wanted, http1};
use super::{connector, get, options, post, run};
use crate::connection::{ClientIdentity, ConnectOptions, Connector, HttpVersion, Stamp, Trust};
use crate::failure::{Failure, TlsFault};
use crate::target::Target;

fn https(server: &Server, options: &ConnectOptions) -> Connector {
    Connector::new(&Target::parse(&server.url("https")).unwrap(), options).unwrap()
}

fn trusting(issuer: &Issuer) -> (ConnectOptions, Scratch) {
    let file = issuer.pem();
    let trust = Trust::File(file.0.clone());
    (options(HttpVersion::Http1, trust), file)
}

#[test]
fn a_certificate_of_a_named_authority_is_trusted() {
    run(async {
        let issuer = Issuer::new("ours");
        let server = Server::start(Some(issuer.server(&GOOD, &[])), http1).await;
        let (options, _file) = trusting(&issuer);
        let mut connection = https(&server, &options).open(server.address).await.unwrap();
        let answer = connection
            .round_trip(&post("/", "1234"), &Stamp::default())
            .await;
        let (status, bytes) = (StatusCode::OK, 6);
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.bytes), (status, bytes));
        assert_eq!(connection.version(), Version::HTTP_11);
    });
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_apart() {
    let (ours, theirs) = (Issuer::new("ours"), Issuer::new("theirs"));
    let impostor = Issuer::new("ours");
    let expired = Wanted {
        years: (2020, 2021),
        ..GOOD
    };
    let early = Wanted {
        years: (2119, 2120),
        ..GOOD
    };
    let other = Wanted {
        name: "other.test",
        ..GOOD
    };
    let authority = Wanted {
        is_authority: true,
        ..GOOD
    };
    for (issuer, wanted, fault, text) in [
        (
            &theirs,
            &GOOD,
            TlsFault::UnknownIssuer,
            "certificate not trusted (unknown issuer)",
        ),
        (
            &impostor,
            &GOOD,
            TlsFault::UnknownIssuer,
            "certificate not trusted (unknown issuer)",
        ),
        (
            &ours,
            &expired,
            TlsFault::Expired,
            "certificate has expired",
        ),
        (
            &ours,
            &early,
            TlsFault::NotYetValid,
            "certificate is not valid yet",
        ),
        (
            &ours,
            &other,
            TlsFault::WrongName,
            "certificate is for another host",
        ),
        (
            &ours,
            &authority,
            TlsFault::Authority,
            "certificate is an authority's, not a server's",
        ),
    ] {
        run(async {
            let server = Server::start(Some(issuer.server(wanted, &[])), http1).await;
            let (options, _file) = trusting(&ours);
            let failure = https(&server, &options)
                .open(server.address)
                .await
                .unwrap_err();
            assert_eq!(failure, Failure::Tls(fault));
            assert_eq!(failure.to_string(), text);
            assert!(
                failure.advice().unwrap().contains("--insecure accepts"),
                "{failure}"
            );

            // With `insecure`, the client accepts it anyway.
            let mut connection = connector(&server.url("https"), HttpVersion::Http1)
                .open(server.address)
                .await
                .unwrap();
            let answer = connection.round_trip(&get("/"), &Stamp::default()).await;
            assert_eq!(answer.unwrap().status, StatusCode::OK);
        });
    }
}

/// As curl does: `openssl req -x509` makes an authority of the server, whose only name is the common name.
#[test]
fn a_certificate_that_is_in_the_file_itself_is_trusted() {
    let issuer = Issuer::new("theirs");
    let authority = Wanted {
        is_authority: true,
        ..GOOD
    };
    let plain = Wanted {
        has_names: false,
        ..authority
    };
    let expired = Wanted {
        years: (2020, 2021),
        ..plain
    };
    let other = Wanted {
        name: "other.test",
        ..plain
    };
    let other_name = Wanted {
        has_names: true,
        ..other
    };
    let fault = |fault| Err(Failure::Tls(fault));
    for (wanted, is_own, expected) in [
        (&GOOD, true, Ok(())),
        (&authority, true, Ok(())),
        (&plain, true, Ok(())),
        // Its issuer is not in the file.
        (&GOOD, false, Ok(())),
        (&plain, false, Ok(())),
        (&expired, true, fault(TlsFault::Expired)),
        (&other, true, fault(TlsFault::WrongName)),
        (&other_name, true, fault(TlsFault::WrongName)),
        (&other_name, false, fault(TlsFault::WrongName)),
    ] {
        run(async {
            let (config, file) = issuer.pinned(wanted, is_own);
            let server = Server::start(Some(config), http1).await;
            let options = options(HttpVersion::Http1, Trust::File(file.0.clone()));
            let opened = https(&server, &options).open(server.address).await;
            assert_eq!(opened.map(drop), expected, "{} {is_own}", wanted.name);

            // Another one for the same name, by the same issuer, is not in the file.
            let (config, _) = issuer.pinned(wanted, is_own);
            let impostor = Server::start(Some(config), http1).await;
            let opened = https(&impostor, &options).open(impostor.address).await;
            assert!(matches!(opened, Err(Failure::Tls(_))), "{}", wanted.name);
        });
    }
}

#[test]
fn another_name_may_be_asked_for() {
    run(async {
        let issuer = Issuer::new("ours");
        let wanted = Wanted {
            name: "other.test",
            ..GOOD
        };
        let server = Server::start(Some(issuer.server(&wanted, &[])), http1).await;
        let (mut options, _file) = trusting(&issuer);
        options.server_name = Some("other.test".to_owned());
        https(&server, &options).open(server.address).await.unwrap();
    });
}

#[test]
fn an_address_is_a_name_too() {
    run(async {
        let issuer = Issuer::new("ours");
        let wanted = Wanted {
            name: "127.0.0.1",
            ..GOOD
        };
        let server = Server::start(Some(issuer.server(&wanted, &[])), http1).await;
        let (options, _file) = trusting(&issuer);
        let target = Target::parse(&format!("https://{}/", server.address)).unwrap();
        let connector = Connector::new(&target, &options).unwrap();
        connector.open(server.address).await.unwrap();
    });
}

#[test]
fn https_to_a_plain_server_and_http_to_an_encrypted_one_fail_clearly() {
    run(async {
        let plain = Server::start(None, http1).await;
        let failure = connector(&plain.url("https"), HttpVersion::Http1)
            .open(plain.address)
            .await
            .unwrap_err();
        assert_eq!(failure, Failure::Tls(TlsFault::NotTls));
        assert_eq!(failure.to_string(), "answer is not TLS");
        assert_eq!(
            failure.advice(),
            Some("check whether the URL should begin with http://")
        );

        let tls = Issuer::new("ours").server(&GOOD, &[]);
        let encrypted = Server::start(Some(tls), http1).await;
        let mut connection = connector(&encrypted.url("http"), HttpVersion::Http1)
            .open(encrypted.address)
            .await
            .unwrap();
        let answer = connection.round_trip(&get("/"), &Stamp::default()).await;
        assert_eq!(answer, Err(Failure::NotHttp));
        assert!(!connection.is_open().await);
    });
}

#[test]
fn http2_is_agreed_on_in_the_handshake_or_not_at_all() {
    use HttpVersion::{Http1, Http2, Negotiated};
    let absent = Err(Failure::Tls(TlsFault::NoCommonProtocol));
    for (version, offered, expected) in [
        (Http1, &["h2", "http/1.1"][..], Ok(Version::HTTP_11)),
        (Http1, &[], Ok(Version::HTTP_11)),
        (Http1, &["h2"], absent),
        (Http2, &["http/1.1"], absent),
        (Http2, &[], absent),
        (Negotiated, &["h2", "http/1.1"], Ok(Version::HTTP_2)),
        // The server prefers it.
        (Negotiated, &["http/1.1", "h2"], Ok(Version::HTTP_11)),
        (Negotiated, &["http/1.1"], Ok(Version::HTTP_11)),
        (Negotiated, &[], Ok(Version::HTTP_11)),
        (Http2, &["h2", "http/1.1"], Ok(Version::HTTP_2)),
    ] {
        run(async {
            let tls = Issuer::new("ours").server(&GOOD, offered);
            let server = Server::start(Some(tls), move |stream| async move {
                match expected {
                    Ok(Version::HTTP_2) => super::http2::answer_all(stream).await,
                    _ => http1(stream).await,
                }
            })
            .await;
            let connector = connector(&server.url("https"), version);
            let opened = connector.open(server.address).await;
            let opened = opened.map(|connection| connection.version());
            assert_eq!(opened, expected, "{version:?} of {offered:?}");
        });
    }
}

#[test]
fn a_server_that_wants_a_certificate_of_ours_is_told_from_others() {
    run(async {
        let tls = Issuer::new("ours").strict_server(&[]);
        let server = Server::start(Some(tls), http1).await;
        let connector = connector(&server.url("https"), HttpVersion::Http1);
        // With TLS 1.3, the server reports it only after the client's side of the handshake is complete.
        let outcome = match connector.open(server.address).await {
            Ok(mut open) => open
                .round_trip(&get("/"), &Stamp::default())
                .await
                .map(drop),
            Err(failure) => Err(failure),
        };
        assert_eq!(outcome, Err(Failure::Tls(TlsFault::WantsCertificate)));
    });
    run(async {
        let tls = Issuer::new("ours").strict_server(&["h2"]);
        let server = Server::start(Some(tls), super::http2::answer_all).await;
        let connector = connector(&server.url("https"), HttpVersion::Http2);
        let failure = connector.open(server.address).await.unwrap_err();
        assert!(matches!(failure, Failure::Tls(_)), "{failure:?}");
    });
}

#[test]
fn a_client_certificate_is_shown_to_a_server_that_wants_one() {
    let (ours, theirs) = (Issuer::new("ours"), Issuer::new("theirs"));
    for (version, issuer, is_accepted) in [
        (HttpVersion::Http1, &ours, true),
        (HttpVersion::Http2, &ours, true),
        (HttpVersion::Http1, &theirs, false),
    ] {
        run(async {
            let tls = ours.strict_server(&["h2", "http/1.1"]);
            let server = Server::start(Some(tls), move |stream| async move {
                match version {
                    HttpVersion::Http2 => super::http2::answer_all(stream).await,
                    _ => http1(stream).await,
                }
            })
            .await;
            let file = issuer.client();
            let mut options = options(version, Trust::Anyone);
            options.identity = Some(ClientIdentity {
                certificates: file.0.clone(),
                key: file.0.clone(),
            });
            let outcome = match https(&server, &options).open(server.address).await {
                Ok(mut open) => open.round_trip(&get("/"), &Stamp::default()).await,
                Err(failure) => Err(failure),
            };
            let is_refused = matches!(outcome, Err(Failure::Tls(_)));
            assert_eq!(
                (outcome.is_ok(), is_refused),
                (is_accepted, !is_accepted),
                "{outcome:?}"
            );
        });
    }
}

/// A pipe can be read only once, and a file takes time.
#[cfg(unix)]
#[test]
fn certificates_are_read_once_for_all_servers() {
    let pipe = std::env::temp_dir().join(format!("flowgate-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pem = std::fs::read(&Issuer::new("ours").client().0).unwrap();
    let reads = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (path, count) = (pipe.clone(), reads.clone());
    std::thread::spawn(move || {
        // Ends with the file, or with the process.
        while let Ok(mut end) = std::fs::OpenOptions::new().write(true).open(&path) {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let _ = std::io::Write::write_all(&mut end, &pem);
            drop(end);
            // Until the reader has seen the end.
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut options = options(HttpVersion::Http1, Trust::Anyone);
    options.identity = Some(ClientIdentity {
        certificates: pipe.clone(),
        key: pipe.clone(),
    });
    let targets = ["https://localhost/", "http://localhost/", "https://[::1]/"];
    let targets = targets.map(|url| Target::parse(url).unwrap());
    let connectors = Connector::each(&targets.each_ref(), &options).unwrap();
    assert_eq!(connectors.len(), 3);
    assert_eq!(reads.load(std::sync::atomic::Ordering::SeqCst), 1);
    std::fs::remove_file(&pipe).unwrap();
}

#[test]
fn files_without_a_client_certificate_say_what_is_wrong() {
    let target = Target::parse("https://localhost/").unwrap();
    let (whole, other) = (Issuer::new("ours").client(), Issuer::new("ours").client());
    let (empty, only) = (Scratch::holding("nothing\n"), Issuer::new("ours").pem());
    for (certificates, key, text) in [
        (
            Path::new("/no/such.pem"),
            whole.0.as_path(),
            "cannot read \"/no/such.pem\": No such file",
        ),
        (
            &whole.0,
            Path::new("/no/such.key"),
            "cannot read \"/no/such.key\": No such file",
        ),
        (
            &empty.0,
            &whole.0,
            "holds no certificate: give a PEM file that has",
        ),
        (
            &whole.0,
            &only.0,
            "holds no private key: give a PEM file that has",
        ),
        (&whole.0, &other.0, "cannot be used with its key: "),
    ] {
        let mut options = options(HttpVersion::Http1, Trust::Anyone);
        options.identity = Some(ClientIdentity {
            certificates: certificates.to_owned(),
            key: key.to_owned(),
        });
        let error = Connector::new(&target, &options).err().unwrap().to_string();
        assert!(error.contains(text) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_handshake_has_a_time_limit_and_may_be_broken_off() {
    run(async {
        let silent = Server::tcp(|stream| async move {
            let _stream = stream;
            pending::<()>().await;
        })
        .await;
        let hasty = Server::tcp(|mut stream| async move {
            // Read, so that closing causes no reset.
            let _ = stream.read(&mut [0; 4096]).await;
        })
        .await;
        let mut options = options(HttpVersion::Http1, Trust::Anyone);
        let failure = https(&hasty, &options)
            .open(hasty.address)
            .await
            .unwrap_err();
        assert_eq!(failure, Failure::Tls(TlsFault::Broken));
        options.timeout = Duration::from_millis(50);
        let failure = https(&silent, &options)
            .open(silent.address)
            .await
            .unwrap_err();
        assert_eq!(failure, Failure::Timeout);
    });
}

#[test]
fn a_stamp_comes_after_the_handshake() {
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        run(async {
            let tls = Issuer::new("ours").server(&GOOD, &["h2", "http/1.1"]);
            let server = Server::start(Some(tls), move |stream| async move {
                match version {
                    HttpVersion::Http2 => super::http2::answer_all(stream).await,
                    _ => http1(stream).await,
                }
            })
            .await;
            let told = Rc::new(Cell::new(0));
            let stamp = Stamp::new({
                let told = told.clone();
                move |_| told.set(told.get() + 1)
            });
            stamp.arm();
            let connector = connector(&server.url("https"), version);
            let mut connection = connector.open(server.address).await.unwrap();
            let opened = Instant::now();
            assert_eq!((stamp.sent(), told.get()), (None, 0));
            for k in 1..=3 {
                stamp.arm();
                assert_eq!(stamp.sent(), None);
                // More than one TLS record, and more than one write.
                let body = vec![0; 300_000];
                connection
                    .round_trip(&post("/", body), &stamp)
                    .await
                    .unwrap();
                assert!(stamp.sent().unwrap() >= opened);
                assert_eq!(told.get(), k);
            }
        });
    }
}

#[test]
fn files_without_certificates_say_what_is_wrong() {
    let target = Target::parse("https://localhost/").unwrap();
    let (empty, garbage) = (
        Scratch::holding("nothing\n"),
        Scratch::holding("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    );
    for (path, text) in [
        (
            Path::new("/no/such.pem"),
            "cannot read \"/no/such.pem\": No such file",
        ),
        (&empty.0, "holds no certificate: give a PEM file that has"),
        (&garbage.0, "holds a certificate that cannot be used: "),
    ] {
        let options = options(HttpVersion::Http1, Trust::File(path.to_owned()));
        let error = Connector::new(&target, &options).err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
        assert!(!error.contains('\n'), "{error}");
        // Without TLS the certificates are not needed.
        let plain = Target::parse("http://localhost/").unwrap();
        assert!(Connector::new(&plain, &options).is_ok());
    }
    let nameless = ConnectOptions {
        server_name: Some("a b".to_owned()),
        ..options(HttpVersion::Http1, Trust::Anyone)
    };
    let error = Connector::new(&target, &nameless).err().unwrap();
    assert_eq!(
        error.to_string(),
        "\"a b\" is not a host name that a certificate could hold",
    );
}
