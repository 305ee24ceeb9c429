//! A server in this process, with a manual clock and an authenticator that knows one partner, one user and one
//! operator.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use playgate_api::route_table::{ROUTERS, http_state};
use playgate_app::{Parts, Ports, open_services};
use playgate_config::limits::LimitsConfig;
use playgate_config::{HttpSettings, Inputs, load};
use playgate_domain::accounts::{FirstPassword, HashMemory, HashPool, NewUser, PoolError};
use playgate_http::server::listener::{serve, unix_socket};
use playgate_http::{
    Authenticator, HttpState, Listener, Messages, OperatorIdentity, PartnerIdentity, RateClass,
    RouteSet, RunningServer, UserIdentity,
};
use playgate_ports::{Clock, LabClock, ManualClock, SeededEntropy};
use playgate_services::Services;
use playgate_store::Store;
use playgate_types::{
    Email, LimitReached, Locale, LoginId, OperatorId, PartnerId, PartnerKind, Role, Token,
    TokenHash, TokenKind, UnixSeconds, UserId,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::openapi_conformance;

/// The time at which every test begins: 2026-01-01T12:00:00Z.
pub const NOON: UnixSeconds = UnixSeconds(1_767_268_800);

/// The tokens that the authenticator knows.
pub struct Tokens {
    pub partner: Token,
    /// The token of another partner, without users.
    pub other_partner: Token,
    /// A token that makes the authenticator panic.
    pub panicking: Token,
    pub user: Token,
    pub admin: Token,
    pub agent: Token,
}

pub struct TestGate {
    pub tokens: Tokens,
    /// The number of further requests that pass, for tests of limits.
    pub admitted: AtomicU32,
    /// The stored partner and user, instead of those that only this gate knows.
    enrolled: OnceLock<(PartnerId, UserId)>,
}

impl TestGate {
    fn partner_and_user(&self) -> (PartnerId, UserId) {
        self.enrolled.get().copied().unwrap_or((PARTNER, USER))
    }
}

pub const USER: UserId = UserId::from_bytes([2; 16]);
const PARTNER: PartnerId = PartnerId::from_bytes([1; 16]);
const OTHER_PARTNER: PartnerId = PartnerId::from_bytes([9; 16]);

impl TestGate {
    pub fn partner_id(&self) -> Option<PartnerId> {
        Some(self.partner_and_user().0)
    }
}

impl Authenticator for TestGate {
    fn partner(&self, token: &TokenHash, _: UnixSeconds) -> Option<PartnerIdentity> {
        assert!(*token != self.tokens.panicking.hash(), "on purpose");
        let partner = if *token == self.tokens.partner.hash() {
            self.partner_and_user().0
        } else if *token == self.tokens.other_partner.hash() {
            OTHER_PARTNER
        } else {
            return None;
        };
        let kind = PartnerKind::Standard;
        Some(PartnerIdentity {
            partner,
            token: *token,
            kind,
            clock_offset: 0,
        })
    }

    fn user(&self, token: &TokenHash, partner: PartnerId, _: UnixSeconds) -> Option<UserIdentity> {
        let (of, user) = self.partner_and_user();
        (*token == self.tokens.user.hash() && partner == of).then_some(UserIdentity {
            user,
            login: LoginId::from_bytes([3; 16]),
        })
    }

    fn operator(&self, token: &TokenHash, _: UnixSeconds) -> Option<OperatorIdentity> {
        let role = if *token == self.tokens.admin.hash() {
            Role::Admin
        } else if *token == self.tokens.agent.hash() {
            Role::Agent
        } else {
            return None;
        };
        Some(OperatorIdentity {
            operator: OperatorId::from_bytes([4; 16]),
            role,
        })
    }

    fn locale(&self, user: UserId) -> Option<Locale> {
        (user == USER).then(|| Locale::parse("sv").unwrap())
    }

    fn admit(
        &self,
        _: RateClass,
        _: Option<PartnerId>,
        _: IpAddr,
        _: UnixSeconds,
    ) -> Result<(), LimitReached> {
        let left = self.admitted.load(Ordering::SeqCst);
        let rest = left.checked_sub(1).ok_or(LimitReached {
            name: "test",
            limit: 1,
            window: 60,
            retry_after: 60,
        })?;
        self.admitted.store(rest, Ordering::SeqCst);
        Ok(())
    }
}

pub struct GateOnly {
    pub public: SocketAddr,
    pub ops: SocketAddr,
    pub socket: PathBuf,
    _folder: TempDir,
    pub gate: Arc<TestGate>,
    pub services: Arc<Services>,
    pub http: Arc<HttpState>,
    pub running: Option<RunningServer>,
    pub runtime: Runtime,
}

/// No test hashes a password: users here have none.
struct NoPool;

impl HashPool for NoPool {
    async fn run<T: Send + 'static>(
        &self,
        _job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        Err(PoolError::Full)
    }
}

impl GateOnly {
    pub fn start() -> Self {
        Self::with(|_, _| {})
    }

    pub fn with(change: impl FnOnce(&mut HttpSettings, &mut LimitsConfig)) -> Self {
        openapi_conformance::watch();
        let gate = Arc::new(TestGate {
            tokens: Tokens {
                partner: Token::new_partner([1; 16]),
                other_partner: Token::new_partner([9; 16]),
                panicking: Token::new_partner([8; 16]),
                user: Token::new(TokenKind::User, [2; 32]),
                admin: Token::new(TokenKind::Operator, [3; 32]),
                agent: Token::new(TokenKind::Operator, [4; 32]),
            },
            admitted: AtomicU32::new(u32::MAX),
            enrolled: OnceLock::new(),
        });
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            demo: true,
            flags: vec![("data_dir", "-", folder.path().to_str().unwrap().to_owned())],
            ..Inputs::default()
        };
        let config = load(&inputs)
            .map_err(|problems| problems.to_string())
            .unwrap()
            .config;
        let lab = Arc::new(LabClock::new(Arc::new(ManualClock::at(NOON))));
        let ports = Ports {
            clock: Arc::clone(&lab) as Arc<dyn Clock>,
            lab: Some(lab),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        let store = Store::in_memory(playgate_records::schema());
        let parts = Parts {
            config,
            store,
            ports,
            listener: None,
            tls: None,
            sync: false,
            on_failure: Box::new(|error| panic!("{error}")),
            examine: Arc::new(|path: &Path| {
                playgate_domain::backups::examine(path, &playgate_records::schema())
            }),
            restart: None,
            is_standby: false,
        };
        let (mut services, mut settings) = open_services(parts).unwrap();
        change(&mut settings, &mut services.limits);
        let services = Arc::new(services);
        let authenticator = Arc::clone(&gate) as Arc<dyn Authenticator>;
        let messages = Messages::built_in(&settings.language).unwrap();
        let http = http_state(Arc::clone(&services), settings, authenticator, messages);
        let http = Arc::new(http.unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let guard = runtime.enter();
        let public = Listener::tcp(local, RouteSet::Public).unwrap();
        let ops = Listener::tcp(local, RouteSet::Ops).unwrap();
        let (public_at, ops_at) = (public.address().unwrap(), ops.address().unwrap());
        let socket = folder.path().join("admin.sock");
        // A stale socket, as after a kill, must be replaced.
        drop(UnixListener::bind(&socket).unwrap());
        // A child process of another test has a copy of the listener between its fork and its exec.
        while UnixStream::connect(&socket).is_ok() {
            std::thread::yield_now();
        }
        let admin = Listener::admin(unix_socket(&socket).unwrap()).unwrap();
        let running = serve(Arc::clone(&http), &ROUTERS, vec![public, ops, admin]);
        drop(guard);
        Self {
            public: public_at,
            ops: ops_at,
            socket,
            _folder: folder,
            gate,
            services,
            http,
            running: Some(running),
            runtime,
        }
    }

    /// Stores the partner and the user of the gate, for tests whose records refer to a user.
    pub fn enroll(&self) -> UserId {
        let (partner, _) = self
            .services
            .partners
            .add("Lab", PartnerKind::Standard, NOON)
            .unwrap()
            .wait()
            .unwrap();
        let new = NewUser {
            email: Email::parse("lab@example.com").unwrap(),
            name: None,
            country: None,
            locale: None,
            birth_date: None,
        };
        let accounts = &self.services.accounts;
        let adding = accounts.add(partner, new, FirstPassword::None, NOON, &NoPool);
        let user = pollster::block_on(adding);
        let user = user.unwrap_or_else(|error| panic!("{error}")).id;
        self.gate.enrolled.set((partner, user)).unwrap();
        user
    }

    /// The authorization header of an administrator.
    pub fn admin(&self) -> (&'static str, String) {
        (
            "Authorization",
            format!("Bearer {}", self.gate.tokens.admin.reveal()),
        )
    }

    /// Stops the server. Returns whether everything had finished in time.
    pub fn stop(&mut self, within: Duration) -> bool {
        let running = self.running.take().expect("it runs");
        self.runtime.block_on(running.stop(within))
    }
}
