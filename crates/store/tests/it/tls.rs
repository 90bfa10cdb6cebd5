//! Over TLS, to servers whose certificates were made for the test: who is encrypted, and who is refused.

use crate::support::MIGRATIONS;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use store::testing::own_mariadb::OwnMariaDb;
use store::testing::own_server::OwnServer;
use store::testing::{certificates, say_skipped};
use store::{Error, Options, Sql, Store, args, sql};

#[tokio::test]
async fn postgres_speaks_tls_and_must_be_the_right_server() {
    static ENCRYPTED: Sql = sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    let mut made = None;
    let server = OwnServer::start_with(|folder| {
        made = certificates::make(folder);
        if made.is_none() {
            return String::new();
        }
        let file = |name: &str| folder.join(name).display().to_string();
        format!("-c ssl=on -c ssl_cert_file={} -c ssl_key_file={}", file("server.pem"), file("server.key"))
    });
    let Some(server) = server else { return };
    if made.is_none() {
        return say_skipped("over TLS: there is no openssl to make certificates with");
    }
    let authority = server.folder().join("ca.pem").display().to_string();
    let open = |host: &str, query: &str| {
        Store::open(Options::new(format!("{}?{query}", server.url_at(host, server.port)), MIGRATIONS))
    };
    let verified = format!("sslmode=verify-full&sslrootcert={authority}");
    let implied = format!("sslrootcert={authority}");
    for (query, encrypted) in [
        ("sslmode=require", 1),
        ("sslmode=prefer", 1),
        ("sslmode=disable", 0),
        (&*verified, 1),
        (&*implied, 1),
    ] {
        let store = open("localhost", query).expect("opens");
        let read = store.read(|snapshot| snapshot.one(&ENCRYPTED, args![], |row| row.get::<i64>(0)));
        assert_eq!(read.await.map_err(|error: Error| error).expect("reads"), Some(encrypted), "{query}");
        store.close();
    }
    let foreign = format!("sslrootcert={}", server.folder().join("foreign.pem").display());
    let nowhere = format!("sslmode=require&sslrootcert={authority}.not");
    for (host, query, why) in [
        ("127.0.0.1", &*verified, "not valid for name"),
        ("127.0.0.1", &*implied, "not valid for name"),
        ("localhost", "sslmode=verify-full", "UnknownIssuer"),
        ("localhost", &*foreign, "certificate"),
        ("localhost", &*nowhere, "sslrootcert"),
    ] {
        let Err(refused) = open(host, query) else { panic!("opened: {query}") };
        assert!(refused.to_string().contains(why), "{query}: {refused}");
        assert!(!refused.to_string().contains(&server.password), "{refused}");
    }
}

/// Somebody between the program and its server says that there is no TLS, and reads what is sent then.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_gets_no_password_without_tls_from_a_url_that_names_an_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    if certificates::make(folder.path()).is_none() {
        return say_skipped("over TLS: there is no openssl to make certificates with");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let listening = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let mut asks = [0; 8];
        client.read_exact(&mut asks).expect("asks for TLS");
        client.write_all(b"N").expect("answers");
        // A client that goes on sends its user's name, and gets a question for the password.
        let mut first = [0; 1];
        client.read(&mut first).expect("a byte or the end")
    });
    let authority = folder.path().join("ca.pem").display().to_string();
    let url = format!("postgres://ada:hunter2@127.0.0.1:{port}/sarsen?sslrootcert={authority}");
    let opened = tokio::task::spawn_blocking(move || Store::open(Options::new(url, MIGRATIONS)));
    let refused = opened.await.expect("ends").err().expect("refused").to_string();
    assert!(refused.contains("sslrootcert") && !refused.contains("hunter2"), "{refused}");
    assert_eq!(listening.join().expect("ends"), 0, "it sent something in the clear");
}

/// Opens a store there, and says whether its connections are encrypted.
async fn is_encrypted(url: String) -> Result<bool, Error> {
    static CIPHER: Sql = sql("SELECT variable_value FROM information_schema.session_status
        WHERE variable_name = 'Ssl_cipher'");
    let store = Store::open(Options::new(url, MIGRATIONS))?;
    let read = store.read(|snapshot| snapshot.one(&CIPHER, args![], |row| row.get::<String>(0)));
    let cipher = read.await.map_err(|error: Error| error);
    store.close();
    Ok(cipher?.is_some_and(|cipher| !cipher.is_empty()))
}

#[tokio::test]
async fn mariadb_speaks_tls_and_must_be_the_right_server() {
    let mut made = None;
    let server = OwnMariaDb::start_with(|folder| {
        made = certificates::make(folder);
        let file = |name: &str| folder.join(name).display().to_string();
        match made {
            Some(()) => {
                vec![
                    format!("--ssl-cert={}", file("server.pem")),
                    format!("--ssl-key={}", file("server.key")),
                ]
            }
            None => vec![],
        }
    });
    let Some(server) = server else { return };
    if made.is_none() {
        return say_skipped("over TLS: there is no openssl to make certificates with");
    }
    let authority = server.folder().join("ca.pem").display().to_string();
    let open = |host: &str, query: &str| is_encrypted(format!("{}?{query}", server.url_at(host)));
    let verified = format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={authority}");
    let implied = format!("ssl-ca={authority}");
    for (query, encrypted) in [
        ("", true),
        ("ssl-mode=PREFERRED", true),
        ("ssl-mode=required", true),
        ("ssl-mode=DISABLED", false),
        (&*verified, true),
        (&*implied, true),
    ] {
        assert_eq!(open("localhost", query).await.expect("opens"), encrypted, "{query}");
    }
    let foreign = format!("ssl-ca={}", server.folder().join("foreign.pem").display());
    let nowhere = format!("ssl-ca={authority}.not");
    let senseless = format!("ssl-ca={}", server.folder().join("names").display());
    for (host, query, why) in [
        ("127.0.0.1", &*verified, "not valid for name"),
        ("127.0.0.1", &*implied, "not valid for name"),
        ("localhost", "ssl-mode=VERIFY_IDENTITY", "UnknownIssuer"),
        ("localhost", &*foreign, "certificate"),
        ("localhost", &*nowhere, "ssl-ca"),
        ("localhost", &*senseless, "expected PEM"),
    ] {
        let refused = open(host, query).await.expect_err("refused").to_string();
        assert!(refused.contains(why) && refused.contains("ssl-ca"), "{query}: {refused}");
        assert!(!refused.contains(&server.password), "{refused}");
    }
}

#[tokio::test]
async fn mariadb_without_tls_is_refused_by_all_who_asked_for_it() {
    let Some(server) = OwnMariaDb::start_with(|_| vec!["--skip-ssl".to_owned()]) else { return };
    let open = |query: &str| is_encrypted(format!("{}?{query}", server.url_at("127.0.0.1")));
    for query in ["", "ssl-mode=PREFERRED", "ssl-mode=DISABLED"] {
        assert!(!open(query).await.expect("opens"), "{query}");
    }
    for query in ["ssl-mode=REQUIRED", "ssl-mode=VERIFY_IDENTITY"] {
        let refused = open(query).await.expect_err("refused").to_string();
        assert!(refused.contains("offers no TLS") && refused.contains("ssl-mode"), "{query}: {refused}");
        assert!(!refused.contains(&server.password), "{refused}");
    }
}
