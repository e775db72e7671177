//! Certificates and pre-shared keys, made by the tools that the manual names.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::tools;

/// The programs that [`Keys`] needs.
pub const TOOLS: [&str; 2] = ["certtool", "psktool"];

/// A folder of folders with keys:
///
/// * `server`: what the server shows, and the authority it trusts;
/// * `client`: a client's certificate, and the authority that signed the server's;
/// * `anonymous`: the authority alone;
/// * `stranger`: the same names, from another authority;
/// * `psk/keys.psk`, `wrong/keys.psk`: the key of `alice`, and another one.
pub struct Keys {
    folder: TempDir,
}

impl Keys {
    /// Makes certificates.
    pub fn certificates() -> Self {
        let keys = Keys { folder: TempDir::new().unwrap() };
        for (authority, place) in [("ca", ""), ("other", "stranger")] {
            keys.authority(authority);
            for folder in ["server", "client", "anonymous", "stranger"] {
                let wanted = if place.is_empty() { folder != "stranger" } else { folder == place };
                if wanted {
                    fs::create_dir_all(keys.path(folder)).unwrap();
                    let copy = keys.path(folder).join("ca-cert.pem");
                    fs::copy(keys.path(&format!("{authority}.pem")), copy).unwrap();
                }
            }
        }
        let names = "dns_name = \"localhost\"\nip_address = \"127.0.0.1\"\ntls_www_server\n";
        keys.signed("ca", "server", "server", names);
        keys.signed("ca", "client", "client", "tls_www_client\n");
        keys.signed("other", "stranger", "client", "tls_www_client\n");
        keys
    }

    /// Makes pre-shared keys.
    pub fn psk() -> Self {
        let keys = Keys { folder: TempDir::new().unwrap() };
        for folder in ["psk", "wrong"] {
            fs::create_dir(keys.path(folder)).unwrap();
            let file = keys.path(folder).join("keys.psk");
            tools::ok(
                "psktool",
                &["-u".as_ref(), "alice".as_ref(), "-p".as_ref(), file.as_os_str()],
            );
        }
        keys
    }

    /// A file or folder of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as words of a command line; it has no spaces.
    pub fn word(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Revokes the certificate of `client`, in what `server` knows.
    pub fn revoke_client(&self) {
        self.template("crl", "crl_next_update = 30\ncrl_number = 1\n");
        let list = self.path("server").join("ca-crl.pem");
        self.certtool(&[
            "--generate-crl".as_ref(),
            "--load-ca-privkey".as_ref(),
            &self.path("ca.key"),
            "--load-ca-certificate".as_ref(),
            &self.path("ca.pem"),
            "--load-certificate".as_ref(),
            &self.path("client/client-cert.pem"),
            "--template".as_ref(),
            &self.path("crl.cfg"),
            "--outfile".as_ref(),
            &list,
        ]);
    }

    fn authority(&self, name: &str) {
        let (key, cert) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.pem")));
        self.key(&key);
        self.template(
            name,
            &format!(
                "cn = \"{name}\"\nca\ncert_signing_key\ncrl_signing_key\nexpiration_days = 30\n"
            ),
        );
        self.certtool(&[
            "--generate-self-signed".as_ref(),
            "--load-privkey".as_ref(),
            &key,
            "--template".as_ref(),
            &self.path(&format!("{name}.cfg")),
            "--outfile".as_ref(),
            &cert,
        ]);
    }

    /// `folder/kind-cert.pem` and `folder/kind-key.pem`, signed by an authority.
    fn signed(&self, authority: &str, folder: &str, kind: &str, usage: &str) {
        let key = self.path(folder).join(format!("{kind}-key.pem"));
        self.key(&key);
        self.template(
            folder,
            &format!("cn = \"{kind}\"\nsigning_key\nencryption_key\nexpiration_days = 30\n{usage}"),
        );
        self.certtool(&[
            "--generate-certificate".as_ref(),
            "--load-privkey".as_ref(),
            &key,
            "--load-ca-certificate".as_ref(),
            &self.path(&format!("{authority}.pem")),
            "--load-ca-privkey".as_ref(),
            &self.path(&format!("{authority}.key")),
            "--template".as_ref(),
            &self.path(&format!("{folder}.cfg")),
            "--outfile".as_ref(),
            &self.path(folder).join(format!("{kind}-cert.pem")),
        ]);
    }

    /// On an elliptic curve, which is made at once.
    fn key(&self, file: &Path) {
        // QEMU 10 wants keys that may encipher keys, which elliptic curves cannot.
        let words = ["--generate-privkey", "--key-type=rsa", "--bits=2048", "--outfile"];
        let words = words.map(Path::new);
        self.certtool(&[&words[..], &[file]].concat());
    }

    fn template(&self, name: &str, text: &str) {
        fs::write(self.path(&format!("{name}.cfg")), text).unwrap();
    }

    fn certtool(&self, arguments: &[&Path]) {
        tools::ok("certtool", arguments);
    }
}
