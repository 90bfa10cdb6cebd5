//! `kill -9` in the middle of full traffic, again and again: whatever was acknowledged is there afterwards,
//! nothing that was acknowledged as revoked is accepted, and no half of a command shows.

use super::traffic::{Acknowledged, Terminal, sign_in, soon};
use crate::browser::Browser;
use crate::support::{Demo, Place, Running};
use server::testing::{TestPlace, free_port};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// On a file each round tears another moment of its log. A server's log is the server's: what a round can tear there
/// is a conversation with it, and fewer rounds see all of its places in the time that twenty take on a file.
const ROUNDS: usize = 20;
const ROUNDS_ON_A_SERVER: usize = 8;
/// The moments of the crashes are spread over this.
const FIRST_CRASH_MS: u64 = 40;
const SPREAD_MS: u64 = 460;
/// Codes that each round has given before its crash, at least.
const CODES: usize = 20;
/// Grants made before each round: to be refreshed, to be revoked, to be redeemed.
const CHAINS: usize = 3;
const REVOCATIONS: usize = 12;
const REDEMPTIONS: usize = 12;

#[test]
fn what_was_acknowledged_survives_kill_9_again_and_again() {
    let database = TestPlace::create();
    let (place, listen) = (Place::new(), format!("127.0.0.1:{}", free_port()));
    let start = || Demo::start_at(&place, &listen, Some(&database.url()));
    let rounds = if database.is_shared() { ROUNDS_ON_A_SERVER } else { ROUNDS };
    let mut total = 0;
    for round in 0..rounds {
        let demo = start();
        let terminal = Terminal::new(&demo.says);
        let mut ada = Browser::new(demo.issuer());
        sign_in(&mut ada, &demo.says);
        let moment = FIRST_CRASH_MS + SPREAD_MS * round as u64 / rounds as u64;
        let acknowledged = traffic(&terminal, &mut ada, demo.running, Duration::from_millis(moment));
        total += acknowledged.codes.len();

        let demo = start();
        acknowledged.check(&Terminal::new(&demo.says), &format!("round {round}"));
        assert_eq!(demo.running.stop(), 0, "and it ends cleanly");
    }
    println!("{total} acknowledged device codes were there after {rounds} kills");
}

/// Full traffic on all kinds of writes, ended by SIGKILL.
fn traffic(terminal: &Terminal, ada: &mut Browser, running: Running, moment: Duration) -> Acknowledged {
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
                    && let Some(told) = terminal.begin()
                {
                    seen.lock().expect("a lock").codes.push(told.given("device_code"));
                }
            });
        }
        for mut token in chains {
            let (terminal, seen) = (terminal.clone(), seen.clone());
            scope.spawn(move || {
                while goes_on()
                    && let Some(told) = terminal.refresh(&token)
                {
                    token = told.given("refresh_token");
                }
                seen.lock().expect("a lock").newest_refresh_tokens.push(token);
            });
        }
        let (revoking, revoked) = (terminal.clone(), seen.clone());
        scope.spawn(move || {
            for token in to_revoke {
                let Some(told) = revoking.revoke(&token) else { return };
                assert_eq!(told.status, 200, "{told:?}");
                revoked.lock().expect("a lock").revoked.push(token);
            }
        });
        let (redeeming, redeemed) = (terminal.clone(), seen.clone());
        scope.spawn(move || {
            for code in to_redeem {
                let told = redeeming.redeem(&code);
                let mut seen = redeemed.lock().expect("a lock");
                match told {
                    Some(told) => {
                        let token = told.given("refresh_token");
                        seen.redeemed.push((code, token));
                    }
                    None => seen.not_redeemed.push(code),
                }
            }
        });
        // Not a wait for something: the moment of the crash, another one in each round.
        let crash = std::sync::mpsc::channel::<()>();
        let _ = crash.1.recv_timeout(moment);
        soon("there is traffic", || seen.lock().expect("a lock").codes.len() > CODES);
        // Dropping it is SIGKILL.
        drop(running);
        killed.store(true, Ordering::SeqCst);
    });
    Arc::into_inner(seen).expect("all threads have ended").into_inner().expect("a lock")
}
