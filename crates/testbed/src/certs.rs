//! The certificate authority and keys of one control plane.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Paths of the PEM files that components are started with.
#[derive(Debug)]
pub(crate) struct Certs {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Certs {
    /// Makes an authority, the API server's certificate and the service account key in `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "headstart-testbed");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        write(&dir.join("ca.crt"), &ca.self_signed(&ca_key)?.pem())?;

        let certs = Self { dir: dir.to_owned(), issuer: Issuer::new(ca, ca_key) };
        let names = [
            "localhost",
            "127.0.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "10.96.0.1",
        ];
        let server = CertificateParams::new(names.map(String::from))?;
        certs.issue("apiserver", server, ExtendedKeyUsagePurpose::ServerAuth)?;
        let accounts = KeyPair::generate()?;
        write(&dir.join("sa.key"), &accounts.serialize_pem())?;
        write(&dir.join("sa.pub"), &accounts.public_key_pem())?;
        Ok(certs)
    }

    /// Issues a client certificate and returns its certificate and key as PEM.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<(String, String)> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        let (certificate, key) = self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.dir.join(file).display().to_string()
    }

    fn issue(&self, name: &str, params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<()> {
        let (certificate, key) = self.sign(params, usage)?;
        write(&self.dir.join(format!("{name}.crt")), &certificate.pem())?;
        write(&self.dir.join(format!("{name}.key")), &key.serialize_pem())
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(Certificate, KeyPair)> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
