//! `kill -9` under full traffic, many times. Afterwards every acknowledged change is there, every revoked token is refused,
//! and no command is half done.

use super::traffic::{Acknowledged, DeviceClient, sign_in, wait_until};
use crate::browser::Browser;
use crate::support::{Demo, Place, Running, is_soak};
use server::testing::{TestPlace, free_port};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Each round interrupts another moment: of the write-ahead log, or of the protocol of a database server.
const ROUNDS: usize = 6;
const SOAK_ROUNDS: usize = 40;
/// The crashes are spread over this time.
const FIRST_CRASH_MS: u64 = 40;
const SPREAD_MS: u64 = 460;
/// Device codes before each crash, at least.
const CODES: usize = 20;
/// Grants before each round: to refresh, to revoke, to redeem.
const CHAINS: usize = 3;
const REVOCATIONS: usize = 12;
const REDEMPTIONS: usize = 12;

#[test]
fn soak_acknowledged_changes_survive_many_kills() {
    let database = TestPlace::create();
    let (place, listen) = (Place::new(), format!("127.0.0.1:{}", free_port()));
    let start = || Demo::start_at(&place, &listen, Some(&database.url()));
    let rounds = if is_soak() { SOAK_ROUNDS } else { ROUNDS };
    let mut total = 0;
    for round in 0..rounds {
        let demo = start();
        let terminal = DeviceClient::new(&demo.says);
        let mut ada = Browser::new(demo.issuer());
        sign_in(&mut ada, &demo.says);
        let moment = FIRST_CRASH_MS + SPREAD_MS * round as u64 / rounds as u64;
        let acknowledged = traffic(&terminal, &mut ada, demo.running, Duration::from_millis(moment));
        total += acknowledged.codes.len();

        let demo = start();
        acknowledged.check(&DeviceClient::new(&demo.says), &format!("round {round}"));
        assert_eq!(demo.running.stop(), 0, "a clean shutdown");
    }
    println!("{total} acknowledged device codes survived {rounds} kills");
}

/// Full traffic of all kinds of writes, ended by SIGKILL.
fn traffic(terminal: &DeviceClient, ada: &mut Browser, running: Running, moment: Duration) -> Acknowledged {
    let mut grant = || terminal.grant(ada).text("refresh_token");
    let chains: Vec<String> = (0..CHAINS).map(|_| grant()).collect();
    let to_revoke: Vec<String> = (0..REVOCATIONS).map(|_| grant()).collect();
    let to_redeem: Vec<String> = (0..REDEMPTIONS).map(|_| terminal.allowed(ada)).collect();
    let killed = AtomicBool::new(false);
    let seen = Arc::new(Mutex::new(Acknowledged::default()));
    std::thread::scope(|scope| {
        let (killed, goes_on) = (&killed, || !killed.load(Ordering::SeqCst));
        for _ in 0..4 {
            let (terminal, seen) = (terminal.clone(), seen.clone());
            scope.spawn(move || {
                while goes_on()
                    && let Some(answer) = terminal.begin()
                {
                    seen.lock().expect("a lock").codes.push(answer.given("device_code"));
                }
            });
        }
        for mut token in chains {
            let (terminal, seen) = (terminal.clone(), seen.clone());
            scope.spawn(move || {
                while goes_on()
                    && let Some(answer) = terminal.refresh(&token)
                {
                    token = answer.given("refresh_token");
                }
                seen.lock().expect("a lock").newest_refresh_tokens.push(token);
            });
        }
        let (revoking, revoked) = (terminal.clone(), seen.clone());
        scope.spawn(move || {
            for token in to_revoke {
                let Some(answer) = revoking.revoke(&token) else { return };
                assert_eq!(answer.status, 200, "{answer:?}");
                revoked.lock().expect("a lock").revoked.push(token);
            }
        });
        let (redeeming, redeemed) = (terminal.clone(), seen.clone());
        scope.spawn(move || {
            for code in to_redeem {
                let answer = redeeming.redeem(&code);
                let mut seen = redeemed.lock().expect("a lock");
                match answer {
                    Some(answer) => {
                        let token = answer.given("refresh_token");
                        seen.redeemed.push((code, token));
                    }
                    None => seen.not_redeemed.push(code),
                }
            }
        });
        // The moment of the crash: another one in each round.
        let crash = std::sync::mpsc::channel::<()>();
        let _ = crash.1.recv_timeout(moment);
        wait_until("there is traffic", || seen.lock().expect("a lock").codes.len() > CODES);
        // Dropping it is SIGKILL.
        drop(running);
        killed.store(true, Ordering::SeqCst);
    });
    Arc::into_inner(seen).expect("all threads have ended").into_inner().expect("a lock")
}
