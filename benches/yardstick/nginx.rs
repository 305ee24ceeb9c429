//! nginx with a static file: one worker, keep-alive, no log.

use std::path::PathBuf;

use tempfile::TempDir;

use super::server::Server;

/// A running nginx. Dropping it ends the process.
pub struct Nginx {
    server: Server,
    _folder: TempDir,
}

impl Nginx {
    /// Serves `body` as `/x`. Returns `None` if nginx is not installed.
    pub fn start(body: &[u8]) -> Option<Self> {
        let Some(program) = program() else {
            println!("no nginx here: its row is left out");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        std::fs::create_dir(root.join("www")).expect("the folder can be written");
        std::fs::write(root.join("www/x"), body).expect("the folder can be written");
        // nginx cannot pick a free port itself.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("a bound socket");
        drop(free);
        let at = root.display();
        // One process, so that the measured process does all the work. As root it would give its files to another user.
        let settings = format!(
            "daemon off; master_process off; pid {at}/pid; error_log stderr error;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush off; keepalive_requests 1000000000;\n\
             client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3;\n\
             uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;\n\
             server {{ listen {address}; root {at}/www; }} }}\n"
        );
        let file = root.join("nginx.conf");
        std::fs::write(&file, settings).expect("the folder can be written");
        let server = Server::silent(
            &program.to_string_lossy(),
            &["-p", &root.to_string_lossy(), "-c", &file.to_string_lossy()],
            &address.to_string(),
        );
        Some(Self {
            server,
            _folder: folder,
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os("PLAYGATE_NGINX").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("nginx"));
    named.into_iter().chain(found).find(|file| file.is_file())
}
